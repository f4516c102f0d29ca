"""What the ACLs for ``User:*`` say about a resource type, and what a principal's own ACLs change in that.

It is worked out once, not once for each principal: a principal's own ACLs are looked at, and of those for
everybody the ones that cover them or lie below them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from authorizer.analysis.host_answers import NOTHING, Answer, answer_of
from authorizer.analysis.name_map import NameMap
from authorizer.analysis.name_space import Key
from authorizer.engine.index.masks import EVERYTHING, Leaf, union_leaf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from authorizer.analysis.name_space import NameSpace
    from authorizer.analysis.patterns import Said


class Everybody:
    """Of one resource type.

    Attributes:
        answers: what is answered to a principal that has no ACLs of its own.
    """

    __slots__ = ("_keys", "_leaves", "_outer", "_space", "answers")

    def __init__(self, said: Sequence[Said], space: NameSpace, covered: Sequence[Key] | None) -> None:
        """From what is said.

        Args:
            said: by the ACLs for ``User:*``.
            space: the names of the type.
            covered: what the ACLs of all principals are about, where other names are open to everybody
                (``allow.everyone.if.no.acl.found``); None where they are not.
        """
        self._space = space
        self._keys: list[Key] = []
        self._leaves: list[Leaf] = []
        self._outer: list[int] = []
        around = [-1]
        for name, is_name, leaf in said:
            while around[-1] >= 0 and not name.startswith(self._keys[around[-1]][0]):
                around.pop()
            outer = around[-1]
            if not is_name:
                around.append(len(self._keys))
            self._keys.append((name, is_name))
            self._leaves.append(union_leaf(leaf, self._leaves[outer]) if outer >= 0 else leaf)
            self._outer.append(outer)
        self.answers: NameMap[Answer]
        if covered is None:
            answers = [(*key, answer_of(leaf)) for key, leaf in zip(self._keys, self._leaves, strict=True)]
            self.answers = NameMap.of(NOTHING, answers, space)
        else:
            self.answers = NameMap.of(
                EVERYTHING, ((*key, answer_of(self._at(key))) for key in covered), space
            )

    def departures(self, own: Sequence[Said]) -> NameMap[Answer | None]:
        """Where a principal is answered otherwise than everybody, and how; None where it is not.

        Args:
            own: what the principal's own ACLs say.
        """
        return NameMap.of(None, self._departures(own), self._space)

    def to_everything(self) -> NameMap[Answer | None]:
        """Where a super user is answered otherwise than everybody."""
        usual = self.answers
        places = ((name, is_name, _unless(here)) for name, is_name, here in usual.places)
        return NameMap.of(_unless(usual.default), places, self._space)

    def _departures(self, own: Sequence[Said]) -> Iterator[tuple[str, bool, Answer | None]]:
        around: list[tuple[str, Leaf]] = [("", 0)]
        for name, is_name, leaf in self._among(own):
            while not name.startswith(around[-1][0]):
                around.pop()
            outer = around[-1][1]
            mine = union_leaf(leaf, outer) if outer else leaf
            if not is_name:
                around.append((name, mine))
            # Everybody's answer may be another one where no ACL covers a name; here is one that does.
            theirs = self._at((name, is_name))
            if theirs:
                answer, usual = answer_of(union_leaf(mine, theirs)), answer_of(theirs)
            else:
                answer, usual = answer_of(mine), NOTHING
            yield name, is_name, None if answer == usual else answer

    def _among(self, own: Sequence[Said]) -> Iterable[Said]:
        """A principal's own places; and everybody's below them, where it says nothing itself."""
        below: list[Said] = []
        outermost: str | None = None
        for name, is_name, _ in own:
            if is_name or (outermost is not None and name.startswith(outermost)):
                continue
            outermost = name
            for at in range(bisect_left(self._keys, (name, False)), len(self._keys)):
                key = self._keys[at]
                if not key[0].startswith(name):
                    break
                below.append((*key, 0))
        if not below:
            return own
        mine = {(name, is_name) for name, is_name, _ in own}
        below = [each for each in below if each[:2] not in mine]
        return sorted([*own, *below], key=lambda each: each[:2])

    def _at(self, key: Key) -> Leaf:
        """What everything says together that covers the name, or all names with the prefix."""
        at = bisect_right(self._keys, key) - 1
        while at >= 0:
            name, is_name = self._keys[at]
            if key == self._keys[at] or (not is_name and key[0].startswith(name)):
                return self._leaves[at]
            at = self._outer[at]
        return 0


def _unless(usual: Answer) -> Answer | None:
    return None if usual == EVERYTHING else EVERYTHING
