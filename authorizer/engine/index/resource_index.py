"""ResourceIndex: every ACL of all principals, by resource type and name.

It finds the ACLs that cover a name (explanations, MATCH filters) and whether any ACL does
(``allow.everyone.if.no.acl.found``), by one look-up for each length of a prefix. That is slower than
`prefix_ranges`, but few decisions need it, and the cost of a change does not depend on the prefixes.

It consists of the rows of the image's columns (row_index) and, for each pattern that changed since, the added
ACLs by principal and the number of its rows that are no longer in force:

    changed[topic, orders]    ({User:alice: (acl, acl), User:bob: (acl,)},  removed rows)

A row is in force if its id is not among the image's changes. ACL objects are created on demand.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np

from authorizer.api.ip_address import NetworkRules, host_matches, matches_host
from authorizer.engine.index.masks import HostMasks, PatternLeaf, acl_mask, add_to_leaf
from authorizer.engine.index.pattern_keys import PREFIXED, PatternKey, has_unknown_code, pattern_key
from records.acl import WILDCARD
from records.columns.acl_table import AppliedAcl, row_chunks
from snapshot.persistent_map import PersistentMap, with_item, without_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from authorizer.engine.index.covers import Cover
    from authorizer.engine.index.row_index import RowIndex
    from records.ids import Uuid
    from records.principal import KafkaPrincipal
    from snapshot.image import AclsImage

#: An ACL before and after an update; None if it was not, or is not, in force.
Change = tuple["AppliedAcl | None", "AppliedAcl | None"]

_Added: TypeAlias = "PersistentMap[str, tuple[AppliedAcl, ...]]"
_Changed: TypeAlias = "tuple[_Added, int]"

_UNCHANGED: Final[_Changed] = (PersistentMap(), 0)


class ResourceIndex(msgspec.Struct, eq=False, gc=False):
    """Immutable.

    Attributes:
        lengths: for each resource type the lengths of its prefixes, longest first; a length may have no
            prefix any more.
        count: ACLs, by id.
        unknown_code_counts: for each resource type, the number of ACLs with an unknown code (pattern_keys).
            Masks decide them correctly, but authorize-by-resource-type skips them.
    """

    _rows: RowIndex
    _changed: PersistentMap[PatternKey, _Changed]
    lengths: tuple[tuple[int, ...], ...]
    count: int
    unknown_code_counts: tuple[int, ...]
    _image_changes: Mapping[Uuid, AppliedAcl | None]  # the image's changes

    @classmethod
    def of(cls, rows: RowIndex) -> ResourceIndex:
        return cls(rows, PersistentMap(), rows.lengths, len(rows.columns), rows.unknown_code_counts, {})

    def has(self, key: PatternKey) -> bool:
        """Return whether exactly this name or prefix has ACLs."""
        added, removed_count = self._changed.get(key, _UNCHANGED)
        return bool(added) or removed_count < self._rows.count_at(*key)

    def covers(self, resource_type: int, name: str) -> bool:
        has = self.has
        return (
            has((resource_type, WILDCARD))
            or has((resource_type, name))
            or any(True for _ in self.prefixes_of(resource_type, name))
        )

    def covering_keys(self, resource_type: int, name: str) -> Iterator[PatternKey]:
        """Yield the keys of all patterns of a type that cover a name."""
        for literal in dict.fromkeys((name, WILDCARD)):
            yield int(resource_type), literal
        for prefix in self.prefixes_of(resource_type, name):
            yield resource_type + PREFIXED, prefix

    def prefixes_of(self, resource_type: int, name: str) -> Iterator[str]:
        """Yield every prefix of ``name`` (itself included) that has ACLs, longest first."""
        kind = resource_type + PREFIXED
        for length in self.lengths[resource_type]:
            if length <= len(name):
                prefix = name[:length]
                if self.has((kind, prefix)):
                    yield prefix

    def names(self, resource_type: int) -> set[str]:
        """Return every literal name and every prefix."""
        kinds = (resource_type, resource_type + PREFIXED)
        names = {name for kind in kinds for name in self._rows.names(kind)}
        for name in self.changed_names(resource_type):
            if any(self.has((kind, name)) for kind in kinds):
                names.add(name)
            else:
                names.discard(name)
        return names

    def changed_names(self, resource_type: int) -> set[str]:
        """Return the names and prefixes that differ from the rows."""
        return {name for kind, name in self._changed if kind % PREFIXED == resource_type}

    def acls(self, key: PatternKey) -> Iterator[AppliedAcl]:
        """Yield the ACLs of exactly this name or prefix: rows in their order, then added ACLs."""
        for piece in row_chunks(self.rows_at(key, None)):
            yield from self._rows.columns.acls(piece)
        yield from self.added_at(key, None)

    def rows_at(self, key: PatternKey, principal: str | None) -> npt.NDArray[np.int32]:
        """Return the rows in force of a pattern, of all principals or of exactly one, in ascending order."""
        if principal is not None:
            return np.array(self._rows_in_force(principal, key), np.int32)
        rows = self._rows.rows_at(*key)
        _, removed_count = self._changed.get(key, _UNCHANGED)
        return self._rows.exclude(rows, self._image_changes) if removed_count else rows

    def added_at(self, key: PatternKey, principal: str | None) -> Iterable[AppliedAcl]:
        added, _ = self._changed.get(key, _UNCHANGED)
        if principal is None:
            return (acl for acls in added.values() for acl in acls)
        return added.get(principal, ())

    def acls_for(
        self, key: PatternKey, principal: str, host: str, networks: NetworkRules | None = None
    ) -> list[AppliedAcl]:
        """Return a pattern's ACLs for exactly this principal and a host; ``networks``: by other rules."""
        columns = self._rows.columns
        rules = self._rows.networks if networks is None else networks
        found = [
            columns.acl(row)
            for row in self._rows_in_force(principal, key)
            if host_matches(
                columns.hosts.text(row), host, networks=rules.of(columns.permission_types.item(row))
            )
        ]
        added = self.added_at(key, principal)
        return found + [acl for acl in added if matches_host(acl.record, host, rules)]

    def acls_with_bits(
        self, request_bits: int, resource_type: int, cover: Cover, principal: KafkaPrincipal
    ) -> list[AppliedAcl]:
        """Return the ACLs of a principal and pattern whose mask has any of these bits, for any host."""
        rows, group = self._rows, cover.group
        if group is not None and not self._changed:
            return rows.acls_with_bits(request_bits, group)
        key, acl_principal = (resource_type + cover.prefixed, cover.name), str(principal)
        if group is None:
            group = rows.group_at(rows.code_of(acl_principal), *key)
        found = [] if group is None else rows.acls_with_bits(request_bits, group)
        if key in self._changed:
            found = [acl for acl in found if acl.record.id not in self._image_changes]
            added = self.added_at(key, acl_principal)
            masks = (acl_mask(acl.record.operation, acl.record.permission_type) for acl in added)
            found += compress(added, map(request_bits.__and__, masks))
        return found

    def leaf(self, key: PatternKey, principal: str, of_rows: PatternLeaf | None) -> PatternLeaf | None:
        """Return the leaf of a pattern's ACLs for exactly this principal; None if there are none.

        ``of_rows`` is the leaf of all its rows, whether they are in force or not.
        """
        added, removed_count = self._changed.get(key, _UNCHANGED)
        if removed_count:
            leaf = self._rows.leaf(self._rows_in_force(principal, key))
        else:
            leaf = of_rows if type(of_rows) is not HostMasks else of_rows.copy()
        for acl in added.get(principal, ()):
            record = acl.record
            read_host = self._rows.read_host(record.host, record.permission_type)
            leaf = add_to_leaf(leaf, read_host, acl_mask(record.operation, record.permission_type))
        return leaf

    def _rows_in_force(self, principal: str, key: PatternKey) -> list[int]:
        index = self._rows
        rows = index.rows_in(index.group_at(index.code_of(principal), *key))
        if rows and self._changed.get(key, _UNCHANGED)[1]:
            id_of, changes = index.columns.id_of, self._image_changes
            rows = [row for row in rows if id_of(row) not in changes]
        return rows

    def with_changes(
        self, pairs: Iterable[Change], image: AclsImage
    ) -> tuple[ResourceIndex, dict[tuple[str, PatternKey], int]]:
        """Return the index of ``image``, which has these changes, and the growth of the added ACLs.

        The growth is the change of the number of added ACLs, by ACL principal and changed pattern.
        """
        changed, lengths, count, unknown_code_counts = (
            self._changed,
            self.lengths,
            self.count,
            self.unknown_code_counts,
        )
        growth: dict[tuple[str, PatternKey], int] = {}
        for before, after in pairs:
            for acl, change in ((before, -1), (after, 1)):
                if acl is None:
                    continue
                record = acl.record
                key = kind, name = pattern_key(record)
                principal = record.principal
                count += change
                if has_unknown_code(record):
                    of_type = kind % PREFIXED
                    unknown_code_counts = (
                        *unknown_code_counts[:of_type],
                        unknown_code_counts[of_type] + change,
                        *unknown_code_counts[of_type + 1 :],
                    )
                added, removed_count = changed.get(key, _UNCHANGED)
                acls = added.get(principal, ())
                if change > 0:
                    acls = (*acls, acl)
                    if kind >= PREFIXED and len(name) not in lengths[kind - PREFIXED]:
                        lengths = _with_length(lengths, kind - PREFIXED, len(name))
                elif record.id in self._image_changes:
                    # By its id: an equal ACL may be here under another id (I8).
                    acls = tuple([each for each in acls if each.record.id != record.id])
                else:
                    removed_count, change = removed_count + 1, 0  # noqa: PLW2901 - a row, which was not added
                if acls:
                    added = with_item(added, principal, acls)
                elif change:
                    added = without_item(added, principal)
                changed = (
                    with_item(changed, key, (added, removed_count))
                    if added or removed_count
                    else without_item(changed, key)
                )
                principal_key = principal, key
                growth[principal_key] = growth.get(principal_key, 0) + change
        return ResourceIndex(self._rows, changed, lengths, count, unknown_code_counts, image.changes), growth


def _with_length(
    lengths: tuple[tuple[int, ...], ...], resource_type: int, length: int
) -> tuple[tuple[int, ...], ...]:
    more = tuple(sorted((*lengths[resource_type], length), reverse=True))
    return (*lengths[:resource_type], more, *lengths[resource_type + 1 :])
