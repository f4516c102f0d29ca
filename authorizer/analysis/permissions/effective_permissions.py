"""EffectivePermissions: the answer of a set of ACLs to every possible request, canonical and minimal.

A request is a principal, a host, an operation and a resource that can exist. The wildcard answers, to a
principal without ACLs of its own, are stored once for each resource type. A principal has only the answers
that differ: for it only its ACLs are read, and the ``User:*`` ACLs that cover them or are below them.
Two sets of ACLs have equal effective permissions if and only if every request has the same answer.

Source: StandardAuthorizerData.authorize; `engine.decisions.authorize` answers single requests.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec
import numpy as np

from authorizer.analysis.request_space.host_answers import NO_OPERATIONS, Answer, answer_of
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES
from authorizer.analysis.request_space.patterns import patterns_of, patterns_with_acls
from authorizer.engine.index.masks import EVERYTHING, Leaf, union_leaf
from authorizer.engine.index.prefix_ranges import NO_PREFIX, enclosing_prefixes
from records.acl import ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from authorizer.analysis.request_space.name_space import Key, NameSpace
    from authorizer.analysis.request_space.patterns import PatternEntry
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.columns.acl_table import AclTable


class WildcardAnswers:
    """The answers for one resource type to a principal without ACLs of its own, by name.

    ``answers``: the answers by name.
    """

    __slots__ = ("_enclosing", "_keys", "_leaves", "_space", "answers")

    def __init__(
        self, entries: Sequence[PatternEntry], space: NameSpace, covered: Sequence[Key] | None
    ) -> None:
        """Compute the answers by the ACLs for ``User:*``.

        ``covered``: the patterns of all principals' ACLs, if other names are open to every principal
        (``allow.everyone.if.no.acl.found``); else None.
        """
        self._space = space
        self._keys: list[Key] = [(name, is_name) for name, is_name, _ in entries]
        self._enclosing = enclosing_prefixes(entries)
        self._leaves: list[Leaf] = []
        for (_, _, leaf), outer in zip(entries, self._enclosing, strict=True):
            self._leaves.append(leaf if outer == NO_PREFIX else union_leaf(leaf, self._leaves[outer]))
        self.answers: NameMap[Answer]
        if covered is None:
            answers = [(*key, answer_of(leaf)) for key, leaf in zip(self._keys, self._leaves, strict=True)]
            self.answers = NameMap.of(NO_OPERATIONS, answers, space)
        else:
            self.answers = NameMap.of(
                EVERYTHING, ((*key, answer_of(self._leaf_at(key))) for key in covered), space
            )

    def overrides(self, entries: Sequence[PatternEntry]) -> NameMap[Answer | None]:
        """Return the answers to a principal with these ACLs; None where they equal the wildcard answers."""
        return NameMap.of(None, self._overrides(entries), self._space)

    def super_user_overrides(self) -> NameMap[Answer | None]:
        usual = self.answers
        entries = ((name, is_name, _unless_everything(answer)) for name, is_name, answer in usual.entries)
        return NameMap.of(_unless_everything(usual.default), entries, self._space)

    def _overrides(self, entries: Sequence[PatternEntry]) -> Iterator[tuple[str, bool, Answer | None]]:
        entries = self._with_wildcard_keys_below(entries)
        leaves: list[Leaf] = []
        for (name, is_name, leaf), outer in zip(entries, enclosing_prefixes(entries), strict=True):
            leaves.append(leaf if outer == NO_PREFIX else union_leaf(leaf, leaves[outer]))
            # Without wildcard ACLs here the wildcard answer may be EVERYTHING (no ACL covers the name). This
            # entry covers it, so it does not count.
            wildcard_leaf = self._leaf_at((name, is_name))
            if wildcard_leaf:
                answer = answer_of(union_leaf(leaves[-1], wildcard_leaf))
                usual = answer_of(wildcard_leaf)
            else:
                answer, usual = answer_of(leaves[-1]), NO_OPERATIONS
            yield name, is_name, None if answer == usual else answer

    def _with_wildcard_keys_below(self, entries: Sequence[PatternEntry]) -> Sequence[PatternEntry]:
        """Add the wildcard's keys below the principal's prefixes, with an empty leaf."""
        below: list[PatternEntry] = []
        outermost: str | None = None
        for name, is_name, _ in entries:
            if is_name or (outermost is not None and name.startswith(outermost)):
                continue
            outermost = name
            for position in range(bisect_left(self._keys, (name, False)), len(self._keys)):
                key = self._keys[position]
                if not key[0].startswith(name):
                    break
                below.append((*key, 0))
        if not below:
            return entries
        principal_keys = {(name, is_name) for name, is_name, _ in entries}
        below = [each for each in below if each[:2] not in principal_keys]
        return sorted([*entries, *below], key=lambda each: each[:2])

    def _leaf_at(self, key: Key) -> Leaf:
        """The union of the leaves that cover the name, or all names with the prefix."""
        position = bisect_right(self._keys, key) - 1
        while position >= 0:
            name, is_name = self._keys[position]
            if key == self._keys[position] or (not is_name and key[0].startswith(name)):
                return self._leaves[position]
            position = self._enclosing[position]
        return 0


def _unless_everything(usual: Answer) -> Answer | None:
    return None if usual == EVERYTHING else EVERYTHING


Answers = NameMap[Answer]
#: A principal's answers where they differ from the wildcard's; None elsewhere.
Overrides = NameMap[Answer | None]

# ACLs that are computed together if only the digest is needed.
_SLICE_ROWS: Final = 20_000
_NO_OVERRIDES: Final[Overrides] = NameMap(None)
_DIGEST_BYTES: Final = 16


def never_cancelled() -> None:
    """Cancellation check of computations that are never cancelled."""


class SemanticDigest(NamedTuple):
    """The digest of effective permissions, by principal: equal answers have equal digests. 16 bytes each.

    A principal's answers depend on its own ACLs and those for ``User:*``. A change of other principals' ACLs
    does not change its digest.

    Attributes:
        wildcard: the digest of the answers to a principal without ACLs of its own.
        principals: the digest of the answers to each principal that differ from these.
    """

    wildcard: bytes
    principals: Mapping[str, bytes]

    @property
    def combined(self) -> bytes:
        """The digest of all answers to all principals: equal if and only if each of them is."""
        return _digest([self.wildcard, sorted(self.principals.items())])

    def with_changes(self, part: SemanticDigest, principals: Collection[str]) -> SemanticDigest:
        """Replace the digests of these principals, and the wildcard's, by those of ``part``."""
        unchanged = {each: digest for each, digest in self.principals.items() if each not in principals}
        return SemanticDigest(part.wildcard, {**unchanged, **part.principals})


