"""Requests of Kafka's protocol, sent to any server as bytes, and the answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.static.constants import EntityType

from authorizer.admin_server.request import schema_of
from authorizer.admin_server.values_encoder import values_encoder
from authorizer.node.node import Node
from records.acl import AclBindingFilter
from records.flexible import MessageReader
from records.log.protocol.entity_reader import entity_reader
from support.kio_entities import written
from support.nodes import SOON_S
from support.sasl_clients import PASSWORD
from support.waiting import wait_until

CORRELATION_ID: Final = 7
#: An ACL of CreateAcls: TOPIC 2, LITERAL 3, READ 3, ALLOW 3.
ACL: Final = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
#: The filter of DescribeAcls and DeleteAcls that every ACL matches.
EVERY: Final = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
#: A broker's text has its request object, aclog's the name of the request and the principal.
_REQUEST: Final = re.compile(r"(^|(?<=Exception: ))Request .+(?= needs [A-Z_]+ permission\.$)")


def request_frame(
    name: str, version: int, values: Mapping[str, Any], *, claimed_version: int | None = None
) -> bytes:
    """A request of kio's schemas; `claimed_version`: in the header, in place of the real one."""
    schema = schema_of(name, version, EntityType.request)
    header = schema.__header_schema__(
        request_api_key=schema.__api_key__,
        request_api_version=version if claimed_version is None else claimed_version,
        correlation_id=CORRELATION_ID,
        client_id="test",
    )
    out = bytearray(written(header))
    values_encoder(schema)(out, values)
    return bytes(out)


def ask(address: str, frame: bytes, *, user: str | None = None) -> bytes | None:
    """The answer to a frame on a connection of its own; None: the server closed it.

    With `user` the connection is authenticated first, by PLAIN and the password of `sasl_clients`.
    """
    frames = [frame]
    if user is not None:
        token = f"\0{user}\0{PASSWORD}".encode()
        frames = [
            request_frame("sasl_handshake", 1, {"mechanism": "PLAIN"}),
            request_frame("sasl_authenticate", 2, {"auth_bytes": token}),
            frame,
        ]
    return ask_all(address, frames)[-1]


def ask_all(address: str, frames: Sequence[bytes]) -> list[bytes | None]:
    """The answers to frames on one connection; the last is None if the server closed it."""
    host, _, port = address.rpartition(":")
    answers: list[bytes | None] = []
    with socket.create_connection((host, int(port)), SOON_S) as opened, opened.makefile("rb") as file:
        for each in frames:
            try:
                opened.sendall(len(each).to_bytes(4, "big") + each)
                size = file.read(4)
            except ConnectionError:
                size = b""
            answers.append(file.read(int.from_bytes(size, "big")) if size else None)
            if not size:
                break
    return answers


def decoded(name: str, version: int, answer: bytes | None) -> Any:
    """The entity of an answer; None if there was none."""
    if answer is None:
        return None
    schema = schema_of(name, version, EntityType.response)
    reader = MessageReader(answer)
    header = entity_reader(schema.__header_schema__)(reader)
    assert header.correlation_id == CORRELATION_ID
    entity = entity_reader(schema)(reader)
    assert reader.at == len(answer)
    return entity


def wait_for_group_coordinator(broker: str) -> None:
    """Until a broker knows that there is no group "g": its first request creates the topic of groups."""

    def is_loaded() -> bool:
        ask(broker, request_frame("find_coordinator", 6, {"key_type": 0, "coordinator_keys": ["g"]}))
        frame = request_frame("describe_groups", 0, {"groups": ["g"]})
        answer = decoded("describe_groups", 0, ask(broker, frame))
        return bool(answer.groups[0].error_code == 0)

    wait_until(is_loaded, "a coordinator of groups")


def replace_acls(broker: str, node: Node, creations: Sequence[Mapping[str, Any]]) -> None:
    """Make these the only ACLs of a broker, and wait until it and a node that follows it have them."""
    for name, values in (("delete_acls", {"filters": [EVERY]}), ("create_acls", {"creations": creations})):
        ask(broker, request_frame(name, 3, values))
    wanted = {tuple(creation.values()) for creation in creations}

    def have_them() -> bool:
        answer = decoded("describe_acls", 3, ask(broker, request_frame("describe_acls", 3, EVERY)))
        of_broker = {
            (*pattern, acl.principal, acl.host, acl.operation, acl.permission_type)
            for each in answer.resources
            for pattern in [(each.resource_type, each.resource_name, each.pattern_type)]
            for acl in each.acls
        }
        of_node = {
            (*pattern, acl.entry.principal, acl.entry.host, acl.entry.operation, acl.entry.permission_type)
            for acl in node.authorizer.acls(AclBindingFilter())
            for pattern in [(acl.pattern.resource_type, acl.pattern.name, acl.pattern.pattern_type)]
        }
        return of_broker == wanted == of_node

    wait_until(have_them, "the ACLs")


def without_request(message: str) -> str:
    """A message, if it refuses a request without the description of that."""
    return _REQUEST.sub("Request", message)
