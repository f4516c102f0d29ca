"""/v1/acls over real HTTP and over the socket in the log's directory, with a real node on a real log."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.routes import request_state
from authorizer.sidecar.server import Sidecar
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
from records.entries import MetadataRecord
from support.node_acls import ANY_ACL, names, topic_acl
from support.nodes import SOON_S, create

PATH = "/v1/acls"
ORDERS = {
    "resourceType": "TOPIC",
    "resourceName": "orders",
    "patternType": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "READ",
    "permissionType": "ALLOW",
}


@contextmanager
def serving(
    directory: Path,
    flags: Mapping[str, str] = MappingProxyType({}),
    *,
    super_user: bool = True,
    ready: bool = True,
) -> Iterator[tuple[Node, httpx.Client, httpx.Client]]:
    """A node with its sidecar; clients over TCP and over the socket in the directory."""
    settings = {
        "aclog.log.url": str(directory),
        "aclog.log.mode": "create",
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
        "super.users": "User:ANONYMOUS" if super_user else "",
        **flags,
    }
    config = load_config(environ={}, flags=settings)
    with Node.open(config) as node, Sidecar(config) as sidecar:
        if ready:
            node.start()
            assert node.wait_until_ready(SOON_S)
        sidecar.start(node)
        local = httpx.HTTPTransport(uds=str(directory / "aclog.sock"))
        with (
            httpx.Client(base_url=sidecar.urls[0], timeout=SOON_S) as tcp,
            httpx.Client(transport=local, base_url="http://localhost", timeout=SOON_S) as unix,
        ):
            yield node, tcp, unix


def delete(client: httpx.Client, *filters: dict[str, Any]) -> httpx.Response:
    return client.request("DELETE", PATH, json={"filters": filters})


def on_cluster(operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
        AccessControlEntry("User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW),
    )


def test_acls_are_created_listed_and_removed(tmp_path: Path) -> None:
    """Each answer has the offset of the change, and the state and a request at that offset see it."""
    with serving(tmp_path / "log") as (node, client, _):
        created = client.post(PATH, json={"acls": [ORDERS, {**ORDERS, "operation": "WRITE"}]})
        assert (created.status_code, created.json()["offset"]) == (200, 2)
        read, write = [result["acl"] for result in created.json()["results"]]
        assert {key: value for key, value in read.items() if key != "id"} == ORDERS
        assert client.get("/v1/state").json()["offset"] == 2
        assert node.status().acl_count == 2

        listed = client.get(PATH, params={"resourceName": "orders", "min_offset": 2})
        assert listed.json()["offset"] == 2
        assert sorted(listed.json()["acls"], key=str) == sorted([read, write], key=str)
        assert client.get(PATH, params={"operation": "WRITE"}).json()["acls"] == [write]
        assert client.get(PATH, params={"principal": "User:b"}).json()["acls"] == []

        removed = delete(client, {"operation": "READ"}, {"resourceName": "orders"}, {"host": "nowhere"})
        assert removed.json()["offset"] == 4
        first, second, third = [result["deleted"] for result in removed.json()["results"]]
        assert (first, third) == ([read], [])
        assert sorted(second, key=str) == sorted([read, write], key=str)
        assert client.get(PATH).json() == {"offset": 4, "end_offset": 4, "acls": []}


def test_a_request_at_the_offset_of_an_answer_sees_the_write(tmp_path: Path) -> None:
    """Read your writes, by the status right after the write as by the offset in its answer."""
    question = {
        "subject": {"type": "User", "id": "a"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": "orders"},
        "context": {"host": "10.0.0.1"},
    }
    with serving(tmp_path / "log") as (node, client, _):
        for _ in range(10):
            for expected in (True, False):
                written = client.post(PATH, json={"acls": [ORDERS]}) if expected else delete(client, {})
                offset = written.json()["offset"]
                assert (node.status().end_offset, node.log.high_watermark()) == (offset, offset)
                context = {"host": "10.0.0.1", "min_offset": offset}
                answer = client.post("/access/v1/evaluation", json={**question, "context": context}).json()
                assert (answer["decision"], answer["context"]["offset"]) == (expected, offset)


def test_each_item_has_its_own_result(tmp_path: Path) -> None:
    """KIP-504: one that is refused, by Kafka's exception and code, stops none of the others."""
    bad = {**ORDERS, "resourceType": "CLUSTER"}
    with serving(tmp_path / "log") as (node, client, _):
        client.post(PATH, json={"acls": [ORDERS]})
        answer = client.post(PATH, json={"acls": [bad, ORDERS, {**ORDERS, "resourceName": "new"}]})
        assert answer.status_code == 200
        refused, there, new = answer.json()["results"]
        assert refused == {
            "error": {
                "name": "InvalidRequestException",
                "code": "INVALID_REQUEST",
                "message": "The only valid name for the CLUSTER resource is kafka-cluster",
            }
        }
        assert there == {"created": False}
        assert (new["created"], new["acl"]["resourceName"]) == (True, "new")
        assert names(node.authorizer.acls(ANY_ACL)) == {"orders", "new"}
        assert client.post(PATH, json={"acls": []}).json()["results"] == []
        assert delete(client).json()["results"] == []


