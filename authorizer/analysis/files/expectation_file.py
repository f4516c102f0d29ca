"""File of expectations, in TOML.

[[expect]]
name = "nobody but team-pii ever reads pii-*"
only = ["User:team-pii"]                # or allow = [...], deny = [...]
operation = ["Read"]                    # one or several
topic = "pii-*"                         # or group, transactional_id, ...; cluster = true
host = "10.0.0.0/8"                     # an address or a network; default: all hosts
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final, Literal, NamedTuple

import msgspec

from authorizer.analysis.files.parsing import RESOURCES, FileFormatError, parse_names
from authorizer.analysis.permissions.access_queries import answers_for, below_prefix, permitted_principals
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.permissions.request_class import PrincipalSet, RequestClass, request_classes
from authorizer.analysis.request_space.host_answers import OPERATION_BITS, Answer, subtract
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import CLUSTER_NAME, AclOperation, ResourceType
from records.columns.acl_table import AclTable
from records.principal import WILDCARD_PRINCIPAL, parse_kafka_principal


class Expectation(NamedTuple):
    """An expected answer for an operation on a name, or on all names with a prefix.

    Attributes:
        kind: ``allow``: each of the principals may, on every name from every host; ``deny``: none of them
            may, on any name from any host; ``only``: no other principal may, except super users.
        network: only hosts in this network; None: all hosts.
    """

    kind: Literal["allow", "deny", "only"]
    principals: tuple[str, ...]
    operation: AclOperation
    resource_type: ResourceType
    names: Key
    network: IPv4Network | IPv6Network | None = None


def violations(
    table: AclTable, settings: AuthorizerSettings, expected: Expectation
) -> Iterator[RequestClass]:
    """Yield each class of requests with another answer than expected, with a witness in the network."""
    for requests in _violations(table, settings, expected):
        host = (
            requests.witness.host if expected.network is None else requests.hosts.example_in(expected.network)
        )
        if host is not None:
            yield requests._replace(witness=requests.witness._replace(host=host))


def _violations(
    table: AclTable, settings: AuthorizerSettings, expected: Expectation
) -> Iterator[RequestClass]:
    kind, principals, operation, resource_type, names, _ = expected
    if kind == "only":
        exempt = {*principals, *settings.super_users}
        yield from permitted_principals(table, settings, resource_type, names, operation, exempt=exempt)
        return
    permissions = EffectivePermissions.of(table, settings, principals)
    for principal in principals:
        answers = below_prefix(
            answers_for(permissions, principal, resource_type), names, operation, resource_type
        )
        if kind == "allow":
            everything: NameMap[Answer] = NameMap(OPERATION_BITS[operation])
            expected_answers = below_prefix(everything, names, operation, resource_type)
            answers = expected_answers.combined(answers, subtract, NAME_SPACES[resource_type])
        yield from request_classes(answers, PrincipalSet.of(principal), resource_type)


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
