"""The client of a sidecar, for threads and for an event loop: one set of tests for both."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from authorizer.client import (
    AclOperation,
    AsyncClient,
    AuthorizationRequest,
    CacheSettings,
    Client,
    Credentials,
    KafkaPrincipal,
    ResourceType,
    SidecarAnswerError,
    SidecarOutcomeUnknownError,
    SidecarRefusedError,
    SidecarRequestError,
    SidecarUnavailableError,
    SidecarUnreachedError,
    calls,
)
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.routes import changes
from authorizer.sidecar.server import Sidecar
from records.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclPermissionType,
    PatternType,
    ResourcePattern,
)
from support.kafka_broker import HOST, free_ports
from support.node_acls import named, topic_acl
from support.nodes import SOON_S, create, delete, running_node, sidecar_of
from support.waiting import wait_until

ALICE = KafkaPrincipal("User", "a")
LONG = "x" * 200


def on(name: str, principal: KafkaPrincipal = ALICE) -> AuthorizationRequest:
    return AuthorizationRequest(principal, AclOperation.READ, ResourceType.TOPIC, name, "10.0.0.1")


def on_cluster(operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
        AccessControlEntry("User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW),
    )


class FromLoop:
    """An AsyncClient, called as a Client is: its loop runs in a thread."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._client = self._run(self._made(*args, **settings))

    async def _made(self, *args: Any, **settings: Any) -> AsyncClient:
        return await AsyncClient(*args, **settings).__aenter__()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SOON_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def serves_from_cache(self) -> bool:
        return bool(self._client.serves_from_cache)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *args, **settings: self._run(method(*args, **settings))


@pytest.fixture(params=[Client, FromLoop], ids=["threads", "event loop"])
def client_of(request: pytest.FixtureRequest) -> Any:
    """Makes one or the other."""
    return request.param


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """One whose callers may do everything."""
    with running_node(tmp_path / "log", log_mode="create") as started:
        create(started, [on_cluster(AclOperation.ALL), topic_acl("mine")])
        yield started


@pytest.fixture
def url(node: Node) -> Iterator[str]:
    with sidecar_of(node) as served:
        yield served


def test_decisions_have_a_reason_and_an_offset(client_of: Any, url: str) -> None:
    """One request, and many in their order, all on one state."""
    with client_of(url) as client:
        allowed = client.decide(msgspec.structs.replace(on("mine"), explain=True))
        assert (allowed.is_allowed, allowed.rule, allowed.offset) == (True, "MatchingAcl", 2)
        assert (allowed.acl.principal, allowed.acl.resource_name) == ("User:a", "mine")
        denied = client.decide(on("other"))
        assert (denied.is_allowed, denied.rule, denied.acl) == (False, "DefaultDeny", None)
        names = ["mine" if at % 3 == 0 else f"{LONG}{at}" for at in range(12_000)]
        answers = client.decide_all([on(name) for name in names])
        assert [answer.is_allowed for answer in answers] == [name == "mine" for name in names]
        assert {answer.offset for answer in answers} == {2}
        assert client.decide_all([]) == []


def test_every_other_method_answers(client_of: Any, url: str) -> None:
    """Each call of `calls`, with the answer as a value."""
    ask = (ALICE, AclOperation.READ, ResourceType.TOPIC)
    with client_of(url) as client:
        assert client.wait_until_ready(SOON_S).acl_count == 2
        assert client.ask(calls.filtered(*ask, ["x", "mine"], host="1.1.1.1")).allowed == ["mine"]
        assert client.ask(calls.by_resource_type(*ask, host="1.1.1.1")).is_allowed
        operations = client.ask(
            calls.authorized_operations(ALICE, ResourceType.TOPIC, "mine", host="1.1.1.1")
        )
        assert (operations.operations, operations.bits) == (["READ", "DESCRIBE"], 264)
        explained = client.ask(calls.explanation(on("mine")))
        assert (explained.result, explained.acl.offset) == ("ALLOWED", 1)
        created = client.ask(calls.creation([topic_acl("new"), topic_acl("mine"), topic_acl("")]))
        assert [(each.created, each.error and each.error.code) for each in created.results] == [
            (True, None),
            (False, None),
            (None, "INVALID_REQUEST"),
        ]
        listed = client.ask(calls.listing(named("new"), min_offset=created.offset)).acls
        assert listed == [created.results[0].acl]
        assert client.ask(calls.acl(listed[0].id)).offset == 2
        deleted = client.ask(calls.deletion([named("new")]))
        assert deleted.results[0].deleted == listed
        assert client.ask(calls.listing(named("new"))).acls == []
        assert client.decide(on("new"), at_offset=created.offset - 1).is_allowed
        assert not client.decide(on("new"), min_offset=deleted.offset).is_allowed
        assert client.ask(calls.state()).acl_count == 2


