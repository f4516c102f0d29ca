"""ResourceIndex: every ACL of one resource type by resource name, whoever it is for.

It answers which ACLs cover a name (explanations, MATCH filters) and whether any does
(``allow.everyone.if.no.acl.found``), in one look-up for each length that a prefix has. That is slower than
`authorizer.prefix_ranges`, but most decisions never come here, and a change costs nothing more than itself
however many prefixes all principals have together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.buckets import Bucket
from authorizer.overlay import Table, with_entries
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ResourceIndex:
    """Immutable.

    Attributes:
        literals: the bucket of each literal name, ``*`` among them.
        prefixes: the bucket of each prefix.
    """

    __slots__ = ("_lengths", "literals", "prefixes")

    def __init__(
        self, literals: Table[str, Bucket], prefixes: Table[str, Bucket], lengths: Mapping[int, int]
    ) -> None:
        self.literals = literals
        self.prefixes = prefixes
        self._lengths = lengths  # length -> how many prefixes have it; longest first

    @classmethod
    def of(cls, literals: dict[str, Bucket], prefixes: dict[str, Bucket]) -> ResourceIndex:
        """From all ACLs at once; both dicts must never change again."""
        return cls(literals, prefixes, _counted({}, dict.fromkeys(prefixes, 1)))

    def get(self, name: str, *, prefixed: bool) -> Bucket | None:
        """The ACLs of exactly this name or prefix."""
        return (self.prefixes if prefixed else self.literals).get(name)

    def covers(self, name: str) -> bool:
        """Whether any ACL covers ``name``."""
        literals = self.literals
        return (
            literals.get(WILDCARD) is not None
            or literals.get(name) is not None
            or any(True for _ in self.prefixes_of(name))
        )

    def prefixes_of(self, name: str) -> Iterator[tuple[str, Bucket]]:
        """Every prefix of ``name`` (itself included) with its ACLs, longest first."""
        prefixes = self.prefixes
        for length in self._lengths:
            if length <= len(name):
                prefix = name[:length]
                bucket = prefixes.get(prefix)
                if bucket is not None:
                    yield prefix, bucket

    def names(self) -> set[str]:
        """Every literal name and every prefix."""
        return {name for table in (self.literals, self.prefixes) for name, _ in table.items()}

    def with_buckets(self, buckets: Mapping[tuple[str, bool], Bucket | None]) -> ResourceIndex:
        """With these buckets, by (name, prefixed), set, or removed where they are None."""
        literals: dict[str, Bucket | None] = {}
        prefixes: dict[str, Bucket | None] = {}
        for (name, prefixed), bucket in buckets.items():
            (prefixes if prefixed else literals)[name] = bucket
        lengths = self._lengths
        if prefixes:
            more = {
                prefix: (bucket is not None) - (self.prefixes.get(prefix) is not None)
                for prefix, bucket in prefixes.items()
            }
            lengths = _counted(lengths, more) if any(more.values()) else lengths
        return ResourceIndex(
            with_entries(self.literals, literals) if literals else self.literals,
            with_entries(self.prefixes, prefixes) if prefixes else self.prefixes,
            lengths,
        )


def _counted(lengths: Mapping[int, int], more: Mapping[str, int]) -> dict[int, int]:
    """How many prefixes have each length, longest first, with some more or fewer."""
    counts = dict(lengths)
    for prefix, change in more.items():
        counts[len(prefix)] = counts.get(len(prefix), 0) + change
    return {length: counts[length] for length in sorted(counts, reverse=True) if counts[length]}
