"""RowRights: the rights of a principal that hardly asks, looked up in the rows for each name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.engine.index.covers import NOTHING, Cover, alone
from authorizer.engine.index.places import PREFIXED
from authorizer.engine.index.rights import NO_NAMES
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from authorizer.engine.index.masks import OwnLeaf
    from authorizer.engine.index.places import Place
    from authorizer.engine.index.row_index import RowIndex


class RowRights:
    """Of one principal and resource type."""

    __slots__ = ("_changed", "_lengths", "_principal", "_rows", "_type")

    named = NO_NAMES
    others = None

    def __init__(
        self,
        rows: RowIndex,
        principal: int,
        changed: Mapping[Place, OwnLeaf | None],
        resource_type: int,
        lengths: Sequence[int],
    ) -> None:
        """``principal`` is its code, ``changed`` what is not as the rows have it.

        ``lengths`` are those that prefixes of the type have, longest first.
        """
        self._rows = rows
        self._principal = principal
        self._changed = changed
        self._type = resource_type
        self._lengths = lengths

    def cover(self, name: str) -> Cover:
        size, names = len(name), self._rows.name_codes
        cover = self._at(0, WILDCARD)
        for length in reversed(self._lengths):
            prefix = name[:length]
            # Hardly any is a name that there is.
            if length <= size and (prefix in names or self._changed):
                cover = self._at(PREFIXED, prefix).before(cover)
        return cover if name == WILDCARD else self._at(0, name).before(cover)

    def _at(self, prefixed: int, name: str) -> Cover:
        place = self._type + prefixed, name
        if place in self._changed:
            leaf, group = self._changed[place], None
        else:
            group = self._rows.group_at(self._principal, *place)
            leaf = None if group is None else self._rows.leaf_of(group)
        return NOTHING if leaf is None else alone(prefixed, name, leaf, group)
