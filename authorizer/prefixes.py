"""Prefixes: a sorted set of prefixes with a value each, which finds every prefix of a name by one bisection.

    chunks   [["acc", "acc.eu", "b"], ["bill", "bill.eu"]]        sorted by code point, at most CHUNK_MAXIMUM each
    heads    ["acc", "bill"]                                      the first of each chunk
    links    {"acc": (value, None), "acc.eu": (value, "acc"),     value, and the longest other prefix that this
              "b": (value, None), "bill": (value, "b"), ...}      one starts with: its parent

Why one bisection is enough: let g be the greatest stored prefix <= name. A stored prefix q of the name is <= the
name, so q <= g <= name; everything between q and a text that starts with q starts with q; so g starts with q.
Hence every stored prefix of the name is g or one of g's ancestors, and as soon as one of them is a prefix of the
name, all above it are.

Values are not accumulated along the way: a change of one value is one changed link, however many longer
prefixes there are. Immutable; the next version shares what did not change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from authorizer.overlay import Table, with_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

V = TypeVar("V")
_Link = tuple[V, str | None]

#: A new prefix copies one chunk and the list of chunks.
CHUNK_MAXIMUM: Final = 512


class Prefixes(Generic[V]):
    """See the module. Values are never None."""

    __slots__ = ("chunks", "heads", "links")

    def __init__(
        self, heads: list[str], chunks: list[list[str]], links: Table[str, _Link[V]]
    ) -> None:
        self.heads = heads
        self.chunks = chunks
        self.links = links

    @classmethod
    def of(cls, values: dict[str, V]) -> Prefixes[V]:
        """From all prefixes at once."""
        names = sorted(values)
        links: dict[str, _Link[V]] = {}
        parent: str | None = None
        for name in names:
            while parent is not None and not name.startswith(parent):
                parent = links[parent][1]
            links[name] = (values[name], parent)
            parent = name
        chunks = [names[start : start + CHUNK_MAXIMUM] for start in range(0, len(names), CHUNK_MAXIMUM)]
        return cls([chunk[0] for chunk in chunks], chunks, links)

    def __len__(self) -> int:
        return len(self.links)

    def get(self, prefix: str) -> V | None:
        """The value of exactly this prefix."""
        link = self.links.get(prefix)
        return None if link is None else link[0]

    def items(self) -> Iterator[tuple[str, V]]:
        """Every prefix with its value, in no particular order."""
        for prefix, (value, _) in self.links.items():
            yield prefix, value

    def of_name(self, name: str) -> Iterator[tuple[str, V]]:
        """Every prefix of ``name`` (itself included) with its value, longest first."""
        prefix = self.longest(name)
        while prefix is not None:
            value, parent = self.links.get(prefix)  # type: ignore[misc]
            yield prefix, value
            prefix = parent

    def longest(self, name: str) -> str | None:
        """The longest stored prefix of ``name``."""
        candidate = self._at_most(name)
        while candidate is not None and not name.startswith(candidate):
            candidate = self.links.get(candidate)[1]  # type: ignore[index]
        return candidate

    def _at_most(self, name: str) -> str | None:
        """The greatest stored prefix <= ``name``."""
        heads = self.heads
        if len(heads) > 1:
            at = bisect_right(heads, name) - 1
            if at < 0:
                return None
            chunk = self.chunks[at]
        elif heads:
            chunk = self.chunks[0]
        else:
            return None
        at = bisect_right(chunk, name) - 1
        return chunk[at] if at >= 0 else None

    def with_value(self, prefix: str, value: V | None) -> Prefixes[V]:
        """With the value of ``prefix`` set, or ``prefix`` removed if ``value`` is None; this one stays as it is."""
        link = self.links.get(prefix)
        if link is not None and value is not None:
            return Prefixes(self.heads, self.chunks, with_entries(self.links, {prefix: (value, link[1])}))
        if value is not None:
            parent = self.longest(prefix)
            links = {prefix: (value, parent), **self._relinked(prefix, parent, prefix)}
            return self._with_order(prefix, links, inserted=True)
        if link is not None:
            return self._with_order(
                prefix, {prefix: None, **self._relinked(prefix, prefix, link[1])}, inserted=False
            )
        return self

    def _relinked(self, prefix: str, parent: str | None, new_parent: str | None) -> dict[str, _Link[V]]:
        """The links of what starts with ``prefix`` and has this parent, moved to the new one."""
        links: dict[str, _Link[V]] = {}
        for name in self._after(prefix):
            if not name.startswith(prefix):
                break
            value, current = self.links.get(name)  # type: ignore[misc]
            if current == parent:
                links[name] = (value, new_parent)
        return links

    def _after(self, prefix: str) -> Iterator[str]:
        """Every stored prefix > ``prefix``, in order."""
        first = max(bisect_right(self.heads, prefix) - 1, 0)
        for chunk in self.chunks[first:]:
            for at in range(bisect_right(chunk, prefix), len(chunk)):
                yield chunk[at]

    def _with_order(self, prefix: str, links: dict[str, _Link[V] | None], *, inserted: bool) -> Prefixes[V]:
        """With ``prefix`` inserted into, or removed from, the order, and these links changed."""
        at = max(bisect_right(self.heads, prefix) - 1, 0)
        chunk = self.chunks[at].copy() if self.chunks else []
        if inserted:
            insort(chunk, prefix)
        else:
            del chunk[bisect_left(chunk, prefix)]
        half = len(chunk) // 2
        pieces = [chunk[:half], chunk[half:]] if len(chunk) > CHUNK_MAXIMUM else [chunk] if chunk else []
        chunks = [*self.chunks[:at], *pieces, *self.chunks[at + 1 :]]
        return Prefixes([each[0] for each in chunks], chunks, with_entries(self.links, links))
