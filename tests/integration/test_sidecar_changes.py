"""/v1/changes over real HTTP: what changed, behind what, and when to list anew; and who may follow."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from authorizer.node import change_feed
from authorizer.node.node import Node
from authorizer.sidecar.routes import changes, request_state
from records.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, delete, node_with_client, running_node, sidecar_of
from support.update_publisher import UpdatePublisher
from support.waiting import wait_until

PATH = "/v1/changes"
MAY_LIST = AclBinding(
    ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
    AccessControlEntry("User:ANONYMOUS", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
)


class Event(dict[str, Any]):
    """One event: its data; ``name`` and ``id`` beside it."""

    name: str = ""
    id: int | None = None


def events(response: httpx.Response) -> Iterator[Event | None]:
    """What a stream says; None for a comment."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line.startswith(":"):
            yield None
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            event = Event(json.loads(fields["data"]))
            event.name, event.id = fields["event"], int(fields["id"]) if "id" in fields else None
            fields = {}
            yield event


@contextmanager
def following(client: httpx.Client, last: int | None = None) -> Iterator[Iterator[Event | None]]:
    headers = {} if last is None else {"last-event-id": str(last)}
    with client.stream("GET", PATH, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield events(response)


def news(stream: Iterator[Event | None]) -> Iterator[Event]:
    """The events that say more than that there is nothing else."""
    return (each for each in stream if each is not None and each.name != "current")


def some(stream: Iterator[Event | None], name: str) -> Event:
    """The next event that is one of the news, and has this name."""
    event = next(news(stream))
    assert event.name == name, event
    return event


@pytest.fixture
def node_and_client(tmp_path: Path) -> Iterator[tuple[Node, httpx.Client]]:
    """The caller may describe the cluster."""
    with node_with_client(tmp_path / "log") as (node, client):
        create(node, [MAY_LIST])
        yield node, client


def test_changes_are_streamed_as_they_happen(node_and_client: tuple[Node, httpx.Client]) -> None:
    """From now on; complete ACLs, as in a listing, and the offset of the resulting state as the id."""
    node, client = node_and_client
    with following(client) as stream:
        start = some(stream, "start")
        assert (start["offset"], start.id) == (1, 1)
        create(node, [topic_acl("t"), topic_acl("u")])
        change = some(stream, "change")
        listed = client.get("/v1/acls", params={"resourceType": "TOPIC"}).json()
        assert (change.id, change["offset"], change["removed"]) == (3, 3, [])
        assert sorted(change["added"], key=str) == sorted(listed["acls"], key=str)
        delete(node, "t")
        change = some(stream, "change")
        assert (change.id, change["added"]) == (4, [])
        assert change["removed"] == [acl for acl in listed["acls"] if acl["resourceName"] == "t"]


def test_a_stream_resumes_after_an_event_or_a_listing(node_and_client: tuple[Node, httpx.Client]) -> None:
    """Last-Event-ID: nothing twice and nothing left out."""
    node, client = node_and_client
    listed = client.get("/v1/acls").json()["offset"]
    for name in "abc":
        create(node, [topic_acl(name)])
    with following(client, listed) as stream:
        assert some(stream, "start")["offset"] == listed
        seen = [some(stream, "change") for _ in "abc"]
        assert [event["added"][0]["resourceName"] for event in seen] == ["a", "b", "c"]
    with following(client, seen[1].id) as stream:
        some(stream, "start")
        assert some(stream, "change")["added"] == seen[2]["added"]


@pytest.mark.parametrize("last", [0, 2, 99])
def test_an_unknown_offset_is_answered_with_a_reload(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """Too long ago, within an update, or of another log: the first event, and then it goes on from there."""
    node, client = node_and_client
    monkeypatch.setattr(request_state, "MIN_OFFSET_TIMEOUT_S", 0.1)
    monkeypatch.setattr(change_feed, "CHANGES_MAX", 1)
    create(node, [topic_acl("a"), topic_acl("b")])
    with following(client, last) as stream:
        reload = some(stream, "reload")
        assert (reload.id, reload["offset"]) == (3, 3)
        assert "list all ACLs anew" in reload["reason"]
        create(node, [topic_acl("c")])
        assert some(stream, "change")["added"][0]["resourceName"] == "c"


def test_a_reload_of_the_node_is_announced(node_and_client: tuple[Node, httpx.Client]) -> None:
    """I5, I11; and that it is not ready, and is again."""
    node, client = node_and_client
    with following(client) as stream:
        some(stream, "start")
        node.authorizer.on_not_ready("the log is gone")
        node.changes.on_not_ready("the log is gone")
        assert some(stream, "not-ready")["reason"] == "the log is gone"
        image = node.authorizer.state.index.image
        known = node.changes.retained
        # As the loader does with a snapshot in place of everything.
        UpdatePublisher(node.changes).reload(end_offset=known.end)
        node.authorizer.on_ready()
        node.changes.on_ready()
        assert some(stream, "ready")["offset"] == image.provenance.end_offset
        assert some(stream, "reload").id == known.end


def test_a_slow_client_gets_a_reload_and_uses_no_memory(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads nothing while more changes come than are held; others are answered meanwhile."""
    node, client = node_and_client
    monkeypatch.setattr(change_feed, "ACLS_MAX", 4_000)
    split = urlsplit(str(client.base_url))
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.settimeout(SOON_S)
        slow.connect((split.hostname, split.port))
        slow.sendall(b"GET /v1/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"event: start" in read_until(slow, b"event: start")
        for number in range(20):
            create(node, [topic_acl(f"{number}.{'x' * 200}.{each}") for each in range(1_500)])
            assert client.get("/livez").status_code == 200
        create(node, [topic_acl("last")])
        end = node.status().end_offset
        read = read_until(slow, b"id: %d\n" % end)
        assert b"event: reload\n" in read


def read_until(wire: socket.socket, wanted: bytes) -> bytes:
    read = bytearray()
    while wanted not in read:
        piece = wire.recv(65_536)
        assert piece, bytes(read[-200:])
        read += piece
    return bytes(read)


def test_a_quiet_stream_reports_its_offset(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the missed events, and then every few seconds; a stream can resume from that id."""
    monkeypatch.setattr(changes, "HEARTBEAT_S", 0.05)
    node, client = node_and_client
    create(node, [topic_acl("t")])
    with following(client, 1) as stream:
        named = [next(stream) for _ in range(4)]
        assert [each and each.name for each in named] == ["start", "change", "current", "current"]
        last = named[-1]
        assert last is not None
        assert (last.id, last["offset"]) == (2, 2)
        node.authorizer.on_not_ready("for a test")
        node.changes.on_not_ready("for a test")
        while (event := next(stream)) is not None:
            assert event.name in ("current", "not-ready")
        # While it is not ready it says no more than that it is alive.
        assert next(stream) is None
        node.authorizer.on_ready()
        node.changes.on_ready()
        assert some(stream, "ready").id is None
    with following(client, last.id) as stream:
        create(node, [topic_acl("u")])
        assert some(stream, "start").id == 2
        assert some(stream, "change")["added"][0]["resourceName"] == "u"


def test_following_requires_the_right_to_list_acls(tmp_path: Path) -> None:
    """Nor who may only ask about others; a stream ends when the right does."""
    with node_with_client(tmp_path / "log", describe_principals="User:ANONYMOUS") as (node, client):
        refused = client.get(PATH)
        assert (refused.status_code, refused.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        create(node, [MAY_LIST])
        with following(client) as stream:
            some(stream, "start")
            delete(node, CLUSTER_NAME)
            create(node, [topic_acl("secret")])
            assert list(news(stream)) == []
        assert client.get(PATH).status_code == 403


def test_a_stream_ends_so_that_its_client_reconnects(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who it is was asked at its beginning alone; nothing is left out by that."""
    monkeypatch.setattr(changes, "STREAM_S", 0.2)
    monkeypatch.setattr(changes, "HEARTBEAT_S", 0.05)
    node, client = node_and_client
    with following(client) as stream:
        assert some(stream, "start").id == 1
        assert list(news(stream)) == []
    create(node, [topic_acl("t")])
    with following(client, 1) as stream:
        some(stream, "start")
        assert some(stream, "change").id == 2


def test_the_number_of_streams_is_limited(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After; a place is free when a client has left, heard or not."""
    monkeypatch.setattr(changes, "STREAMS_MAXIMUM", 2)
    node, client = node_and_client
    with following(client) as one, following(client) as two:
        some(one, "start")
        some(two, "start")
        refused = client.get(PATH)
        assert (refused.status_code, refused.json()["code"]) == (503, "TOO_MANY_STREAMS")
        assert "retry-after" in refused.headers
    wait_until(lambda: client.head(PATH).status_code == 200)
    with following(client) as stream:
        some(stream, "start")
    assert node.status().ready


def test_a_stream_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    """A server that stops ends its streams, and does not wait for clients to leave."""
    with running_node(tmp_path / "log", log_mode="create") as node:
        create(node, [MAY_LIST])
        with httpx.Client(timeout=SOON_S) as client:
            with sidecar_of(node, sidecar_drain_timeout_ms=int(2000 * SOON_S)) as url:
                response = client.send(client.build_request("GET", url + PATH), stream=True)
                stream = events(response)
                some(stream, "start")
                began_s = time.monotonic()
            assert time.monotonic() - began_s < SOON_S
            assert list(news(stream)) == []


@pytest.mark.parametrize("last", ["x", "-1", "9" * 20])
def test_an_invalid_event_id_is_refused(node_and_client: tuple[Node, httpx.Client], last: str) -> None:
    _, client = node_and_client
    answer = client.get(PATH, headers={"last-event-id": last})
    assert (answer.status_code, "Last-Event-ID" in answer.json()["detail"]) == (400, True)


def test_streams_are_refused_before_the_node_is_ready(tmp_path: Path) -> None:
    with running_node(tmp_path / "log", log_mode="create") as node, sidecar_of(node) as url:
        node.authorizer.on_not_ready("for a test")
        assert httpx.get(url + PATH).status_code == 503
