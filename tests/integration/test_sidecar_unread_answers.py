"""Large answers that clients do not read: they are sent in parts, and what waits is bounded."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx
import pytest

from authorizer.configuration.load import load_config
from authorizer.engine.decisions.listing import Listing
from authorizer.node.node import Node
from authorizer.sidecar.http.limits import Limit, LoadLimiter
from authorizer.sidecar.server import Sidecar
from support.node_acls import topic_acl
from support.nodes import SOON_S, config_of, create
from support.raw_http import Wire, request
from support.serving_process import memory, serving_process
from support.waiting import wait_until

ACLS = 20_000
PER_WRITE = 10_000
CLIENTS = 60
ROOM = 128 * 1024
MEGABYTE = 1024 * 1024
LISTING = request("GET", "/v1/acls")
BIG = {"resourceType": "TOPIC", "principal": "User:a", "operation": "READ", "permissionType": "ALLOW"}


def acls(count: int) -> list[dict[str, str]]:
    """Each of some 350 bytes."""
    return [{**BIG, "resourceName": f"{number:0200}"} for number in range(count)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """With 20,000 ACLs, whose listing has some 7 MB; its callers may do everything."""
    log = tmp_path_factory.mktemp("unread") / "log"
    flags = {"aclog.log.url": str(log), "aclog.log.mode": "create", "super.users": "User:ANONYMOUS"}
    with Node.open(load_config(environ={}, flags=flags)) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        names = [f"{number:0200}" for number in range(ACLS)]
        for start in range(0, ACLS, PER_WRITE):
            create(node, [topic_acl(name) for name in names[start : start + PER_WRITE]])
        yield node


@contextmanager
def sidecar_of(node: Node, **limits: object) -> Iterator[tuple[str, LoadLimiter]]:
    settings = {f"sidecar_{name}": value for name, value in limits.items()}
    with Sidecar(config_of(listeners="PLAINTEXT://127.0.0.1:0", **settings)) as sidecar:
        sidecar.start(node)
        yield sidecar.urls[0], sidecar._load


@contextmanager
def connected_without_room(url: str) -> Iterator[Wire]:
    """A client whose kernel takes little of what it does not read."""
    split = urlsplit(url)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(SOON_S)
        connection.connect((split.hostname or "", split.port or 0))
        with connection.makefile("rb") as reader:
            yield Wire(connection, reader)


def has_begun(wire: Wire) -> bool:
    """Wait for the first bytes of its answer; whether it is 200."""
    return wire.reader.readline() == b"HTTP/1.1 200 OK\r\n"


def test_unread_listings_use_little_memory(tmp_path: Path) -> None:
    properties = tmp_path / "aclog.properties"
    properties.write_text("super.users=User:ANONYMOUS\n")
    with (
        serving_process(tmp_path, "--config", str(properties)) as (process, [url]),
        httpx.Client(base_url=url, timeout=SOON_S) as client,
        ExitStack() as stack,
    ):
        given = acls(ACLS)
        for start in range(0, ACLS, PER_WRITE):
            answer = client.post("/v1/acls", json={"acls": given[start : start + PER_WRITE]})
            assert answer.status_code == 200
        size = len(client.get("/v1/acls").content)
        assert size > ACLS * 300
        _, before = memory(process)
        wires = [stack.enter_context(connected_without_room(url)) for _ in range(CLIENTS)]
        for wire in wires:
            wire.send(LISTING)
        assert all([has_begun(wire) for wire in wires])  # noqa: C419 - each of them
        # Others are answered meanwhile.
        assert len(client.get("/v1/acls").content) == size
        _, peak = memory(process)
    assert peak - before < CLIENTS * size / 4
    assert peak - before < 100 * MEGABYTE


def test_a_listing_in_parts_is_complete(node: Node) -> None:
    """Also to many at a time, each of which reads at its own pace."""
    with sidecar_of(node) as (url, load), httpx.Client(base_url=url, timeout=SOON_S) as client:
        whole = client.get("/v1/acls").json()
        names = [acl["resourceName"] for acl in whole["acls"]]
        assert sorted(names) == [f"{number:0200}" for number in range(ACLS)]
        assert whole["offset"] == node.status().end_offset
        with client.stream("GET", "/v1/acls") as slow:
            parts = slow.iter_bytes(1000)
            begin = next(parts)
            assert client.get("/v1/acls").json() == whole
            assert json.loads(begin + b"".join(parts)) == whole
        few = client.get("/v1/acls", params={"resourceName": names[0]})
        assert int(few.headers["content-length"]) == len(few.content) < 1000
        head = client.head("/v1/acls")
        assert (head.status_code, head.content) == (200, b"")
        wait_until(lambda: load._answer_bytes == 0)


def test_unread_answers_are_counted_and_limited(node: Node) -> None:
    """A single answer may be as large as it is; what is small is answered."""
    with (
        sidecar_of(node, max_request_bytes=ROOM, max_bytes_in_flight=ROOM) as (url, load),
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        with connected_without_room(url) as wire:
            wire.send(LISTING)
            assert has_begun(wire)
            assert load._answer_bytes > ROOM
            assert f"aclog_sidecar_answer_bytes {float(load._answer_bytes)}" in client.get("/metrics").text
            refused = client.get("/v1/acls")
            assert (refused.status_code, refused.headers["aclog-error"]) == (503, "OVERLOADED")
            assert load.refused[Limit.ANSWER_BYTES_IN_FLIGHT] == 1
            # Complete answers count, too.
            filter_request = {
                "principal": "User:a",
                "host": "10.0.0.1",
                "operation": "READ",
                "resourceType": "TOPIC",
            }
            names = [f"{number:0200}" for number in range(500)]
            filtered = client.post("/v1/filter", json={**filter_request, "resourceNames": names})
            assert (filtered.status_code, filtered.headers["aclog-error"]) == (503, "OVERLOADED")
            assert client.get("/v1/acls", params={"resourceName": "none"}).status_code == 200
            # What was changed is answered for.
            changed = client.post("/v1/acls", json={"acls": acls(300)})
            assert (changed.status_code, len(changed.json()["results"])) == (200, 300)
        wait_until(lambda: load._answer_bytes == 0)
        assert client.get("/v1/acls").status_code == 200
        wait_until(lambda: load._answer_bytes == 0)


def test_no_answer_is_encoded_for_a_closed_client(node: Node) -> None:
    encoded = []
    part = Listing.part

    def counted(listing: Listing, first: int, count: int) -> object:
        encoded.append(first)
        return part(listing, first, count)

    with patch.object(Listing, "part", counted), sidecar_of(node) as (url, load):
        with connected_without_room(url) as wire:
            wire.send(LISTING)
            assert has_begun(wire)
        wait_until(lambda: load._answer_bytes == 0)
    assert len(encoded) < ACLS / 256
