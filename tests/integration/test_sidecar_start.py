"""KIP-801's start with a slow log: what each listener answers to whom, at every moment until ready."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.server import Sidecar
from records.ids import METADATA_TOPIC_ID, Uuid, uuid_to_string
from records.log_batch import LogBatch
from support.certificates import Authority
from support.directory_logs import batch_bytes, write_segment
from support.nodes import SOON_S
from support.serving_workers import ROOT, serving_workers
from support.waiting import wait_until

BATCHES = 5
HEALTH = {"/": 200, "/livez": 200, "/readyz": 503, "/v1/state": 200, "/metrics": 200}


class SlowLog:
    """Gives a batch for each ``step``, and says when it has given it and was asked for the next one."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = node.log.read
        self._permits = threading.Semaphore(0)
        self._read_started = threading.Semaphore(0)
        monkeypatch.setattr(node.log, "read", self._read)

    def wait_until_read(self) -> None:
        assert self._read_started.acquire(timeout=SOON_S)

    def step(self) -> None:
        self._permits.release()

    def end(self) -> None:
        """No more delay, or a failing test would wait for it."""
        self._permits.release(1_000_000)

    def _read(self, offset: int, **limits: Any) -> Sequence[LogBatch]:
        self._read_started.release()
        assert self._permits.acquire(timeout=SOON_S)
        return self._real(offset, **limits)[:1]


def question(principal: str) -> dict[str, Any]:
    return {
        "subject": {"type": "User", "id": principal},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": "orders"},
        "context": {"host": "10.0.0.1"},
    }


def asks(client: httpx.Client, principal: str) -> tuple[int, str | bool]:
    """Status, and the decision or the error's code; in a batch of one it is the same."""
    answer = client.post("/access/v1/evaluation", json=question(principal))
    batch = client.post("/access/v1/evaluations", json={"evaluations": [question(principal)]})
    assert batch.status_code == answer.status_code, batch.text
    if answer.is_success:
        decision: bool = answer.json()["decision"]
        assert [each["decision"] for each in batch.json()["evaluations"]] == [decision]
        return answer.status_code, decision
    assert answer.headers["retry-after"]
    assert batch.headers["aclog-error"] == answer.headers["aclog-error"]
    return answer.status_code, answer.headers["aclog-error"]


NAMES = ("admin", "gateway", "other")
NOT_READY = (503, "AUTHORIZER_NOT_READY")
#: Of each listener, one for each caller.
Clients = Mapping[str, httpx.Client]


def slow_log(directory: Path) -> Path:
    """A broker's, of some batches."""
    write_segment(directory, 0, *(batch_bytes(offset) for offset in range(BATCHES)))
    (directory / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {uuid_to_string(Uuid(METADATA_TOPIC_ID))}\n"
    )
    return directory


def two_listeners(directory: Path, authority: Authority) -> dict[str, str]:
    """An early one and another one; callers are known by their certificates."""
    (directory / "ca.pem").write_text(authority.pem)
    return {
        "aclog.log.mode": "read",
        "aclog.listeners": "EARLY://localhost:0,LATE://localhost:0",
        "listener.security.protocol.map": "EARLY:SSL,LATE:SSL",
        "early.start.listeners": "EARLY",
        "ssl.keystore.location": str(authority.issue("CN=localhost").write(directory / "server.pem")),
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "super.users": "User:admin",
        "aclog.describe.principals": "User:gateway",
    }


def as_caller(name: str, directory: Path, authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem)
    context.load_cert_chain(authority.issue(f"CN={name}").write(directory / f"{name}.pem"))
    return context


def check_before_ready(early: Clients, late: Clients, health: Mapping[str, int] = HEALTH) -> None:
    """Super users are decided on the early listener; everyone else gets AUTHORIZER_NOT_READY, never DENIED.

    Health is answered on both.
    """
    assert asks(early["admin"], "admin") == (200, True)
    assert asks(early["gateway"], "admin") == (200, True)
    assert asks(early["admin"], "other") == NOT_READY
    assert asks(early["gateway"], "gateway") == NOT_READY
    assert asks(early["other"], "other") == NOT_READY
    for name in NAMES:
        assert asks(late[name], "admin") == NOT_READY
        assert asks(late[name], name) == NOT_READY
    for listener in (early, late):
        assert {path: listener["other"].get(path).status_code for path in health} == health
        for name in NAMES:
            assert listener[name].get("/v1/acls").headers["aclog-error"] == NOT_READY[1]


