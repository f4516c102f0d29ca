"""Flips: the questions that two sets of ACLs answer differently, in classes; granted and revoked apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from authorizer.analysis.access_queries import Asker, Questions, questions_of
from authorizer.analysis.acl_comparison import for_networks
from authorizer.analysis.effective_permissions import EVERYBODY, Meaning, never_cancelled
from authorizer.analysis.host_answers import NOTHING, without
from authorizer.analysis.name_map import NameMap, overlay
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.related_acls import near
from authorizer.api.kafka_version import NEWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from authorizer.analysis.acl_comparison import ChangedAcls
    from authorizer.analysis.effective_permissions import Answers, Departures
    from authorizer.analysis.host_answers import Answer
    from authorizer.analysis.name_space import NameSpace
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.columns.acl_table import AclTable

Direction = Literal["granted", "revoked"]


class Flip(NamedTuple):
    """Questions that the second set allows and the first one does not, or the other way round.

    Attributes:
        version: by the rules of this release and its like alone; None: by all that are followed.
    """

    direction: Direction
    questions: Questions
    version: KafkaVersion | None = None

    @property
    def releases(self) -> str | None:
        """Which releases alone, in words: ``from Kafka 4.4 on``."""
        if self.version is None:
            return None
        newest = f"Kafka {NEWEST.value}"
        return f"from {newest} on" if self.version is NEWEST else f"before {newest}"


class _Changes(NamedTuple):
    """What is granted and what is revoked, name by name."""

    granted: Answers
    revoked: Answers


_NOTHING: Answers = NameMap(NOTHING)
_SAME = _Changes(_NOTHING, _NOTHING)


def flips_by(
    changed: ChangedAcls,
    table: AclTable,
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[Flip]:
    """Every class of questions that some changes of a table's ACLs make flip.

    Worked out from the ACLs that have to do with the names that the changes are about: about others every
    question has the answer that it had. ``check_cancelled`` is called for each principal; what it raises ends
    the computation.
    """
    before = _near(changed, table, settings)
    return _flips(changed, before, changed.applied_to(before), settings, check_cancelled)


def flips_of_states(
    changed: ChangedAcls,
    before: AclTable,
    after: AclTable,
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[Flip]:
    """The same between two tables, which differ in no more than what is ``changed``."""
    old, new = _near(changed, before, settings), _near(changed, after, settings)
    return _flips(changed, old, new, settings, check_cancelled)


def _near(changed: ChangedAcls, table: AclTable, settings: AuthorizerSettings) -> AclTable:
    return near(table, changed.names, None if settings.allow_everyone else _whose(changed))


def _flips(
    changed: ChangedAcls,
    before: AclTable,
    after: AclTable,
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None],
) -> list[Flip]:
    whose = _whose(changed)
    has_networks = any(for_networks(each).any() for each in (before, after))
    apart = settings.apart(has_networks=has_networks)
    found = []
    for how in apart:
        meanings = (Meaning.of(each, how, whose, check_cancelled=check_cancelled) for each in (before, after))
        found.append(list(flips_between(*meanings, check_cancelled=check_cancelled)))
    if len(found) == 1:
        return found[0]
    in_all = set(found[0]).intersection(*found[1:])
    flips = [flip for flip in found[0] if flip in in_all]
    for how, theirs in zip(apart, found, strict=True):
        flips += [flip._replace(version=how.kafka_version) for flip in theirs if flip not in in_all]
    return flips


def _whose(changed: ChangedAcls) -> set[str] | None:
    """Whose answers may be others: an ACL for a principal changes that one's, one for everybody anyone's."""
    return None if EVERYBODY in changed.principals else changed.principals


def flips_between(
    before: Meaning, after: Meaning, *, check_cancelled: Callable[[], None] = never_cancelled
) -> Iterator[Flip]:
    """Every class of questions whose answer differs: by resource type, everybody first."""
    known = before.principals.keys() | after.principals.keys()
    for resource_type, space in NAME_SPACES.items():
        usual = before.everybody[resource_type], after.everybody[resource_type]
        everybody = _changes(usual, space)
        listed = {}
        for principal in sorted(known):
            check_cancelled()
            theirs = before.departures(principal, resource_type), after.departures(principal, resource_type)
            changes = _changes_of_principal(usual, everybody, theirs, space)
            if changes != everybody:
                listed[principal] = changes
        askers = [(Asker.everybody(listed, known), everybody)]
        askers += [(Asker.of(principal), changes) for principal, changes in listed.items()]
        for asker, (granted, revoked) in askers:
            check_cancelled()
            for questions in questions_of(granted, asker, resource_type):
                yield Flip("granted", questions)
            for questions in questions_of(revoked, asker, resource_type):
                yield Flip("revoked", questions)


def _changes(pair: tuple[Answers, Answers], space: NameSpace) -> _Changes:
    return _SAME if pair[0] == pair[1] else _made(overlay(pair), space)


def _changes_of_principal(
    usual: tuple[Answers, Answers],
    everybody: _Changes,
    theirs: tuple[Departures, Departures],
    space: NameSpace,
) -> _Changes:
    """As `_changes`, of a principal that departs from what is usual."""
    if theirs[0] == theirs[1]:
        return everybody if everybody == _SAME else _elsewhere(everybody, theirs[0], space)
    places = (
        (name, is_name, (both[0] if before is None else before, both[1] if after is None else after))
        for name, is_name, (before, after, *both) in overlay((*theirs, *usual))
    )
    return _made(places, space)


def _elsewhere(everybody: _Changes, departures: Departures, space: NameSpace) -> _Changes:
    """What changes for everybody, where a principal does not depart from that before and after."""
    granted, revoked = (
        departures.combined(changes, lambda own, change: change if own is None else NOTHING, space)
        for changes in everybody
    )
    return _Changes(granted, revoked)


def _made(places: Iterable[tuple[str, bool, Sequence[Answer]]], space: NameSpace) -> _Changes:
    known = list(places)
    granted = ((name, is_name, without(after, before)) for name, is_name, (before, after) in known)
    revoked = ((name, is_name, without(before, after)) for name, is_name, (before, after) in known)
    return _Changes(NameMap.of(NOTHING, granted, space), NameMap.of(NOTHING, revoked, space))
