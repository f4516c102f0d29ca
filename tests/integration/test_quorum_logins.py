"""Users of a cluster at several workers of a node, through changes of the leader of its three controllers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from support.admin_requests import ask_all, decoded, request_frame
from support.kafka_quorum import KafkaQuorum, kafka_quorum
from support.serving_process import admin_address
from support.serving_workers import Serving, serving_workers
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.long, pytest.mark.xdist_group("quorum")]

ITERATIONS: Final = 4096
#: Connections until each of two workers has had one, but for one case in half a million.
CONNECTIONS: Final = 20
SOON_S: Final = 60.0
HANDSHAKE: Final = request_frame("sasl_handshake", 1, {"mechanism": "PLAIN"})


@pytest.fixture
def quorum() -> Iterator[KafkaQuorum]:
    with kafka_quorum() as running:
        yield running


def alter(quorum: KafkaQuorum, change: Any) -> None:
    """Change a user, also while a new leader is elected."""
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap_servers, "log_level": 0})

    def is_altered() -> bool:
        try:
            for future in admin.alter_user_scram_credentials([change], request_timeout=10).values():
                future.result(SOON_S)
        except KafkaException:
            return False
        return True

    wait_until(is_altered, "the change of a user", timeout_s=SOON_S)


def create(quorum: KafkaQuorum, user: str, password: bytes) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    alter(quorum, UserScramCredentialUpsertion(user, info, password, b"some salt"))


def logs_in(address: str, user: str, password: str) -> bool:
    """On a new connection, which any worker may accept."""
    token = request_frame("sasl_authenticate", 2, {"auth_bytes": f"\0{user}\0{password}".encode()})
    answer = ask_all(address, [HANDSHAKE, token])[-1]
    return bool(answer is not None and decoded("sasl_authenticate", 2, answer).error_code == 0)


def wait_until_all_workers_know(address: str, user: str, password: str) -> None:
    wait_until(
        lambda: all(logs_in(address, user, password) for _ in range(CONNECTIONS)),
        f"{user} at all workers",
        timeout_s=SOON_S,
    )


def wait_until_loaded(serving: Serving) -> None:
    def is_loaded() -> bool:
        return len(serving.events("cluster_credentials_loaded")) >= serving.workers

    wait_until(is_loaded, "the credentials of all workers", timeout_s=SOON_S)


def test_users_of_the_cluster_log_in_through_a_change_of_the_leader(
    quorum: KafkaQuorum, tmp_path: Path
) -> None:
    """At both workers, each of which follows the log by itself; so do changes that follow."""
    create(quorum, "alice", b"before")
    settings = {
        "aclog.admin.listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "aclog.admin.scram.credentials": "log",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    with serving_workers(tmp_path, f"kraft://{quorum.controllers}", settings) as serving:
        serving.wait_until_ready()
        wait_until_loaded(serving)
        address = admin_address(serving.stderr_file)
        wait_until_all_workers_know(address, "alice", "before")
        for way, end, password in (("killed", quorum.kill, "killed"), ("stopped", quorum.stop, "stopped")):
            leader = quorum.leader()
            end(leader)
            # The last credentials remain in force meanwhile.
            assert logs_in(address, "alice", "before"), way
            create(quorum, "bob", password.encode())
            wait_until_all_workers_know(address, "bob", password)
            quorum.start(leader)
        alter(quorum, UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_512))
        create(quorum, "bob", b"last")
        # A worker that has replayed this has replayed the removal.
        wait_until_all_workers_know(address, "bob", "last")
        assert not any(logs_in(address, "alice", "before") for _ in range(4))
        assert serving.events("cluster_credentials_unavailable") == []
