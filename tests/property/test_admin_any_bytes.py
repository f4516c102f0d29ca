"""Whatever arrives over Kafka's protocol: an error answer or a closed connection, with a logged reason."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from structlog.testing import capture_logs

from authorizer.admin_server.api import Api
from authorizer.admin_server.request import schema_of
from authorizer.admin_server.server import AdminServer
from authorizer.configuration.load import load_config
from authorizer.listeners import log_throttle
from records.ids import Uuid
from support.admin_requests import decoded, request_frame
from support.admin_sockets import answers_api_versions, connected, framed, receive
from support.example_counts import examples
from support.kio_entities import VALUES, instances, written
from support.node_acls import topic_acl
from support.nodes import create, running_node

CORRELATION_ID: Final = bytes.fromhex("0badcafe")
#: A varint and an array's count that claim as much as there can be.
HUGE: Final = (b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff" * 10)
_KIB_MAX: Final = 150_000

texts = st.text(max_size=12) | st.sampled_from(["orders", "User:a", "*", "kafka-cluster", "n" * 300])
by_kind: Final = {
    **VALUES,
    "int8": st.integers(0, 5) | VALUES["int8"],
    "string": texts,
    "bytes": st.binary(max_size=40),
}


@dataclass(frozen=True)
class Served:
    server: AdminServer
    apis: list[Api]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node on which anonymous clients may do everything, also what only brokers do."""
    config = load_config(
        environ={},
        flags={
            "aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0",
            "controller.listener.names": "PLAINTEXT",
        },
    )
    with running_node(tmp_path_factory.mktemp("any") / "log", log_mode="create") as node:
        node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
        create(node, [topic_acl("orders")])
        with AdminServer(config) as server, pytest.MonkeyPatch.context() as patched:
            server.start(node)
            patched.setattr(log_throttle, "LOG_INTERVAL_S", 0.0)
            (listeners,) = server._listeners
            yield Served(server, [api for _, api in sorted(listeners._apis.items())])


@st.composite
def frames(draw: st.DrawFn, apis: list[Api]) -> bytes:
    """A request of a served API and version, mostly with some bytes changed."""
    api = draw(st.sampled_from(apis))
    version = draw(st.sampled_from(api.versions))
    schema = schema_of(api.schema, version, EntityType.request)
    body = bytearray(written(draw(instances(schema, by_kind))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        changed = draw(st.binary(max_size=8) | st.sampled_from(HUGE))
        body[at : at + draw(st.integers(0, 8))] = changed
    if draw(st.booleans()):
        version = draw(st.integers(-(2**15), 2**15 - 1) | st.integers(0, 20))
    key = draw(st.sampled_from([api.key] * 9 + [-1, 0, 1, 32_767]))
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + CORRELATION_ID
    client_id = draw(st.sampled_from([b"\xff\xff", b"\0\0", b"\0\x02ab", b"\x7f\xff", b"\0\x01\xff"]))
    tags = (
        draw(st.sampled_from([b"\0"] * 6 + [b"\x02\0\0\x01\0", *HUGE]))
        if schema.__header_schema__.__flexible__
        else b""
    )
    frame = header + client_id + tags + bytes(body)
    return frame[: draw(st.integers(0, len(frame)))] if draw(st.integers(0, 9)) == 0 else frame


@st.composite
def envelopes(draw: st.DrawFn, apis: list[Api]) -> bytes:
    """An envelope that can be read, with any request and mostly a principal and an address."""
    principal = bytes.fromhex("0000 0555736572 0a414e4f4e594d4f5553 00 00")  # User:ANONYMOUS
    values = {
        "request_data": draw(frames(apis) | st.binary(max_size=40)),
        "request_principal": draw(st.just(principal) | st.none() | st.binary(max_size=20)),
        "client_host_address": draw(st.just(bytes(4)) | st.just(bytes(16)) | st.binary(max_size=20)),
    }
    return request_frame("envelope", 0, values)


def exchange(server: AdminServer, sent: bytes) -> bytes | None:
    """The answer to some bytes, after which the client sends no more."""
    with connected(server) as opened:
        opened.sendall(sent)
        return receive(opened)


@settings(
    max_examples=examples(gate=200, deep=3_000),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_any_request_is_answered_or_closes_its_connection(served: Served, data: st.DataObject) -> None:
    frame = data.draw(frames(served.apis))
    with capture_logs() as logged:
        answer = exchange(served.server, framed(frame)) if frame else None
    assert [each for each in logged if each["log_level"] == "error"] == []
    if answer is not None:
        assert answer[:4] == CORRELATION_ID
    elif frame:
        assert [each["reason"] != "" for each in logged if each["event"] == "admin_connection_closed"] == [
            True
        ]


@settings(
    max_examples=examples(gate=200, deep=3_000),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_any_envelope_is_answered(served: Served, data: st.DataObject) -> None:
    """Also one whose embedded request cannot be read: the connection belongs to the broker that forwards."""
    forwarded = [api for api in served.apis if api.is_change]
    with capture_logs() as logged:
        answer = exchange(served.server, framed(data.draw(envelopes(forwarded))))
    assert [each for each in logged if each["log_level"] == "error"] == []
    answered = decoded("envelope", 0, answer)
    assert answered.error_code in (
        ErrorCode.none,
        ErrorCode.unsupported_version,
        ErrorCode.invalid_request,
        ErrorCode.principal_deserialization_failure,
    )
    assert (answered.response_data is not None) == (answered.error_code is ErrorCode.none)
    if answered.response_data is not None:
        assert answered.response_data[:4] == CORRELATION_ID


@pytest.mark.parametrize(("name", "topic_id"), [(None, None), ("orders", Uuid(b"a topic's id...."))])
def test_topics_by_id_are_an_invalid_request_before_version_12(
    served: Served, name: str | None, topic_id: Uuid | None
) -> None:
    values = {
        "topics": [{"topic_id": topic_id, "name": name}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    answer = exchange(served.server, framed(request_frame("metadata", 11, values)))
    (topic,) = decoded("metadata", 11, answer).topics
    assert (topic.error_code, topic.name) == (ErrorCode.invalid_request, name or "")


@given(st.binary(max_size=200))
@example((2**31 - 1).to_bytes(4, "big"))
@example((-1).to_bytes(4, "big", signed=True))
@example(bytes(4))
@example(b"GET / HTTP/1.1\r\n\r\n")
@example(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
def test_any_bytes_are_no_internal_error(served: Served, sent: bytes) -> None:
    with capture_logs() as logged, connected(served.server) as opened:
        opened.sendall(sent)
        opened.shutdown(socket.SHUT_WR)
        receive(opened)
    assert [each for each in logged if each["log_level"] == "error"] == []


def test_what_a_request_claims_takes_no_memory(served: Served) -> None:
    """Each byte of a request replaced by the largest counts and sizes, in every version."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for api in served.apis:
        for version in api.versions:
            schema = schema_of(api.schema, version, EntityType.request)
            tags = b"\0" if schema.__header_schema__.__flexible__ else b""
            header = (
                api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + CORRELATION_ID + b"\xff\xff" + tags
            )
            for body in HUGE:
                for skipped in range(4):
                    exchange(served.server, framed(header + bytes(skipped) + body * 50))
    assert answers_api_versions(served.server)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < _KIB_MAX
