"""PrincipalIndex: the rights of each principal. Most decisions read nothing else.

    known[principal type][name]      principals with rows: a code, until their rights are built
    changed[principal type][name]    principals whose rights differ from their rows

The first is shared by all indexes of the same rows, and filled on demand. The second is a persistent map: an
update creates a new one that shares what it does not change.

The first requests of a principal are answered from the rows (RowRights). That takes the same time for five
ACLs as for a thousand. Its rights are built once it has made enough requests. The rights of ``User:*`` and
of principals with very many patterns are built with the index. An update changes rights that are built;
for others it records the new leaves of the patterns that it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.engine.index import limits
from authorizer.engine.index.covers import NO_COVER
from authorizer.engine.index.pattern_keys import PREFIXED, PatternKey
from authorizer.engine.index.rights import (
    NO_RIGHTS_OF_TYPE,
    ListableRights,
    MaterializedRights,
    Rights,
    RowRights,
)
from records.principal import EVERYONE, WILDCARD_PRINCIPAL, KafkaPrincipal
from snapshot.persistent_map import PersistentMap, with_item, without_item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from authorizer.engine.index.masks import PatternLeaf
    from authorizer.engine.index.resource_index import ResourceIndex
    from authorizer.engine.index.row_index import RowIndex

#: Rights by resource type.
PrincipalRights = tuple[ListableRights, ...]
# Rights of the rows; the principal's code until they are built.
_RightsOrCode = int | tuple[MaterializedRights, ...]
NO_RIGHTS: Final[PrincipalRights] = (NO_RIGHTS_OF_TYPE,) * PREFIXED


class _Changed(msgspec.Struct, gc=False):
    """A principal whose rights differ from its rows. Immutable in effect.

    Attributes:
        leaves: the changed patterns and their leaves, while the rights of its rows are not built; a leaf is
            None if the pattern has no ACLs.
        added: number of the image's changes that are ACLs for the principal.
        rights: with all changes, once built. Two threads may build and store equal ones.
    """

    leaves: PersistentMap[PatternKey, PatternLeaf | None]
    added: int
    rights: PrincipalRights | None


class PrincipalIndex(msgspec.Struct, eq=False, gc=False):
    """See the module. Immutable in effect.

    Attributes:
        wildcard_rights: the rights of ``User:*``, which every request needs.
    """

    _rows: RowIndex
    _known: dict[str, dict[str, _RightsOrCode]]
    _request_counts: dict[int, int]  # by the code of a principal that is answered from the rows
    _changed: dict[str, PersistentMap[str, _Changed]]
    _lengths: tuple[tuple[int, ...], ...]  # of prefixes, for each resource type, longest first
    wildcard_rights: PrincipalRights

    @classmethod
    def of(cls, rows: RowIndex) -> PrincipalIndex:
        texts = rows.columns.principals.texts
        known: dict[str, dict[str, _RightsOrCode]] = {}
        for code, principal in enumerate(texts):
            principal_type, colon, name = principal.partition(":")
            if colon:
                known.setdefault(principal_type, {})[name] = code
        index = cls(rows, known, {}, {}, rows.lengths, NO_RIGHTS)
        index.wildcard_rights = index.build(EVERYONE) or NO_RIGHTS
        for code in rows.principals_with_more_patterns(limits.LAZY_PATTERNS):
            index.rights_of(texts[code])
        return index

    def rights_for(self, principal: KafkaPrincipal) -> tuple[PrincipalRights | _LazyRights, PrincipalRights]:
        """Return the rights of a principal, and those of ``User:*``."""
        rights_or_code: int | PrincipalRights | None = None
        if self._changed:
            changed = self._changed_of(principal)
            if changed is not None:
                rights_or_code = changed.rights or self._rights_or_code(principal)
        if rights_or_code is None:
            named = self._known.get(principal.principal_type)
            rights_or_code = None if named is None else named.get(principal.name)
        if rights_or_code is None:
            return NO_RIGHTS, self.wildcard_rights
        return (
            _LazyRights(self, principal, rights_or_code)
            if isinstance(rights_or_code, int)
            else rights_or_code
        ), self.wildcard_rights

    def rights_of(self, acl_principal: str) -> PrincipalRights | None:
        """Return `build` for the principal of an ACL; None if it matches no caller."""
        principal_type, colon, name = acl_principal.partition(":")
        return self.build(KafkaPrincipal(principal_type, name)) if colon else None

    def build(self, principal: KafkaPrincipal) -> PrincipalRights | None:
        """Return the built rights of exactly this principal; None if it has no ACLs."""
        rights_or_code = self._rights_or_code(principal)
        if isinstance(rights_or_code, int):
            built = _build_rights(self._rows, rights_or_code, caches_names=principal == EVERYONE)
            self._known[principal.principal_type][principal.name] = built
            self._request_counts.pop(rights_or_code, None)
            rights_or_code = self._rights_or_code(principal)
        return rights_or_code  # type: ignore[return-value] # it was built

    def _rights_or_code(self, principal: KafkaPrincipal) -> int | PrincipalRights | None:
        """The rights of a principal; its code if those of its rows are not built."""
        changed = self._changed_of(principal)
        if changed is not None and changed.rights is not None:
            return changed.rights
        of_rows = self._known.get(principal.principal_type, {}).get(principal.name)
        if changed is None or isinstance(of_rows, int):
            return of_rows
        rights: PrincipalRights = of_rows or NO_RIGHTS
        for key, leaf in changed.leaves.items():
            rights = _with_leaf(rights, key, leaf)
        changed.rights = rights
        return rights

    def _changed_of(self, principal: KafkaPrincipal) -> _Changed | None:
        named = self._changed.get(principal.principal_type)
        return None if named is None else named.get(principal.name)

    def added_keys(self, principal: KafkaPrincipal) -> Iterator[PatternKey]:
        """Yield the patterns that may have ACLs for exactly this principal that are not rows."""
        changed = self._changed_of(principal)
        if changed is not None and changed.added:
            for resource_type, rights in enumerate(self.build(principal) or ()):
                for cover in rights.covers():
                    yield resource_type + cover.prefixed, cover.name

    def build_if_worthwhile(self, principal: KafkaPrincipal, code: int) -> PrincipalRights | None:
        """Count a request; return `build` if the principal has made enough requests, else None."""
        request_count = self._request_counts[code] = self._request_counts.get(code, 0) + 1
        pays = request_count * limits.PATTERNS_PER_REQUEST >= self._rows.count_patterns(code)
        return self.build(principal) if pays else None

    def rights_from_rows(self, principal: KafkaPrincipal, code: int, resource_type: int) -> RowRights:
        """Return the rights of the principal with this code if they are not built."""
        changed = self._changed_of(principal)
        leaves = _UNCHANGED if changed is None else changed.leaves
        return RowRights(self._rows, code, leaves, resource_type, self._lengths[resource_type])

    def with_changes(
        self, growth: Mapping[tuple[str, PatternKey], int], resources: ResourceIndex
    ) -> PrincipalIndex:
        """Return the next index, of the next ``resources``.

        ``growth``: the change of the number of added ACLs, by ACL principal and changed pattern.
        """
        by_type = {**self._changed}
        wildcard_rights = self.wildcard_rights
        for (acl_principal, key), added_count in growth.items():
            principal_type, colon, name = acl_principal.partition(":")
            if not colon:
                continue
            of_rows = self._known.get(principal_type, {}).get(name)
            named = by_type.get(principal_type, _NO_PRINCIPALS)
            last = named.get(name)
            if last is None:
                rights, leaves, added = (
                    None if isinstance(of_rows, int) else of_rows or NO_RIGHTS,
                    _UNCHANGED,
                    added_count,
                )
            else:
                rights, leaves, added = last.rights, last.leaves, last.added + added_count
            leaf = resources.leaf(key, acl_principal, self._leaf_of_rows(of_rows, key))
            if rights is None:
                leaves = with_item(leaves, key, leaf)
            else:
                rights, leaves = _with_leaf(rights, key, leaf), _UNCHANGED
                if acl_principal == WILDCARD_PRINCIPAL:
                    wildcard_rights = rights
            if added or (of_rows is not None and rights != of_rows):
                by_type[principal_type] = with_item(named, name, _Changed(leaves, added, rights))
            elif last is not None:
                by_type[principal_type] = without_item(named, name)
        return PrincipalIndex(
            self._rows, self._known, self._request_counts, by_type, resources.lengths, wildcard_rights
        )

    def _leaf_of_rows(self, of_rows: _RightsOrCode | None, key: PatternKey) -> PatternLeaf | None:
        """The leaf of all rows of a principal for a pattern, whether they are in force or not."""
        kind, name = key
        if isinstance(of_rows, tuple):
            cover = of_rows[kind % PREFIXED].pattern_cover(kind - kind % PREFIXED, name)
            return None if cover is NO_COVER else cover.leaf
        group = self._rows.group_at(of_rows, kind, name)
        return None if group is None else self._rows.leaf_of(group)


class _LazyRights:
    """Rights by resource type of a principal whose rights are not built yet."""

    __slots__ = ("_code", "_index", "_principal", "_rights")

    def __init__(self, index: PrincipalIndex, principal: KafkaPrincipal, code: int) -> None:
        self._index = index
        self._principal = principal
        self._code = code
        self._rights: PrincipalRights | None = None

    def __getitem__(self, resource_type: int) -> Rights:
        built = self._rights
        if built is None:
            built = self._rights = self._index.build_if_worthwhile(self._principal, self._code)
        if built is None:
            return self._index.rights_from_rows(self._principal, self._code, resource_type)
        return built[resource_type]


_UNCHANGED: Final[PersistentMap[PatternKey, PatternLeaf | None]] = PersistentMap()
_NO_PRINCIPALS: Final[PersistentMap[str, _Changed]] = PersistentMap()


def _build_rights(rows: RowIndex, principal: int, *, caches_names: bool) -> tuple[MaterializedRights, ...]:
    """The rights of all rows of the principal with this code; ``caches_names``: with a cache of names."""
    return tuple(
        MaterializedRights.of(covers, caches_names=caches_names) if covers else NO_RIGHTS_OF_TYPE
        for covers in rows.covers_of(principal)
    )


def _with_leaf(before: PrincipalRights, key: PatternKey, leaf: PatternLeaf | None) -> PrincipalRights:
    kind, name = key
    resource_type = kind % PREFIXED
    rights = before[resource_type].with_leaf(kind - resource_type, name, leaf)
    return (*before[:resource_type], rights, *before[resource_type + 1 :])