def test_errors_name_their_cause(client_of: Any, node: Node, url: str) -> None:
    with client_of(url, timeout_s=4) as client:
        with pytest.raises(SidecarRequestError) as not_held:
            client.decide(on("mine"), at_offset=0)
        assert (not_held.value.status, not_held.value.code, url in str(not_held.value)) == (
            410,
            "OFFSET_NOT_HELD",
            True,
        )
        no_address = AuthorizationRequest(ALICE, AclOperation.READ, ResourceType.TOPIC, "t", "example.org")
        for questions in ([no_address], [on("t"), no_address]):
            with pytest.raises(SidecarRequestError, match="address"):
                client.decide_all(questions)
        with pytest.raises(SidecarUnavailableError) as late:
            client.decide(on("mine"), min_offset=99)
        assert late.value.status in (503, None)
        delete(node, CLUSTER_NAME)
        for questions in ([on("t")], [on("t"), on("u")]):
            with pytest.raises(SidecarRefusedError) as refused:
                client.decide_all(questions)
            assert (refused.value.status, refused.value.code) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        with pytest.raises(SidecarRefusedError):
            client.ask(calls.creation([topic_acl("t")]))


@pytest.mark.parametrize(
    ("url", "credentials", "message"),
    [
        ("127.0.0.1:8180", None, "no sidecar's address"),
        ("http://127.0.0.1:many", None, "no sidecar's address"),
        ("http://127.0.0.1:1/path", None, "no sidecar's address"),
        ("http://acls.example.org", Credentials(token="x"), "over https"),
    ],
)
def test_an_invalid_address_is_refused(url: str, credentials: Credentials | None, message: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=message):
            kind(url, credentials=credentials)


def test_a_unix_socket_may_have_a_path_of_any_length(client_of: Any, tmp_path: Path) -> None:
    """The socket in the log's directory."""
    directory = tmp_path / LONG
    with running_node(directory / "log", log_mode="create") as node, sidecar_of(node):
        assert len(str(directory)) > 108
        with client_of(f"unix:{directory}/log/aclog.sock") as client:
            assert client.ask(calls.creation([topic_acl("t")])).results[0].created
            assert client.decide(on("t")).is_allowed


def test_an_invalid_request_is_an_error_or_denied(client_of: Any) -> None:
    """As the caller chose; never ALLOWED, and within its time."""
    (free,) = free_ports(1)
    address = f"http://{HOST}:{free}"
    began_s = time.monotonic()
    with client_of(address, timeout_s=0.3) as client, pytest.raises(SidecarUnreachedError, match="refused"):
        client.decide(on("mine"))
    with client_of(address, timeout_s=0.3, when_unavailable="deny") as client:
        [one, two] = client.decide_all([on("mine"), on("t")])
        assert (one.is_allowed, one.rule, one.was_decided) == (False, "Unavailable", False)
        assert "refused" in two.reason
        with pytest.raises(SidecarUnreachedError):
            client.ask(calls.listing())
    assert time.monotonic() - began_s < SOON_S


def test_the_client_waits_for_a_starting_sidecar(client_of: Any, node: Node) -> None:
    """First nothing answers, then it is not ready, then it decides: a caller sees no more than the time."""
    (port,) = free_ports(1)
    config = load_config(environ={}, flags={"aclog.listeners": f"PLAINTEXT://{HOST}:{port}"})
    node.authorizer.on_not_ready("for a test")

    def serve() -> None:
        time.sleep(0.2)  # the client is refused during this time
        with Sidecar(config) as sidecar:
            sidecar.start(node)
            time.sleep(0.2)  # the client learns that the node is not ready during this time
            node.authorizer.on_ready()
            answered.wait(SOON_S)

    answered = threading.Event()
    serving = threading.Thread(target=serve)
    serving.start()
    try:
        with client_of(f"http://{HOST}:{port}", timeout_s=SOON_S) as client:
            assert client.decide(on("mine")).is_allowed
    finally:
        answered.set()
        serving.join()


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that is none: each connection gets one of these, and is closed. Its address, what it got."""
    got: list[bytes] = []
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            for answer in answers:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test is over
                    return
                with connection, connection.makefile("rb") as stream:
                    head = b"".join(iter(stream.readline, b"\r\n"))
                    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                    got.append(stream.read(int(length[1])) if length else b"")
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.getsockname()[1]}", got
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


LOADING = (
    b"HTTP/1.1 503 x\r\ncontent-type: application/problem+json\r\naclog-error: AUTHORIZER_NOT_READY\r\n"
    b'connection: close\r\n\r\n{"code":"AUTHORIZER_NOT_READY","detail":"loading"}'
)
CREATED = (
    b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"offset":3,"end_offset":3,"results":[{"created":false}]}'
)


def test_a_change_is_retried_only_if_it_had_no_effect(client_of: Any) -> None:
    """Not ready: retried. No answer, or a defect: the outcome is unknown, and the error says so."""
    change = calls.creation([topic_acl("t")])
    began_s = time.monotonic()
    later = LOADING.replace(b"connection:", b"retry-after: 1\r\nconnection:")
    with answering(LOADING, later, CREATED) as (url, got), client_of(url) as client:
        assert client.ask(change).offset == 3
        assert (len(got), time.monotonic() - began_s >= 1) == (3, True)
    for answer in (b"", LOADING.replace(b"503", b"500")):
        with answering(answer, CREATED) as (url, got), client_of(url) as client:
            with pytest.raises(SidecarOutcomeUnknownError):
                client.ask(change)
            assert len(got) == 1
    with answering(b"", CREATED.replace(b"results", b"acls").replace(b'{"created":false}', b"")) as (
        url,
        got,
    ):
        with client_of(url) as client:
            assert client.ask(calls.listing()).acls == []
        assert len(got) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>",
        b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\nnone",
        b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"decision":true,"context":{}}',
    ],
)
def test_a_server_that_is_no_sidecar_decides_nothing(client_of: Any, answer: bytes) -> None:
    """An ALLOWED that does not say on which state is none of a sidecar's."""
    with (
        answering(answer) as (url, _),
        client_of(url, when_unavailable="deny") as client,
        pytest.raises(SidecarAnswerError, match="does not answer as an aclog node does"),
    ):
        client.decide(on("mine"))