def test_kafkas_acls_guard_every_listener_but_the_socket(tmp_path: Path) -> None:
    """Describe on the cluster lists, Alter changes; the owner of the log needs neither."""
    with serving(tmp_path / "log", super_user=False) as (node, tcp, unix):

        def statuses(client: httpx.Client) -> list[int]:
            body = {"acls": [{**ORDERS, "resourceName": f"t{node.status().end_offset}"}]}
            answers = (
                client.get(PATH),
                client.post(PATH, json=body),
                delete(client, {"resourceType": "TOPIC"}),
            )
            return [answer.status_code for answer in answers]

        assert statuses(tcp) == [403, 403, 403]
        assert node.log.high_watermark() == 0
        refused = tcp.post(PATH, json={"acls": [ORDERS]}).json()
        assert refused["code"] == "CLUSTER_AUTHORIZATION_FAILED"
        assert "User:ANONYMOUS on listener PLAINTEXT needs Alter on the cluster" in refused["detail"]
        assert "--operation Alter --cluster" in refused["detail"]
        # Also before it is known what is asked.
        assert tcp.post(PATH, content=b"{").status_code == 403

        assert statuses(unix) == [200, 200, 200]
        about_another = {
            "subject": {"type": "User", "id": "a"},
            "action": {"name": "READ"},
            "resource": {"type": "TOPIC", "id": "orders"},
            "context": {"host": "10.0.0.1"},
        }
        assert tcp.post("/access/v1/evaluation", json=about_another).status_code == 403
        assert unix.post("/access/v1/evaluation", json=about_another).json()["decision"] is False

        create(node, [on_cluster(AclOperation.DESCRIBE)])
        assert statuses(tcp) == [200, 403, 403]
        create(node, [on_cluster(AclOperation.ALTER)])
        assert statuses(tcp) == [200, 200, 200]


def test_the_right_to_query_others_permits_no_listing_or_change(tmp_path: Path) -> None:
    """aclog.describe.principals permits queries only."""
    flags = {"aclog.describe.principals": "User:ANONYMOUS"}
    with serving(tmp_path / "log", flags, super_user=False) as (_, tcp, _unix):
        assert tcp.get(PATH).status_code == 403
        assert tcp.post(PATH, json={"acls": [ORDERS]}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1:8180"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": ""},
    ],
    ids=str,
)
def test_a_web_page_changes_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    """A browser on this machine reaches loopback as ANONYMOUS, for whatever page it shows, and says so."""
    with serving(tmp_path / "log") as (node, client, unix):
        for each in (client, unix):
            assert each.post(PATH, json={"acls": [ORDERS]}, headers=headers).status_code == 403
            answer = each.request("DELETE", PATH, json={"filters": [{}]}, headers=headers)
            assert "web page" in answer.json()["detail"]
        assert node.log.high_watermark() == 0


def test_changes_refuse_query_parameters(tmp_path: Path) -> None:
    """A filter in the query of a DELETE is not passed over, for the body may be wider."""
    with serving(tmp_path / "log") as (_, client, _unix):
        body: dict[str, Any] = {"filters": [{}]}
        answer = client.request("DELETE", PATH, json=body, params={"principal": "User:a"})
        assert (answer.status_code, "takes no query" in answer.json()["detail"]) == (400, True)
        assert client.request("DELETE", PATH).status_code == 400


# Names that Kafka knows among anything that JSON can be.
any_value = st.sampled_from(["TOPIC", "LITERAL", "READ", "ALLOW", "User:a", "*", "ANY"]) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
any_item = st.dictionaries(st.sampled_from(sorted(ORDERS)) | st.text(max_size=3), any_value, max_size=7)
any_change = st.dictionaries(
    st.sampled_from(["acls", "filters"]), st.lists(any_item | any_value, max_size=3) | any_value, max_size=2
)


