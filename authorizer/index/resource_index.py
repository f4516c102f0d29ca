"""ResourceIndex: every ACL by resource type and name, whoever it is for.

It answers which ACLs cover a name (explanations, MATCH filters) and whether any does
(``allow.everyone.if.no.acl.found``), in one look-up for each length that a prefix has. That is slower than
`prefix_ranges`, but most decisions never come here, and a change costs nothing more than itself
however many prefixes all principals have together.

What it knows is the rows of the image's columns (row_index) and, for each place where something changed
since, the ACLs that were added, by their principal, and how many of the rows there are no longer in force:

    changed[topic, orders]    ({User:alice: (acl, acl), User:bob: (acl,)},  rows gone)

A row is in force if its id is not among the image's changes. Objects are made of the rows that are asked for.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final

import immutables
import msgspec
import numpy as np

from authorizer.index import limits
from authorizer.index.masks import OwnLeaf, acl_mask, add_to_leaf
from authorizer.index.places import PREFIXED, Place
from records.acl import WILDCARD
from records.columns.acl_table import in_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from authorizer.index.row_index import RowIndex
    from records.columns.acl_table import AppliedAcl
    from records.ids import Uuid
    from snapshot.image import AclsImage

#: An ACL and its place; whether it is a row that is gone; and if not, whether it is added, or gone from what
#: was added before.
Step = tuple["AppliedAcl", Place, bool, bool]

_Added = immutables.Map[str, tuple["AppliedAcl", ...]]
_Changed = tuple[_Added, int]

_UNCHANGED: Final[_Changed] = (immutables.Map(), 0)


class ResourceIndex(msgspec.Struct, eq=False):
    """Immutable.

    Attributes:
        lengths: for each resource type the lengths that its prefixes have, longest first; one may have had
            its day.
    """

    _rows: RowIndex
    _changed: immutables.Map[Place, _Changed]
    lengths: tuple[tuple[int, ...], ...]
    _gone: Mapping[Uuid, AppliedAcl | None]  # the image's changes
    # The first that were asked for, by what they were to say, where and to whom.
    _said: dict[tuple[int, Place, str], tuple[AppliedAcl, ...]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, rows: RowIndex) -> ResourceIndex:
        """Of all rows."""
        return cls(rows, immutables.Map(), rows.lengths, {})

    def has(self, place: Place) -> bool:
        """Whether there is any ACL of exactly this name or prefix."""
        added, gone = self._changed.get(place, _UNCHANGED)
        return bool(added) or gone < self._rows.count_at(*place)

    def covers(self, resource_type: int, name: str) -> bool:
        """Whether any ACL covers ``name``."""
        has = self.has
        return (
            has((resource_type, WILDCARD))
            or has((resource_type, name))
            or any(True for _ in self.prefixes_of(resource_type, name))
        )

    def prefixes_of(self, resource_type: int, name: str) -> Iterator[str]:
        """Every prefix of ``name`` (itself included) that has ACLs, longest first."""
        kind = resource_type + PREFIXED
        for length in self.lengths[resource_type]:
            if length <= len(name):
                prefix = name[:length]
                if self.has((kind, prefix)):
                    yield prefix

    def names(self, resource_type: int) -> set[str]:
        """Every literal name and every prefix."""
        kinds = (resource_type, resource_type + PREFIXED)
        names = {name for kind in kinds for name in self._rows.names(kind)}
        for name in self.changed_names(resource_type):
            if any(self.has((kind, name)) for kind in kinds):
                names.add(name)
            else:
                names.discard(name)
        return names

    def changed_names(self, resource_type: int) -> set[str]:
        """The names and prefixes where something is not as the rows have it."""
        return {name for kind, name in self._changed if kind % PREFIXED == resource_type}

    def acls(self, place: Place) -> Iterator[AppliedAcl]:
        """The ACLs of exactly this name or prefix: those of rows in the rows' order, then the others."""
        for piece in in_pieces(self.rows_at(place, None)):
            yield from self._rows.columns.acls(piece)
        yield from self.added_at(place, None)

    def rows_at(self, place: Place, principal: str | None) -> npt.NDArray[np.int32]:
        """The rows there that are in force, of everybody or of exactly one principal, in ascending order."""
        if principal is not None:
            return np.array(self._rows_of_at(principal, place), np.int32)
        rows = self._rows.rows_at(*place)
        _, gone = self._changed.get(place, _UNCHANGED)
        return self._rows.without(rows, self._gone) if gone else rows

    def added_at(self, place: Place, principal: str | None) -> Iterable[AppliedAcl]:
        """The other ACLs there."""
        added, _ = self._changed.get(place, _UNCHANGED)
        if principal is None:
            return (acl for acls in added.values() for acl in acls)
        return added.get(principal, ())

    def acls_for(self, place: Place, principal: str, host: str) -> list[AppliedAcl]:
        """Those for exactly this principal that match a host."""
        hosts = (host, WILDCARD)
        columns = self._rows.columns
        rows = self._rows_of_at(principal, place)
        found = [columns.acl(row) for row in rows if columns.hosts.text(row) in hosts]
        return found + [acl for acl in self.added_at(place, principal) if acl.record.host in hosts]

    def acls_saying(self, asked: int, place: Place, principal: str, host: str) -> Sequence[AppliedAcl]:
        """Those of them that say any of these bits. There is one."""
        key = asked, place, principal
        said = self._said.get(key)
        if said is None:
            said = self._find_saying(asked, place, principal)
            if len(self._said) < limits.REMEMBERED_REASONS:
                self._said[key] = said
        # A single one is for this host, for one is.
        return said if len(said) == 1 else [acl for acl in said if acl.record.host in (WILDCARD, host)]

    def _find_saying(self, asked: int, place: Place, principal: str) -> tuple[AppliedAcl, ...]:
        """The same for any host."""
        found = [*map(self._rows.columns.acl, self._rows.rows_saying(asked, principal, *place))]
        if place in self._changed:
            added = self.added_at(place, principal)
            said = (acl_mask(acl.record.operation, acl.record.permission_type) for acl in added)
            found = [acl for acl in found if acl.record.id not in self._gone]
            found += compress(added, map(asked.__and__, said))
        return tuple(found)

    def leaf(self, place: Place, principal: str) -> OwnLeaf | None:
        """What the ACLs there for exactly this principal say together; None if there are none."""
        rows = self._rows_of_at(principal, place)
        leaf = self._rows.leaf(rows) if rows else None
        for acl in self.added_at(place, principal):
            record = acl.record
            leaf = add_to_leaf(leaf, record.host, acl_mask(record.operation, record.permission_type))
        return leaf

    def _rows_of_at(self, principal: str, place: Place) -> list[int]:
        """The rows of one principal at a place that are in force."""
        rows = self._rows.rows_of_at(principal, *place)
        if rows and self._changed.get(place, _UNCHANGED)[1]:
            id_of, changes = self._rows.columns.id_of, self._gone
            rows = [row for row in rows if id_of(row) not in changes]
        return rows

    def after(self, steps: Sequence[Step], image: AclsImage) -> ResourceIndex:
        """The next one, of ``image``: after these steps."""
        changed, lengths = self._changed, self.lengths
        for acl, place, is_row, is_added in steps:
            added, gone = changed.get(place, _UNCHANGED)
            principal = acl.record.principal
            here = added.get(principal, ())
            if is_row:
                gone += 1
            elif is_added:
                added = added.set(principal, (*here, acl))
                kind, name = place
                if kind >= PREFIXED and len(name) not in lengths[kind - PREFIXED]:
                    lengths = _with_length(lengths, kind - PREFIXED, len(name))
            else:
                # By its id: an equal one may be here under another (I8).
                here = tuple(each for each in here if each.record.id != acl.record.id)
                added = added.set(principal, here) if here else added.delete(principal)
            is_any = added or gone
            changed = changed.set(place, (added, gone)) if is_any else changed.delete(place)
        return ResourceIndex(self._rows, changed, lengths, image.changes)


def _with_length(
    lengths: tuple[tuple[int, ...], ...], resource_type: int, length: int
) -> tuple[tuple[int, ...], ...]:
    more = tuple(sorted((*lengths[resource_type], length), reverse=True))
    return (*lengths[:resource_type], more, *lengths[resource_type + 1 :])
