"""RowRights: the rights of a principal that hardly asks, looked up in the rows for each name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.index.places import PREFIXED
from authorizer.index.rights import leaf_of_each

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from authorizer.index.masks import Leaf, OwnLeaf
    from authorizer.index.places import Place
    from authorizer.index.row_index import RowIndex

_MISSING: Final = object()


class RowRights:
    """Of one principal and resource type."""

    __slots__ = ("_changed", "_lengths", "_principal", "_rows", "_type", "named")

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
        # Of what was asked: one call asks again where it wants the reason.
        self.named: dict[str, Leaf] = {}

    def leaf(self, name: str) -> Leaf:
        leaf = self.named[name] = leaf_of_each(self, name)
        return leaf

    def literal(self, name: str) -> OwnLeaf | None:
        return self._leaf(self._type, name)

    def prefixes_of(self, name: str) -> Iterator[tuple[str, OwnLeaf]]:
        kind, size, names = self._type + PREFIXED, len(name), self._rows.name_codes
        for length in self._lengths:
            prefix = name[:length]
            # Hardly any is a name that there is.
            if length <= size and (prefix in names or self._changed):
                leaf = self._leaf(kind, prefix)
                if leaf is not None:
                    yield prefix, leaf

    def _leaf(self, kind: int, name: str) -> OwnLeaf | None:
        if self._changed:
            changed = self._changed.get((kind, name), _MISSING)
            if changed is not _MISSING:
                return changed  # type: ignore[return-value]
        return self._rows.leaf_at(self._principal, kind, name)