@dataclass(frozen=True, slots=True)
class EffectivePermissions:
    """See the module.

    Attributes:
        wildcard: for each resource type the answers to a principal without ACLs of its own.
        principals: for the others, ``Type:name``, the answers that differ from these.
    """

    wildcard: Mapping[ResourceType, Answers]
    principals: Mapping[str, Mapping[ResourceType, Overrides]]

    @classmethod
    def of(
        cls,
        table: AclTable,
        settings: AuthorizerSettings,
        principals: Collection[str] | None = None,
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> Self:
        """Compute them from ACLs by column, for ``principals`` (None: all) and the wildcard.

        ``check_cancelled`` is called for each principal; an exception that it raises ends the computation.
        """
        wildcard = _wildcard_answers(table, settings)
        chosen = table if principals is None else of_principals(table, principals)
        found = dict(_overrides_by_principal(chosen, wildcard, settings, check_cancelled))
        return cls(
            {each: answers.answers for each, answers in wildcard.items()},
            found | _super_user_overrides(wildcard, settings),
        )

    @staticmethod
    def digest_of(
        table: AclTable,
        settings: AuthorizerSettings,
        principals: Collection[str] | None = None,
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> SemanticDigest:
        """Compute the digest alone, in slices of the ACLs; the arguments are as in `of`."""
        wildcard = _wildcard_answers(table, settings)
        chosen = table if principals is None else of_principals(table, principals)
        found = {
            principal: _digest_of(overrides)
            for part in _slices(chosen, check_cancelled)
            for principal, overrides in _overrides_by_principal(part, wildcard, settings, check_cancelled)
        }
        found |= {each: _digest_of(maps) for each, maps in _super_user_overrides(wildcard, settings).items()}
        return SemanticDigest(
            _digest_of({each: answers.answers for each, answers in wildcard.items()}), found
        )

    @staticmethod
    def digest_after(
        before: SemanticDigest,
        table: AclTable,
        settings: AuthorizerSettings,
        principals: Collection[str],
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> SemanticDigest:
        """Compute the digest of a table in which only the ACLs of these principals differ from ``before``."""
        if WILDCARD_PRINCIPAL in principals:
            return EffectivePermissions.digest_of(table, settings, check_cancelled=check_cancelled)
        part = EffectivePermissions.digest_of(table, settings, principals, check_cancelled=check_cancelled)
        return before.with_changes(part, {*principals, *settings.super_users})

    def overrides(self, principal: str, resource_type: ResourceType) -> Overrides:
        """Return where the answers to a principal differ from the wildcard's."""
        return self.principals.get(principal, {}).get(resource_type, _NO_OVERRIDES)

    @property
    def digest(self) -> bytes:
        """16 bytes for all answers to all principals: equal if and only if each of them is."""
        principals = {principal: _digest_of(maps) for principal, maps in self.principals.items()}
        return SemanticDigest(_digest_of(self.wildcard), principals).combined


def of_principals(table: AclTable, principals: Collection[str]) -> AclTable:
    """Return the ACLs for exactly these principals."""
    return table.take(np.flatnonzero(is_of(table, principals)))


def is_of(table: AclTable, principals: Collection[str]) -> npt.NDArray[np.bool_]:
    """Return for each ACL whether it is for one of exactly these principals."""
    return table.principals.where(principals.__contains__)


def _slices(table: AclTable, check_cancelled: Callable[[], None]) -> Iterator[AclTable]:
    codes = table.principals.codes
    ends = np.cumsum(np.bincount(codes, minlength=len(table.principals.texts)))
    slice_of = ends // _SLICE_ROWS
    for each in np.unique(slice_of).tolist():
        check_cancelled()
        yield table.take(np.flatnonzero(slice_of[codes] == each))


def _wildcard_answers(table: AclTable, settings: AuthorizerSettings) -> dict[ResourceType, WildcardAnswers]:
    patterns = patterns_of(of_principals(table, (WILDCARD_PRINCIPAL,)), networks=settings.networks)
    entries = {each.resource_type: each.entries for each in patterns}
    covered = patterns_with_acls(table) if settings.allow_everyone else {}
    return {
        each: WildcardAnswers(entries.get(each, ()), space, covered.get(each))
        for each, space in NAME_SPACES.items()
    }


def _overrides_by_principal(
    table: AclTable,
    wildcard: Mapping[ResourceType, WildcardAnswers],
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None],
) -> Iterator[tuple[str, Mapping[ResourceType, Overrides]]]:
    """Each principal with answers that differ from the wildcard's; without super users."""
    found: dict[str, dict[ResourceType, Overrides]] = {}
    for principal, resource_type, entries in patterns_of(table, networks=settings.networks):
        check_cancelled()
        if principal != WILDCARD_PRINCIPAL and principal not in settings.super_users:
            overrides = wildcard[resource_type].overrides(entries)
            if overrides != _NO_OVERRIDES:
                found.setdefault(principal, {})[resource_type] = overrides
    yield from found.items()


def _super_user_overrides(
    wildcard: Mapping[ResourceType, WildcardAnswers], settings: AuthorizerSettings
) -> dict[str, Mapping[ResourceType, Overrides]]:
    overrides = {each: answers.super_user_overrides() for each, answers in wildcard.items()}
    overrides = {each: maps for each, maps in overrides.items() if maps != _NO_OVERRIDES}
    return dict.fromkeys(settings.super_users, overrides) if overrides else {}


def _digest_of(maps: Mapping[ResourceType, NameMap[Any]]) -> bytes:
    return _digest([(int(each), maps[each].default, maps[each].entries) for each in sorted(maps)])


def _digest(value: object) -> bytes:
    return blake2b(_encoder.encode(value), digest_size=_DIGEST_BYTES).digest()


_encoder: Final = msgspec.msgpack.Encoder()
