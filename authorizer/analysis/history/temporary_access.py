"""Temporary access: requests with the same answer at both ends of a period, and another one within it.

Of each principal the answers are followed through the changes of its ACLs and of those for ``User:*``. What
some state allowed and neither end does was granted and revoked again; the opposite was revoked and granted
again. By whichever ACLs: a DENY that is added may end what an ALLOW began.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from authorizer.analysis.history.access_history import AclPeriods, needs_all_principals
from authorizer.analysis.permissions.access_queries import answers_for
from authorizer.analysis.permissions.acl_comparison import ChangedAcls, has_network_host
from authorizer.analysis.permissions.decision_changes import Direction, common_changes
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions, never_cancelled
from authorizer.analysis.permissions.related_acls import related_by_principal, related_to
from authorizer.analysis.permissions.request_class import PrincipalSet, RequestClass, request_classes
from authorizer.analysis.request_space.host_answers import (
    NO_OPERATIONS,
    OPERATION_BITS,
    mask_from,
    subtract,
    unite,
)
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES
from records.columns.acl_table import AclTable, AppliedAcl
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from authorizer.analysis.permissions.effective_permissions import Answers
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import AclOperation, ResourceType

    # The changes that become visible together: each ACL before and after.
    Step = Sequence[tuple[AppliedAcl | None, AppliedAcl | None]]

# The step that ends the ACLs in force at the end of the period.
_NEVER: Final = int(np.iinfo(np.int64).max)
_NOTHING: Answers = NameMap(NO_OPERATIONS)


class TemporaryChange(NamedTuple):
    """A class of requests that was granted and revoked again (granted), or the reverse (revoked).

    Attributes:
        begin: number of the first step after which the witness has the other answer.
        end: number of the step that ends the last such time.
        times: how many such times there are.
        version: by the rules of this release only; None: by all possible rules.
    """

    direction: Direction
    request_class: RequestClass
    begin: int
    end: int
    times: int
    version: KafkaVersion | None = None


def temporary_changes(
    initial: AclTable,
    steps: Sequence[Step],
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[TemporaryChange]:
    """Return every class of requests with temporary access; the steps are numbered from 1.

    ``check_cancelled`` is called for each step and principal; its exception ends the computation.
    """
    periods = _periods(initial, steps, settings)
    has_networks = bool(has_network_host(periods.table).any())
    rule_sets = settings.for_each_possible_release(has_networks=has_networks)
    return common_changes(
        rule_sets, [list(_Followed(periods, rules, check_cancelled).changes()) for rules in rule_sets]
    )


def _periods(initial: AclTable, steps: Sequence[Step], settings: AuthorizerSettings) -> AclPeriods:
    """The related ACLs, with the numbers of the steps at which each began and ended."""
    pairs = [pair for step in steps for pair in step]
    changed = ChangedAcls(*(AclTable.of([acl for pair in pairs if (acl := pair[side])]) for side in (0, 1)))
    if settings.allow_everyone:
        related = related_to(initial, changed.names)
    else:
        related = related_by_principal(initial, changed.names_by_principal)
    added: list[AppliedAcl] = []
    begins, ends = [0] * len(related), [_NEVER] * len(related)
    row_of = {related.id_of(row): row for row in range(len(related))}
    for number, step in enumerate(steps, 1):
        for before, after in step:
            if before is not None and (row := row_of.pop(before.record.id, None)) is not None:
                ends[row] = number
            if after is not None:
                row_of[after.record.id] = len(begins)
                added.append(after)
                begins.append(number)
                ends.append(_NEVER)
    table = AclTable.concat([related, AclTable.of(added)])
    return AclPeriods(table, np.array(begins, np.int64), np.array(ends, np.int64))


class _Followed:
    """The answers after each step, by principal (None: one without ACLs) and resource type."""

    def __init__(
        self, periods: AclPeriods, settings: AuthorizerSettings, check_cancelled: Callable[[], None]
    ) -> None:
        self._check_cancelled = check_cancelled
        self._answers: defaultdict[tuple[str | None, ResourceType], list[tuple[int, Answers]]]
        self._answers = defaultdict(list)
        self.known = {*periods.table.principals.texts, *settings.super_users} - {WILDCARD_PRINCIPAL}
        candidates = _changed_twice(periods, self.known, settings)
        for number, changed in _steps(periods, candidates, settings):
            check_cancelled()
            table = periods.in_force(number)
            permissions = EffectivePermissions.of(table, settings, changed, check_cancelled=check_cancelled)
            for resource_type in NAME_SPACES:
                self._follow(None, resource_type, number, permissions.wildcard[resource_type])
                for principal in changed:
                    answers = answers_for(permissions, principal, resource_type)
                    self._follow(principal, resource_type, number, answers)

    def _follow(
        self, principal: str | None, resource_type: ResourceType, number: int, answers: Answers
    ) -> None:
        known = self._answers[principal, resource_type]
        if not known or known[-1][1] != answers:
            known.append((number, answers))

    def changes(self) -> Iterator[TemporaryChange]:
        """Yield the classes by resource type, unlisted principals first."""
        principals = sorted({each for each, _ in self._answers if each is not None})
        for resource_type in NAME_SPACES:
            usual = self._temporary(None, resource_type)
            listed = {}
            for principal in principals:
                self._check_cancelled()
                found = self._temporary(principal, resource_type)
                if found != usual:
                    listed[principal] = found
            unlisted = PrincipalSet.all_but(listed, self.known)
            yield from self._classes(None, unlisted, resource_type, usual)
            for principal, found in listed.items():
                yield from self._classes(principal, PrincipalSet.of(principal), resource_type, found)

    def _temporary(self, principal: str | None, resource_type: ResourceType) -> tuple[Answers, Answers]:
        """What was granted and revoked again, and the reverse."""
        answers = [each for _, each in self._answers[principal, resource_type]]
        if len(answers) <= 2:
            return _NOTHING, _NOTHING
        space = NAME_SPACES[resource_type]
        first, *between, last = answers
        lost = first.combined(last, subtract, space)
        at_both_ends = first.combined(lost, subtract, space)
        at_an_end = first.combined(last, unite, space)
        granted = revoked = _NOTHING
        for each in between:
            granted = granted.combined(each.combined(at_an_end, subtract, space), unite, space)
            revoked = revoked.combined(at_both_ends.combined(each, subtract, space), unite, space)
        return granted, revoked

    def _classes(
        self,
        principal: str | None,
        principals: PrincipalSet,
        resource_type: ResourceType,
        found: tuple[Answers, Answers],
    ) -> Iterator[TemporaryChange]:
        history = self._answers[principal, resource_type]
        directions: tuple[Direction, Direction] = "granted", "revoked"
        for direction, answers in zip(directions, found, strict=True):
            for requests in request_classes(answers, principals, resource_type):
                # The operations of a class may have been granted at different times.
                times = [(_times(history, requests, each), each) for each in requests.operations]
                for spans, group in groupby(sorted(times), key=itemgetter(0)):
                    operations = tuple(operation for _, operation in group)
                    part = requests._replace(operations=operations)
                    yield TemporaryChange(direction, part, spans[0][0], spans[-1][1], len(spans))


def _times(
    history: Sequence[tuple[int, Answers]], requests: RequestClass, operation: AclOperation
) -> list[tuple[int, int]]:
    """The first and the last step of each time at which the witness has another answer than at the ends."""
    witness, bit = requests.witness, OPERATION_BITS[operation]
    held = [
        (number, bool(mask_from(answers.value_of((witness.name, True)), witness.host) & bit))
        for number, answers in history
    ]
    turns = [number for (_, before), (number, after) in pairwise(held) if before is not after]
    return list(zip(turns[::2], turns[1::2], strict=True))


def _changed_twice(
    periods: AclPeriods, known: Collection[str], settings: AuthorizerSettings
) -> frozenset[str]:
    """The principals whose answers may have changed and changed back."""
    steps_of: defaultdict[str, set[int]] = defaultdict(set)
    texts = periods.table.principals.texts
    codes = periods.table.principals.codes.tolist()
    for code, begin, end in zip(codes, periods.begins.tolist(), periods.ends.tolist(), strict=True):
        steps_of[texts[code]].update({begin, end} - {0, _NEVER})
    everyone = steps_of.pop(WILDCARD_PRINCIPAL, set())
    if settings.allow_everyone:
        everyone = everyone.union(*steps_of.values())
    return frozenset(each for each in known if len(steps_of[each] | everyone) > 1)


def _steps(
    periods: AclPeriods, candidates: frozenset[str], settings: AuthorizerSettings
) -> Iterator[tuple[int, frozenset[str]]]:
    """The number of each step, and the candidates whose answers it may change; first those at the begin."""
    yield 0, candidates
    changed: defaultdict[int, set[str]] = defaultdict(set)
    texts = periods.table.principals.texts
    codes = periods.table.principals.codes.tolist()
    for code, *numbers in zip(codes, periods.begins.tolist(), periods.ends.tolist(), strict=True):
        for number in numbers:
            changed[number].add(texts[code])
    for number in sorted(changed.keys() - {0, _NEVER}):
        principals = frozenset(changed[number])
        affected = candidates if needs_all_principals(principals, settings) else candidates & principals
        if affected or needs_all_principals(principals, settings):
            yield number, affected