def check_ready(*listeners: Clients, of_all: int = 200) -> None:
    """All are decided; ``of_all``: what /readyz answers."""
    for listener in listeners:
        assert listener["other"].get("/readyz").status_code == of_all
        assert asks(listener["admin"], "admin") == (200, True)
        assert asks(listener["gateway"], "other") == (200, False)
        assert asks(listener["other"], "other") == (200, False)
        assert listener["admin"].get("/v1/acls").status_code == 200
        assert listener["other"].get("/v1/acls").status_code == 403


def test_each_listener_answers_by_the_nodes_state_until_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the super user itself, of one who may ask about others, and of one who may not."""
    authority = Authority()
    flags = {**two_listeners(tmp_path, authority), "aclog.log.url": str(slow_log(tmp_path / "log"))}
    config = load_config(environ={}, flags=flags)
    with ExitStack() as clients, Sidecar(config) as sidecar, Node.open(config) as node:
        slow = SlowLog(node, monkeypatch)
        try:
            node.start()
            sidecar.start(node)
            contexts = {name: as_caller(name, tmp_path, authority) for name in NAMES}
            early, late = (
                {
                    name: clients.enter_context(httpx.Client(base_url=url, verify=context, timeout=SOON_S))
                    for name, context in contexts.items()
                }
                for url in sidecar.urls
            )
            for offset in range(BATCHES):
                slow.wait_until_read()
                assert not node.status().ready, offset
                check_before_ready(early, late)
                slow.step()
            slow.wait_until_read()
            slow.end()
            assert node.wait_until_ready(SOON_S)
            check_ready(early, late)
        finally:
            slow.end()


@pytest.mark.slow
def test_each_worker_answers_by_its_state_until_all_are_ready(tmp_path: Path) -> None:
    """Each answers by what it has loaded itself; /readyz of any of them is that of all."""
    authority = Authority()
    permits = tmp_path / "permits"
    permits.mkdir()
    command = (sys.executable, str(ROOT / "tests/support/slow_serve.py"), str(permits), "serve")
    settings = two_listeners(tmp_path, authority)
    with (
        serving_workers(tmp_path, slow_log(tmp_path / "log"), settings, command=command) as serving,
        ExitStack() as clients,
    ):
        try:
            pids = serving.pids()
            listeners: list[dict[int, dict[str, httpx.Client]]] = []
            for url in serving.urls:
                of_workers: dict[int, dict[str, httpx.Client]] = {number: {} for number in pids}
                for name in NAMES:
                    verify = as_caller(name, tmp_path, authority)
                    each = clients.enter_context(serving.client_of_each(url, verify=verify))
                    for number, client in each.items():
                        of_workers[number][name] = client
                listeners.append(of_workers)
            early, late = listeners
            loaded = dict.fromkeys(pids, 0)

            def check_listeners() -> None:
                """At each worker, while each waits for its next batch."""
                for number, pid in pids.items():
                    wait_until((permits / f"{pid}.{loaded[number]}.asked").exists)
                for number in pids:
                    if loaded[number] < BATCHES:
                        check_before_ready(early[number], late[number])
                    else:
                        is_ready = min(loaded.values()) == BATCHES
                        check_ready(early[number], late[number], of_all=200 if is_ready else 503)

            check_listeners()
            # One is ahead, then the other one.
            for number in (0, 1, 1, 1, 1, 0, 0, 0, 1, 0):
                (permits / f"{pids[number]}.{loaded[number]}.given").touch()
                loaded[number] += 1
                check_listeners()
            assert set(loaded.values()) == {BATCHES}
        finally:
            (permits / "end").touch()


def test_an_early_listener_reveals_nothing_about_other_principals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is no super user may ask about itself alone as long, and so learns of no super user."""
    directory = tmp_path / "log"
    write_segment(directory, 0, batch_bytes(0))
    (directory / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {uuid_to_string(Uuid(METADATA_TOPIC_ID))}\n"
    )
    config = load_config(
        environ={},
        flags={
            "aclog.log.url": str(directory),
            "aclog.log.mode": "read",
            "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
            "early.start.listeners": "PLAINTEXT",
            "super.users": "User:admin",
        },
    )
    with Sidecar(config) as sidecar, Node.open(config) as node:
        slow = SlowLog(node, monkeypatch)
        try:
            node.start()
            sidecar.start(node)
            slow.wait_until_read()
            with httpx.Client(base_url=sidecar.urls[0]) as client:
                for principal in ("admin", "other", "ANONYMOUS"):
                    answer = client.post("/access/v1/evaluation", json=question(principal))
                    assert (answer.status_code, answer.headers["aclog-error"]) == (
                        503,
                        "AUTHORIZER_NOT_READY",
                    )
        finally:
            slow.end()
