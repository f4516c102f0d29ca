"""Decisions of a set of ACLs on all short names, as bit masks with one bit for each name.

Like support.naive it follows the definition, and is a few hundred times as fast: the names that a pattern
covers are one int, and so are the names that a principal is allowed. Tests compare samples with `naive`.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from authorizer.analysis.permissions.request_class import NameSet, RequestClass
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord
from support import naive
from support.acl_strategies import IDS

CHARACTERS = "abc*"
#: Every name of up to four of these characters, the empty one too.
NAMES = ["".join(each) for length in range(5) for each in product(CHARACTERS, repeat=length)]
ALL_NAMES = (1 << len(NAMES)) - 1
PRINCIPALS = ("User:a", "User:b", "User:nobody")
HOSTS = ("10.0.0.1", "10.0.0.2", "192.0.2.1")
OPERATIONS = (
    AclOperation.ALL,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)


class RequestKind(NamedTuple):
    """All requests that differ only in the resource name."""

    principal: str
    host: str
    operation: AclOperation


EVERY_KIND = [RequestKind(*each) for each in product(PRINCIPALS, HOSTS, OPERATIONS)]


def mask_of(names: Collection[str]) -> int:
    """The bits of the names that are among these."""
    return sum(1 << bit for bit, name in enumerate(NAMES) if name in names)


@cache
def covered_by(name: str, *, is_prefix: bool) -> int:
    """The names that a pattern of an ACL covers."""
    if not is_prefix:
        return ALL_NAMES if name == "*" else mask_of([name])
    return mask_of([each for each in NAMES if each.startswith(name)])


@cache
def matches(operation: int, permission_type: int, requested: AclOperation) -> bool:
    """Whether an ACL of this operation matches the requested one."""
    acl = AccessControlEntryRecord(b"", 3, "", 3, "", "*", operation, permission_type)  # type: ignore[arg-type]
    return naive.is_about(acl, requested)


def answers(
    acls: Sequence[AccessControlEntryRecord], settings: naive.Settings, resource_type: ResourceType
) -> dict[RequestKind, int]:
    """For each kind of request the names that it is allowed on."""
    here = [
        (acl, covered_by(acl.resource_name, is_prefix=acl.pattern_type == PatternType.PREFIXED))
        for acl in acls
        if acl.resource_type == resource_type
    ]
    covered = 0
    for _, names in here:
        covered |= names
    by_default = ALL_NAMES & ~covered if settings.allow_everyone else 0
    found = {}
    for kind in EVERY_KIND:
        if kind.principal in settings.super_users:
            found[kind] = ALL_NAMES
            continue
        allowed = denied = 0
        for acl, names in here:
            if (
                acl.principal in (kind.principal, "User:*")
                and acl.host in (kind.host, "*")
                and matches(acl.operation, acl.permission_type, kind.operation)
            ):
                if acl.permission_type == AclPermissionType.ALLOW:
                    allowed |= names
                else:
                    denied |= names
        found[kind] = (allowed & ~denied) | by_default
    return found


def names_by_kind(classes: Collection[RequestClass]) -> dict[RequestKind, int]:
    """For each kind the names that the classes contain."""
    found = dict.fromkeys(EVERY_KIND, 0)
    for request_class in classes:
        names = 0
        for each in request_class.names:
            names |= names_of(each)
        for kind in _kinds(request_class):
            found[kind] |= names
    return found


def _kinds(request_class: RequestClass) -> Iterator[RequestKind]:
    principal, but, _ = request_class.principals
    host, other_hosts = request_class.hosts
    for who in PRINCIPALS:
        if who in but if principal is None else who != principal:
            continue
        for where in HOSTS:
            if where in other_hosts if host is None else where != host:
                continue
            for operation in request_class.operations:
                if operation in OPERATIONS:
                    yield RequestKind(who, where, operation)


def names_of(names: NameSet) -> int:
    """The names in a name set of a class."""
    if names.is_name:
        return covered_by_name(names.text)
    found = covered_by(names.text, is_prefix=True)
    for text, is_name in names.excluded:
        found &= ~(covered_by_name(text) if is_name else covered_by(text, is_prefix=True))
    return found


@cache
def covered_by_name(name: str) -> int:
    """The mask of this name only, which may be ``*``."""
    return mask_of([name])


def random_set(rng: random.Random) -> list[AccessControlEntryRecord]:
    """A few ACLs on groups, most of which overlap."""
    return [
        AccessControlEntryRecord(
            rng.choice(IDS),
            ResourceType.GROUP,  # whose names may be any, `*` too
            "".join(rng.choices("abc*", k=rng.choice((0, 1, 1, 1, 2, 2, 3)))),
            rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            rng.choice(("User:a", "User:a", "User:*", "User:b")),
            rng.choice(("*", "*", "10.0.0.1", "10.0.0.2")),
            rng.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER_CONFIGS, AclOperation.ALL)),
            rng.choice((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)),
        )
        for _ in range(rng.randrange(7))
    ]


def random_pair(rng: random.Random) -> tuple[list[AccessControlEntryRecord], list[AccessControlEntryRecord]]:
    """Two similar sets, as before and after a change."""
    before = random_set(rng)
    after = [acl for acl in before if rng.random() < 0.7] + random_set(rng)[:2]
    return before, after
