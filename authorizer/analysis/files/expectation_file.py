"""File of expectations, in TOML.

[[expect]]
name = "nobody but team-pii ever reads pii-*"
only = ["User:team-pii"]                # or allow = [...], deny = [...]
operation = ["Read"]                    # one or several
topic = "pii-*"                         # or group, transactional_id, ...; cluster = true
host = "10.0.0.0/8"                     # an address or a network; default: all hosts
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any, Final, NamedTuple

import msgspec

from authorizer.analysis.files.parsing import RESOURCES, FileFormatError, parse_names
from authorizer.analysis.queries.expectations import Expectation
from records.acl import CLUSTER_NAME, AclOperation
from records.principal import WILDCARD_PRINCIPAL, parse_kafka_principal

_KINDS: Final = ("allow", "deny", "only")


class AccessTest(NamedTuple):
    """One entry, which passes if all of its expectations do."""

    name: str
    expected: tuple[Expectation, ...]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    operation: str | list[str]
    allow: list[str] | None = None
    deny: list[str] | None = None
    only: list[str] | None = None
    topic: str | None = None
    group: str | None = None
    cluster: bool | None = None
    transactional_id: str | None = None
    delegation_token: str | None = None
    user_principal: str | None = None
    host: str | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    expect: list[_Entry]


def parse_tests(content: bytes, path: str) -> list[AccessTest]:
    """Parse the content of a file. A FileFormatError names ``path``, and the wrong line or entry."""
    try:
        entries = msgspec.toml.decode(content, type=_File).expect
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: {error}") from error
    if not entries:
        raise FileFormatError(f"{path}: there is no [[expect]] in it")
    tests = []
    for number, entry in enumerate(entries, 1):
        try:
            tests.append(AccessTest(entry.name, tuple(_expectations(entry))))
        except ValueError as error:
            where = f"{path}: [[expect]] {number} ({entry.name})"
            raise FileFormatError(f"{where}: {error}") from error
    return tests


def _expectations(entry: _Entry) -> Sequence[Expectation]:
    kind: Any = _one_of(entry, _KINDS)
    resource = _one_of(entry, tuple(RESOURCES))
    principals = getattr(entry, kind)
    for each in principals:
        parse_kafka_principal(each)
    if kind == "only" and WILDCARD_PRINCIPAL in principals:
        raise ValueError(
            f"`only` names {WILDCARD_PRINCIPAL}, which means every principal: nothing could violate it"
        )
    if not principals and kind != "only":
        raise ValueError(f"`{kind}` names no principal")
    network = None
    if entry.host is not None:
        try:
            network = ip_network(entry.host)
        except ValueError as error:
            raise ValueError(f"`{entry.host}` is neither an address nor a network: {error}") from error
    name = getattr(entry, resource)
    operations = [entry.operation] if isinstance(entry.operation, str) else entry.operation
    return [
        Expectation(
            kind,
            tuple(principals),
            _operation(each),
            RESOURCES[resource],
            parse_names(CLUSTER_NAME if name is True else name),
            network,
        )
        for each in operations
    ]


def _one_of(entry: _Entry, names: tuple[str, ...]) -> str:
    present = [name for name in names if getattr(entry, name) not in (None, False)]
    if len(present) != 1:
        raise ValueError(f"set exactly one of {', '.join(names)}")
    return present[0]


def _operation(text: str) -> AclOperation:
    operation = AclOperation.from_name(text)
    if operation < AclOperation.ALL:
        raise ValueError(f"`{text}` is no operation")
    return operation
