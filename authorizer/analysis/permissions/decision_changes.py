"""Decision changes: the requests that two sets of ACLs decide differently, in classes, granted or revoked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

from authorizer.analysis.permissions.acl_comparison import ChangedAcls, has_network_host
from authorizer.analysis.permissions.effective_permissions import (
    Answers,
    EffectivePermissions,
    Overrides,
    never_cancelled,
)
from authorizer.analysis.permissions.related_acls import related_by_principal, related_to
from authorizer.analysis.permissions.request_class import PrincipalSet, RequestClass, request_classes
from authorizer.analysis.permissions.witness import decide_witness, state_for_witnesses
from authorizer.analysis.request_space.host_answers import NO_OPERATIONS, Answer, subtract
from authorizer.analysis.request_space.name_map import NameMap, overlay
from authorizer.analysis.request_space.name_space import NAME_SPACES, NameSpace
from authorizer.api.kafka_version import NEWEST, KafkaVersion
from authorizer.engine.decisions.decision import Decision
from authorizer.engine.decisions.state import AuthorizerSettings
from records.columns.acl_table import AclTable
from records.principal import WILDCARD_PRINCIPAL

Direction = Literal["granted", "revoked"]


class DecisionChange(NamedTuple):
    """A class of requests that only the second set allows (granted), or only the first (revoked).

    ``version``: the change holds only by the rules of this release; None: by all possible rules.
    """

    direction: Direction
    request_class: RequestClass
    version: KafkaVersion | None = None

    @property
    def releases(self) -> str | None:
        """The releases with the change, as text; None: all."""
        return describe_releases(self.version)


def describe_releases(version: KafkaVersion | None) -> str | None:
    """Return the releases with the rules of a version: ``from Kafka 4.4 on``; None: all."""
    if version is None:
        return None
    newest = f"Kafka {NEWEST.value}"
    return f"from {newest} on" if version is NEWEST else f"before {newest}"


def decide_changes(
    changes: Iterable[DecisionChange],
    before: tuple[AclTable, AuthorizerSettings],
    after: tuple[AclTable, AuthorizerSettings],
) -> Iterator[tuple[DecisionChange, list[tuple[Decision, Decision]]]]:
    """Yield each change with the decisions of its witness before and after, by operation.

    A change of one release only is decided by the rules of this release.
    """
    for version, group in groupby(changes, key=attrgetter("version")):
        of_version = list(group)
        witnesses = [change.request_class.witness for change in of_version]
        states = [
            state_for_witnesses(
                table, witnesses, settings if version is None else settings.with_version(version)
            )
            for table, settings in (before, after)
        ]
        for change in of_version:
            operations, witness = change.request_class.operations, change.request_class.witness
            first, second = (
                [decide_witness(state, witness, each) for each in operations] for state in states
            )
            yield change, list(zip(first, second, strict=True))


def widest_change(changes: Iterable[DecisionChange]) -> DecisionChange | None:
    """Return the change to read first: for all principals before one, then granted, then a prefix."""
    return max(changes, key=_width, default=None)


def _width(change: DecisionChange) -> tuple[bool, bool, bool, int, int]:
    requests = change.request_class
    prefixes = [len(names.text) for names in requests.names if not names.is_name]
    return (
        requests.principals.principal is None,
        change.direction == "granted",
        bool(prefixes),
        -min(prefixes, default=0),
        len(requests.operations),
    )


class _Changes(NamedTuple):
    """The granted and the revoked answers, by name."""

    granted: Answers
    revoked: Answers


_NOTHING: Answers = NameMap(NO_OPERATIONS)
_NO_CHANGES = _Changes(_NOTHING, _NOTHING)


def decision_changes_by(
    changed: ChangedAcls,
    table: AclTable,
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[DecisionChange]:
    """Return every class of requests that some changes of a table's ACLs decide differently.

    Of each principal only the ACLs related to the names of its changes, and of those for ``User:*``, are
    read: no other request can have another answer.
    ``check_cancelled`` is called for each principal; an exception that it raises ends the computation.
    """
    before = _related(changed, table, settings)
    return decision_changes_for(
        _affected(changed), before, changed.applied_to(before), settings, check_cancelled
    )


def decision_changes_of_states(
    changed: ChangedAcls,
    before: AclTable,
    after: AclTable,
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[DecisionChange]:
    """Return the decision changes between two tables that differ only in ``changed``."""
    old, new = _related(changed, before, settings), _related(changed, after, settings)
    return decision_changes_for(_affected(changed), old, new, settings, check_cancelled)


def _related(changed: ChangedAcls, table: AclTable, settings: AuthorizerSettings) -> AclTable:
    if settings.allow_everyone:
        # A name is open to every principal unless an ACL of any principal covers it.
        return related_to(table, changed.names)
    return related_by_principal(table, changed.names_by_principal)


def decision_changes_for(
    affected: Collection[str] | None,
    before: AclTable,
    after: AclTable,
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[DecisionChange]:
    """Return the decision changes between two tables for these principals; None: for all.

    Principals without ACLs are always compared.
    """
    has_networks = any(has_network_host(each).any() for each in (before, after))
    rule_sets = settings.for_each_possible_release(has_networks=has_networks)
    found = []
    for rules in rule_sets:
        permissions = (
            EffectivePermissions.of(each, rules, affected, check_cancelled=check_cancelled)
            for each in (before, after)
        )
        found.append(list(decision_changes_between(*permissions, check_cancelled=check_cancelled)))
    return common_changes(rule_sets, found)


class _OfRelease(Protocol):
    def _replace(self, *, version: KafkaVersion | None) -> Self: ...


_ChangeT = TypeVar("_ChangeT", bound=_OfRelease)


def common_changes(
    rule_sets: Sequence[AuthorizerSettings], found: Sequence[list[_ChangeT]]
) -> list[_ChangeT]:
    """Return the changes by all possible rules, then those of one release, which they name.

    ``found``: the changes by each of the ``rule_sets``.
    """
    if len(found) == 1:
        return found[0]
    in_all = set(found[0]).intersection(*found[1:])
    changes = [change for change in found[0] if change in in_all]
    for rules, of_rules in zip(rule_sets, found, strict=True):
        changes += [
            change._replace(version=rules.kafka_version) for change in of_rules if change not in in_all
        ]
    return changes


def _affected(changed: ChangedAcls) -> set[str] | None:
    """Principals affected by the change; None if a User:* ACL changed."""
    return None if WILDCARD_PRINCIPAL in changed.principals else changed.principals


def decision_changes_between(
    before: EffectivePermissions,
    after: EffectivePermissions,
    *,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> Iterator[DecisionChange]:
    """Yield every class of requests with another answer: by resource type, unlisted principals first."""
    known = before.principals.keys() | after.principals.keys()
    for resource_type, space in NAME_SPACES.items():
        wildcards = before.wildcard[resource_type], after.wildcard[resource_type]
        usual = _NO_CHANGES if wildcards[0] == wildcards[1] else _changes(overlay(wildcards), space)
        listed = {}
        for principal in sorted(known):
            check_cancelled()
            overrides = before.overrides(principal, resource_type), after.overrides(principal, resource_type)
            changes = _changes_of_principal(wildcards, usual, overrides, space)
            if changes != usual:
                listed[principal] = changes
        changes_of = [(PrincipalSet.all_but(listed, known), usual)]
        changes_of += [(PrincipalSet.of(principal), changes) for principal, changes in listed.items()]
        for principals, (granted, revoked) in changes_of:
            check_cancelled()
            for requests in request_classes(granted, principals, resource_type):
                yield DecisionChange("granted", requests)
            for requests in request_classes(revoked, principals, resource_type):
                yield DecisionChange("revoked", requests)


def _changes_of_principal(
    wildcards: tuple[Answers, Answers],
    usual: _Changes,
    overrides: tuple[Overrides, Overrides],
    space: NameSpace,
) -> _Changes:
    """The changes for a principal with overrides; ``usual`` are those for a principal without any."""
    if overrides[0] == overrides[1]:
        return usual if usual == _NO_CHANGES else _changes_elsewhere(usual, overrides[0], space)
    entries = (
        (name, is_name, (both[0] if before is None else before, both[1] if after is None else after))
        for name, is_name, (before, after, *both) in overlay((*overrides, *wildcards))
    )
    return _changes(entries, space)


def _changes_elsewhere(usual: _Changes, overrides: Overrides, space: NameSpace) -> _Changes:
    """The usual changes, for names without an override of the principal."""
    granted, revoked = (
        overrides.combined(
            changes, lambda override, change: change if override is None else NO_OPERATIONS, space
        )
        for changes in usual
    )
    return _Changes(granted, revoked)


def _changes(entries: Iterable[tuple[str, bool, Sequence[Answer]]], space: NameSpace) -> _Changes:
    known = list(entries)
    granted = ((name, is_name, subtract(after, before)) for name, is_name, (before, after) in known)
    revoked = ((name, is_name, subtract(before, after)) for name, is_name, (before, after) in known)
    return _Changes(NameMap.of(NO_OPERATIONS, granted, space), NameMap.of(NO_OPERATIONS, revoked, space))
