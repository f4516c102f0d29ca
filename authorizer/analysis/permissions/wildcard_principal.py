"""Wildcard answers: the effect of the ACLs for ``User:*``, and the overrides by a principal's ACLs.

The wildcard answers are computed once. For a principal only its ACLs are read, and the ``User:*`` ACLs that
cover them or are below them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from authorizer.analysis.request_space.host_answers import NO_OPERATIONS, Answer, answer_of
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.engine.index.masks import EVERYTHING, Leaf, union_leaf
from authorizer.engine.index.prefix_ranges import NO_PREFIX, enclosing_prefixes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.analysis.request_space.name_space import Key, NameSpace
    from authorizer.analysis.request_space.patterns import PatternEntry


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