KEPT = CacheSettings(max_age_s=600)


def test_changes_update_a_cache(client_of: Any, node: Node, url: str) -> None:
    """What is asked twice is asked once, until an ACL changes that may touch it."""

    def request_count() -> float:
        counts = node.authorizer.metrics
        return counts.allowed + counts.denied

    with client_of(url, cache=KEPT) as client:
        wait_until(lambda: client.serves_from_cache)
        assert [client.decide(on(name)).is_allowed for name in ("mine", "other")] == [True, False]
        before = request_count()
        both = client.decide_all([on("mine"), on("other"), on("mine")])
        assert ([each.is_allowed for each in both], request_count()) == ([True, False, True], before)
        create(node, [topic_acl("other")])
        end = node.status().end_offset
        assert client.decide(on("other"), min_offset=end).is_allowed
        wait_until(lambda: client.decide(on("other")).is_allowed)
        delete(node, "mine")
        wait_until(lambda: not client.decide(on("mine")).is_allowed)
        assert client.decide(on("mine"), at_offset=end - 1).is_allowed


def test_a_cache_sends_requests_while_the_change_feed_is_down(
    client_of: Any, node: Node, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that ends is opened again, and what was kept is served again; between them it asks."""
    monkeypatch.setattr(changes, "STREAM_S", 0.3)
    monkeypatch.setattr(changes, "HEARTBEAT_S", 0.1)
    with client_of(url, cache=KEPT) as client:
        wait_until(lambda: client.serves_from_cache)
        assert client.decide(on("mine")).is_allowed
        wait_until(lambda: not client.serves_from_cache)
        create(node, [topic_acl("mine", permission=AclPermissionType.DENY)])
        assert not client.decide(on("mine"), min_offset=node.status().end_offset).is_allowed
        for _ in range(3):
            wait_until(lambda: client.serves_from_cache)
            assert not client.decide(on("mine")).is_allowed
            wait_until(lambda: not client.serves_from_cache)


def test_a_caller_without_the_change_feed_is_answered_without_a_cache(
    client_of: Any, node: Node, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged once, not for each retry."""
    delete(node, CLUSTER_NAME)
    myself = KafkaPrincipal("User", "ANONYMOUS")
    with caplog.at_level(logging.WARNING, "authorizer.client"), client_of(url, cache=KEPT) as client:
        wait_until(lambda: caplog.records)
        assert not client.decide(on("mine", myself)).is_allowed
        time.sleep(0.5)  # the client retries during this time
        assert not client.serves_from_cache
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        wait_until(lambda: client.serves_from_cache)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Describe on the cluster" in caplog.text


def test_a_closed_client_leaves_no_thread_and_socket(client_of: Any, url: str) -> None:
    """No thread, no connection: a warning about one would fail the test."""
    before = threading.active_count()
    began_s = time.monotonic()
    with client_of(url, cache=KEPT) as client:
        wait_until(lambda: client.serves_from_cache)
    gc.collect()
    assert time.monotonic() - began_s < SOON_S
    assert not [each for each in threading.enumerate() if each.name == "aclog-changes"]
    assert threading.active_count() <= before + 1


def test_the_examples_of_the_document_run(url: str) -> None:
    """The Python blocks of docs/client.md, in their order, on a real sidecar."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    shown: dict[str, object] = {}
    for block in blocks:
        exec(compile(block.replace("http://127.0.0.1:8180", url), "docs/client.md", "exec"), shown)
    assert len(blocks) == 3


LIGHT = """
import json, sys
import authorizer.client
print(json.dumps(sorted(sys.modules)))
"""


def test_the_client_imports_only_what_requests_need() -> None:
    """No log, numpy, server, Kafka client or Spark. Counted, not timed."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, check=True)
    modules = set(json.loads(done.stdout))
    ours = {name.partition(".")[0] for name in modules} & {"authorizer", "records", "snapshot", "replay"}
    heavy = {
        "confluent_kafka",
        "immutables",
        "numpy",
        "pyarrow",
        "pyspark",
        "starlette",
        "structlog",
        "uvicorn",
    }
    assert ours == {"authorizer", "records"}
    assert not modules & heavy
    assert not [name for name in modules if name.startswith(("records.log", "records.columns"))]
