"""KIP-801's start with a slow log: what each listener answers to whom, at every moment until ready."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from authorizer.configuration.load import load_config
from authorizer.node import Node
from authorizer.sidecar.server import Sidecar
from records.ids import METADATA_TOPIC_ID, Uuid, uuid_to_string
from records.log_batch import LogBatch
from support.certificates import Authority
from support.directory_logs import batch_bytes, write_segment
from support.nodes import SOON_S

BATCHES = 5
HEALTH = {"/": 200, "/livez": 200, "/readyz": 503, "/v1/state": 200, "/metrics": 200}


class SlowLog:
    """Gives a batch for each ``step``, and says when it has given it and was asked for the next one."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = node.log.read
        self._permits = threading.Semaphore(0)
        self._asked = threading.Semaphore(0)
        monkeypatch.setattr(node.log, "read", self._read)

    def wait_until_asked(self) -> None:
        assert self._asked.acquire(timeout=SOON_S)

    def step(self) -> None:
        self._permits.release()

    def end(self) -> None:
        """No more delay, or a failing test would wait for it."""
        self._permits.release(1_000_000)

    def _read(self, offset: int, **limits: Any) -> Sequence[LogBatch]:
        self._asked.release()
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


def test_what_each_listener_answers_at_every_moment_until_the_node_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Super users are decided on the early listener; everyone else gets AUTHORIZER_NOT_READY, never a DENIED.

    Health is answered on every listener. The callers are known by their certificates: the super user itself,
    one who may ask about others, and one who may not.
    """
    directory = tmp_path / "log"
    write_segment(directory, 0, *(batch_bytes(offset) for offset in range(BATCHES)))
    (directory / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {uuid_to_string(Uuid(METADATA_TOPIC_ID))}\n"
    )
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    config = load_config(
        environ={},
        flags={
            "aclog.log.url": str(directory),
            "aclog.log.mode": "read",
            "aclog.listeners": "EARLY://localhost:0,LATE://localhost:0",
            "listener.security.protocol.map": "EARLY:SSL,LATE:SSL",
            "early.start.listeners": "EARLY",
            "ssl.keystore.location": str(authority.issue("CN=localhost").write(tmp_path / "server.pem")),
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "super.users": "User:admin",
            "aclog.describe.principals": "User:gateway",
        },
    )

    def client(url: str, name: str) -> httpx.Client:
        context = ssl.create_default_context(cadata=authority.pem)
        context.load_cert_chain(authority.issue(f"CN={name}").write(tmp_path / f"{name}.pem"))
        return clients.enter_context(httpx.Client(base_url=url, verify=context, timeout=SOON_S))

    names = ("admin", "gateway", "other")
    with ExitStack() as clients, Sidecar(config) as sidecar, Node.open(config) as node:
        slow = SlowLog(node, monkeypatch)
        try:
            node.start()
            sidecar.start(node)
            early, late = ({name: client(url, name) for name in names} for url in sidecar.urls)
            for offset in range(BATCHES):
                slow.wait_until_asked()
                assert not node.status().ready, offset
                not_ready = (503, "AUTHORIZER_NOT_READY")
                assert asks(early["admin"], "admin") == (200, True)
                assert asks(early["gateway"], "admin") == (200, True)
                assert asks(early["admin"], "other") == not_ready
                assert asks(early["gateway"], "gateway") == not_ready
                assert asks(early["other"], "other") == not_ready
                for name in names:
                    assert asks(late[name], "admin") == not_ready
                    assert asks(late[name], name) == not_ready
                for listener in (early, late):
                    assert {path: listener["other"].get(path).status_code for path in HEALTH} == HEALTH
                    for name in names:
                        assert listener[name].get("/v1/acls").headers["aclog-error"] == not_ready[1]
                slow.step()
            slow.wait_until_asked()
            slow.end()
            assert node.wait_until_ready(SOON_S)
            for listener in (early, late):
                assert listener["other"].get("/readyz").status_code == 200
                assert asks(listener["admin"], "admin") == (200, True)
                assert asks(listener["gateway"], "other") == (200, False)
                assert asks(listener["other"], "other") == (200, False)
                assert listener["admin"].get("/v1/acls").status_code == 200
                assert listener["other"].get("/v1/acls").status_code == 403
        finally:
            slow.end()


def test_an_early_listener_does_not_tell_one_caller_about_another(
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
            slow.wait_until_asked()
            with httpx.Client(base_url=sidecar.urls[0]) as client:
                for principal in ("admin", "other", "ANONYMOUS"):
                    answer = client.post("/access/v1/evaluation", json=question(principal))
                    assert (answer.status_code, answer.headers["aclog-error"]) == (
                        503,
                        "AUTHORIZER_NOT_READY",
                    )
        finally:
            slow.end()