def test_no_request_gives_an_internal_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the body and the query hold: done, or a 4xx that says what is wrong."""
    with serving(tmp_path_factory.mktemp("any") / "log") as (_, _tcp, client):

        @given(
            method=st.sampled_from(["GET", "POST", "DELETE"]),
            body=any_change.map(json.dumps).map(str.encode) | st.binary(max_size=50),
            query=st.just("")
            | st.dictionaries(st.sampled_from([*ORDERS, "min_offset"]), st.text()).map(urlencode)
            | st.text("abc=&%+;", max_size=20),
        )
        def ask(method: str, body: bytes, query: str) -> None:
            answer = client.request(method, f"{PATH}?{query}" if query else PATH, content=body)
            assert answer.status_code in (200, 400, 503), answer.text
            assert answer.status_code != 503 or answer.json()["code"] == "OFFSET_NOT_VISIBLE"

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(request_state, "MIN_OFFSET_TIMEOUT_S", 0.0)
            ask()


def test_listings_and_writes_are_refused_before_the_node_is_ready(tmp_path: Path) -> None:
    """503 for all, over the socket too; never an empty list."""
    with serving(tmp_path / "log", ready=False) as (node, tcp, unix):
        for client in (tcp, unix):
            answers = (client.get(PATH), client.post(PATH, json={"acls": [ORDERS]}), delete(client, {}))
            assert [answer.status_code for answer in answers] == [503] * 3
            assert {answer.json()["code"] for answer in answers} == {"AUTHORIZER_NOT_READY"}
        assert node.log.high_watermark() == 0


def test_a_read_only_node_names_the_writer(tmp_path: Path) -> None:
    """It has no socket, and every item of a change is NOT_CONTROLLER."""
    directory = tmp_path / "log"
    with serving(directory), serving(directory, {"aclog.log.mode": "read"}) as (_, reader, _unix):
        (result,) = reader.post(PATH, json={"acls": [ORDERS]}).json()["results"]
        assert result["error"]["code"] == "NOT_CONTROLLER"
        assert "write through the node that owns it" in result["error"]["message"]
        assert (directory / "aclog.sock").is_socket()
    with serving(directory, {"aclog.log.mode": "read"}):
        assert not (directory / "aclog.sock").exists()


def test_a_waiting_write_blocks_no_other_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop is free while the disk is slow; the answer comes at the timeout, with what is known."""
    flowing = threading.Event()
    with serving(tmp_path / "log", {"aclog.acl.update.timeout.ms": "500"}) as (node, client, unix):
        append = node.log.append

        def stuck(records: Sequence[MetadataRecord], *, after: int | None) -> int:
            flowing.wait(SOON_S)
            return append(records, after=after)

        monkeypatch.setattr(node.log, "append", stuck)
        with ThreadPoolExecutor(1) as pool:
            began_s = time.monotonic()
            write = pool.submit(client.post, PATH, json={"acls": [ORDERS]})
            answered = 0
            while not write.done():
                assert unix.get("/livez").status_code == 200
                answered += 1
            assert answered > 3
            (result,) = write.result().json()["results"]
            assert time.monotonic() - began_s < SOON_S / 2
            assert result["error"]["code"] == "REQUEST_TIMED_OUT"
            assert "The outcome is unknown" in result["error"]["message"]
        flowing.set()


def test_many_concurrent_changes_are_all_applied(tmp_path: Path) -> None:
    """Every write is answered as written, once, and all are there."""
    with serving(tmp_path / "log") as (node, _tcp, _unix):
        local = httpx.AsyncHTTPTransport(uds=str(tmp_path / "log" / "aclog.sock"))

        async def write_all() -> list[httpx.Response]:
            async with httpx.AsyncClient(transport=local, base_url="http://localhost") as client:
                bodies = ({"acls": [{**ORDERS, "resourceName": f"t{number % 50}"}]} for number in range(100))
                return await asyncio.gather(*(client.post(PATH, json=body) for body in bodies))

        results = [answer.json()["results"][0]["created"] for answer in asyncio.run(write_all())]
        assert (results.count(True), results.count(False)) == (50, 50)
        assert node.status().acl_count == 50


def test_a_change_is_logged(tmp_path: Path) -> None:
    """Who, by which way in, and how much."""
    with serving(tmp_path / "log") as (_, client, unix), capture_logs() as lines:
        client.post(PATH, json={"acls": [ORDERS, {**ORDERS, "principal": "nobody"}]})
        delete(unix, {}, {})
        assert [line for line in lines if line["event"] == "acls_changed"] == [
            {
                "event": "acls_changed",
                "log_level": "info",
                "request": name,
                "caller": "User:ANONYMOUS",
                "caller_host": host,
                "listener": listener,
                "created": created,
                "deleted": deleted,
                "refused": refused,
                "offset": offset,
            }
            for name, host, listener, created, deleted, refused, offset in (
                ("CreateAcls", "127.0.0.1", "PLAINTEXT", 1, 0, 1, 1),
                ("DeleteAcls", "", "unix", 0, 1, 0, 2),
            )
        ]


def test_the_socket_belongs_to_the_owner_and_is_removed_with_the_node(tmp_path: Path) -> None:
    path = tmp_path / "log" / "aclog.sock"
    with serving(tmp_path / "log"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


def test_a_directory_without_a_socket_is_served(tmp_path: Path) -> None:
    """As on a file system without sockets: a warning with the way out, and HTTP as ever."""
    with serving(tmp_path / "log"):
        pass
    (tmp_path / "log" / "aclog.sock").write_text("not a socket")
    with capture_logs() as lines, serving(tmp_path / "log") as (node, client, _):
        create(node, [topic_acl("orders")])
        assert len(client.get(PATH).json()["acls"]) == 1
    (line,) = [line for line in lines if line["event"] == "no_local_socket"]
    assert line["reason"] == "Address already in use"
    assert "--sidecar" in line["way_out"]
