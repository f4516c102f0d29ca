"""Requests to Java's Admin (AskAdmin.java), and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from support.admin_requests import without_request
from support.kafka_tools import run_program

PROGRAM: Final = Path(__file__).with_name("AskAdmin.java")
EVERY: Final = ["ANY", None, "ANY", None, None, "ANY", "ANY"]
ACL: Final = ["TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"]
#: Of a client that does not try again for long.
TIMEOUTS: Final = {"request.timeout.ms": "20000", "default.api.timeout.ms": "30000"}


def changed(acl: list[Any], **changes: Any) -> list[Any]:
    """With other values of some of its seven fields."""
    fields = ("type", "name", "pattern", "principal", "host", "operation", "permission")
    return [changes.get(field, value) for field, value in zip(fields, acl, strict=True)]


DESCRIPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"request": "describeCluster"},
    {"request": "describeTopics", "names": ["orders"]},
    {"request": "describeTopics", "names": ["orders", "payments", "unknown", "not a name", ""]},
    {"request": "describeConsumerGroups", "names": ["team", "g", ""]},
)
READS: Final[tuple[dict[str, Any], ...]] = ({"request": "describeAcls", "filter": EVERY}, *DESCRIPTIONS)
WRITES: Final[tuple[dict[str, Any], ...]] = (
    {"request": "createAcls", "acls": [changed(ACL, name="created"), changed(ACL, principal="nobody")]},
    {"request": "createAcls", "acls": []},
    {"request": "deleteAcls", "filters": [changed(EVERY, name="created"), changed(EVERY, name="none")]},
)

ClientRequests = tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]


def answers(version: str, *sent: ClientRequests, options: Sequence[str] = ()) -> list[list[list[str]]]:
    """The results of each client's requests, one client after the other; ``options`` are the JVM's."""
    lines = [{**each, "client": client} for client, requests in sent for each in requests]
    results = iter(run_program(PROGRAM, lines, version=version, timeout_s=180, options=options))
    return [[next(results) for _ in requests] for _, requests in sent]


def comparable(results: Sequence[Sequence[str]]) -> list[list[str]]:
    """Without a refusal's description of the request."""
    return [[without_request(each) for each in result] for result in results]


def creation(acl: Sequence[Any]) -> dict[str, Any]:
    """The fields of CreateAcls, in their order."""
    kind, name, pattern, principal, host, operation, permission = acl
    return {
        "resource_type": ResourceType[kind],
        "resource_name": name,
        "resource_pattern_type": PatternType[pattern],
        "principal": principal,
        "host": host,
        "operation": AclOperation[operation],
        "permission_type": AclPermissionType[permission],
    }
