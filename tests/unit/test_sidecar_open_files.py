"""How many connections the limit of open files admits."""

from __future__ import annotations

import resource
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from authorizer.listeners.connection_limiter import EXTRA_CONNECTIONS, ConnectionLimit, allow_connections
from authorizer.listeners.listener import Listener
from authorizer.sidecar.http.limits import LoadLimiter
from support.nodes import config_of

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "admitted", "raised_to"),
    [
        (1024, UNLIMITED, 4096, 4096 + 576),
        (1024, 65_536, 4096, 4096 + 576),
        (UNLIMITED, UNLIMITED, 4096, None),
        (65_536, 65_536, 4096, None),
        (1024, 2000, 2000 - 576, 2000),
        (800, 800, 400 - 64, None),
        (64, 64, 1, None),
    ],
)
def test_other_uses_have_reserved_files(soft: int, hard: int, admitted: int, raised_to: int | None) -> None:
    with (
        patch.object(resource, "getrlimit", return_value=(soft, hard)),
        patch.object(resource, "setrlimit") as raised,
        capture_logs() as lines,
    ):
        assert allow_connections(4096, 64) == admitted
    assert [call.args[1] for call in raised.call_args_list] == (
        [] if raised_to is None else [(raised_to, hard)]
    )
    assert [line["connections"] for line in lines] == ([] if admitted == 4096 else [admitted])


def test_each_cluster_of_a_fleet_has_files_of_its_own() -> None:
    with patch.object(resource, "getrlimit", return_value=(3000, 3000)):
        assert allow_connections(4096, 64, clusters=11) == 3000 - 576 - 640


def test_a_server_of_kafkas_protocol_shares_the_files_with_the_sidecar() -> None:
    with patch.object(resource, "getrlimit", return_value=(3000, 3000)):
        assert allow_connections(4096, 64, servers=2) == (3000 - 512 - 2 * 64) // 2
        config = config_of(admin_listeners="PLAINTEXT://127.0.0.1:0", sidecar_max_connections_per_ip=4096)
        connections = LoadLimiter(config).connections
        connections.reserve_files()
        listener = Listener(name="PLAINTEXT", url="http://127.0.0.1")
        admitted = [connections.admit(listener, "10.0.0.1") for _ in range(2000)]
        assert sum(each is not None and not each.is_extra for each in admitted) == 1180


def test_connections_follow_the_limit_of_open_files_and_so_do_those_of_an_address() -> None:
    load = LoadLimiter(config_of(sidecar_max_connections=4096, sidecar_max_connections_per_ip=2048))
    listener = Listener(name="PLAINTEXT", url="http://127.0.0.1")
    with patch.object(resource, "getrlimit", return_value=(800, 800)):
        load.connections.reserve_files()
        admissions = [load.connections.admit(listener, "10.0.0.1") for _ in range(1000)]
        admitted = [each for each in admissions if each is not None]
        assert sum(not each.is_extra for each in admitted) == 336 // 2
        assert load.connections.refused[ConnectionLimit.CONNECTIONS_PER_IP] == 1000 - 336 // 2
        admissions = [load.connections.admit(listener, f"10.0.1.{number % 200}") for number in range(1000)]
        assert sum(each is not None and not each.is_extra for each in admissions) == 336 - 336 // 2
        assert load.connections.by_listener == {"PLAINTEXT": 336 + EXTRA_CONNECTIONS}
    # A new configuration is as far as the files go.
    with patch.object(resource, "getrlimit", return_value=(10_000, 10_000)):
        load.apply(config_of(sidecar_max_connections=5000))
    assert load.connections.admit(listener, "10.0.2.1") is not None
