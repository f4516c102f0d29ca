"""AclIndex: all ACLs of one image, arranged for decisions. Immutable; the next shares what did not change.

    AclIndex
    |-- image                        the ACLs by id: columns, and changes since (snapshot.image)
    |-- rows: RowIndex               where in the columns the ACLs of a principal are, and those of a name
    |-- resources: ResourceIndex     by *name*, whoever an ACL is for: rows, and the changes since. For the
    |                                default, the audit log, explanations and listings
    `-- principals[principal type]: Versioned
        `-- name -> LazyRights            of everyone who has ACLs, or had some among the rows
            `-- rights[type]: Rights          by *principal*: what may it do? All that a decision reads
                |-- star      of literal "*"  A Leaf is an int of allow and deny bits, or such an int for
                |-- prefixes  PrefixRanges    each host (masks); the Leaf of all of a name's
                |-- named     name -> Leaf    prefixes is found by one bisection (prefix_ranges);
                `-- others    name -> Leaf    named: a literal name's own and both together (rights)

A decision reads the Rights of two principals, the asker's and those of ``User:*``, and ors one leaf of each
for a literal name, at most three for another. Rights are made at the first question of their principal: a
node that starts with a million ACLs sorts columns, and makes tables for those who come. Those of ``User:*``,
and of principals with very many names, are made at once, so that nobody waits for them.

An update notes what changed at its places, and at which places its principal's Rights are to be looked at
again: that is done when that principal next asks. What a leaf says is then worked out anew from all ACLs
there: a removal needs no arithmetic, and an equal ACL under two ids is in force until both are gone (I8). It
costs what changed, however large the rest is: no table with many entries is ever copied (versioned, overlay).
When an image comes with new columns, the index is built anew.

The principal's type ends at its first colon; an ACL principal without one matches nobody, and is in
`resources` only (8.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.index.lazy_rights import NO_RIGHTS, LazyRights, PrincipalRights
from authorizer.index.places import KINDS, PREFIXED, is_odd, place_of
from authorizer.index.prefix_ranges import PrefixRanges
from authorizer.index.resource_index import ResourceIndex
from authorizer.index.rights import NO_LEAVES, Rights
from authorizer.index.row_index import RowIndex
from authorizer.index.versioned import Versioned
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from authorizer.index.masks import Leaf
    from authorizer.index.places import Place
    from authorizer.index.resource_index import Step
    from authorizer.index.row_index import LeavesByKind
    from records.columns.acl_table import AppliedAcl
    from records.principal import KafkaPrincipal
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: Making the Rights of so many places takes about a millisecond: those of larger principals are made at once.
LAZY_PLACES_MAXIMUM: Final = 1024
# Touched places that wait for a question; then they are looked at without one.
_WAITING_MAXIMUM: Final = 64

_NO_NAMES: Final[dict[str, Leaf]] = {}


# The principals of one type, by name.
_Named = Versioned[str, LazyRights]


class AclIndex:
    """See the module.

    Attributes:
        everyone: the rights of ``User:*``, kept apart because every question needs them.
        count: ACLs, by id.
        odd: for each resource type, how many ACLs have a pattern or permission type that is none of Kafka's
            four; masks decide them rightly, but authorize-by-resource-type has rules of its own for them.
    """

    __slots__ = ("count", "everyone", "image", "odd", "principals", "resources", "rows")

    def __init__(
        self,
        image: AclsImage,
        rows: RowIndex,
        resources: ResourceIndex,
        principals: Mapping[str, _Named],
        everyone: PrincipalRights,
        count: int,
        odd: tuple[int, ...],
    ) -> None:
        self.image = image
        self.rows = rows
        self.resources = resources
        self.principals = principals
        self.everyone = everyone
        self.count = count
        self.odd = odd

    @classmethod
    def of(cls, image: AclsImage) -> AclIndex:
        """All of an image."""
        columns = image.columns
        rows = RowIndex(columns)
        by_type: dict[str, dict[str, LazyRights]] = {}
        for principal in columns.principals.texts:
            principal_type, colon, name = principal.partition(":")
            if colon:
                by_type.setdefault(principal_type, {})[name] = LazyRights.of_rows(principal)
        principals = {principal_type: Versioned(named) for principal_type, named in by_type.items()}
        index = cls(image, rows, ResourceIndex.of(rows), principals, NO_RIGHTS, len(columns), rows.odd)
        for principal in rows.principals_in(LAZY_PLACES_MAXIMUM):
            index.rights_of(principal)
        index.everyone = index.rights_of(WILDCARD_PRINCIPAL) or NO_RIGHTS
        if not image.changes:
            return index
        steps: list[Step] = []
        for acl_id, acl in image.changes.items():
            row = columns.row_of(acl_id)
            if row is not None:
                gone = columns.acl(row)
                steps.append((gone, place_of(gone.record), True, False))
            if acl is not None:
                steps.append((acl, place_of(acl.record), False, True))
        return index._after(steps, image)

    def advanced(self, delta: AclsDelta, image: AclsImage) -> AclIndex:
        """The index of ``image``, which is this one's image with the changes of ``delta``."""
        if image.columns is not self.rows.columns:
            return AclIndex.of(image)
        changes = self.image.changes
        steps: list[Step] = []
        for old, new in delta.changed():
            if old is not None:
                steps.append((old, place_of(old.record), old.record.id not in changes, False))
            if new is not None:
                steps.append((new, place_of(new.record), False, True))
        return self._after(steps, image)

    def _after(self, steps: list[Step], image: AclsImage) -> AclIndex:
        """The next index, of ``image``."""
        count, odd = self.count, self.odd
        touched: dict[str, LazyRights] = {}
        for acl, place, is_row, is_added in steps:
            record = acl.record
            change = 1 if is_added else -1
            count += change
            if is_odd(record):
                kind = place[0] % PREFIXED
                odd = (*odd[:kind], odd[kind] + change, *odd[kind + 1 :])
            principal = record.principal
            lazy = touched.get(principal)
            if lazy is None:
                before = self._lazy_of(principal)
                lazy = LazyRights.of_nobody(principal) if before is None else before.following()
                touched[principal] = lazy
            lazy.note(place, 0 if is_row else change)
        principals = {**self.principals}
        many = []
        for principal, lazy in touched.items():
            principal_type, colon, name = principal.partition(":")
            if colon:
                named = principals.get(principal_type) or Versioned({})
                is_any = lazy.added or self.rows.has_principal(principal)
                principals[principal_type] = named.with_one(name, lazy if is_any else None)
                if lazy.waiting > _WAITING_MAXIMUM:
                    many.append(lazy)
        resources = self.resources.after(steps, image)
        index = AclIndex(image, self.rows, resources, principals, self.everyone, count, odd)
        for lazy in many:
            index.made(lazy)
        if WILDCARD_PRINCIPAL in touched:
            index.everyone = index.rights_of(WILDCARD_PRINCIPAL) or NO_RIGHTS
        return index

    def _lazy_of(self, acl_principal: str) -> LazyRights | None:
        """Of the principal that an ACL has; None if there are no ACLs of it, or it matches nobody."""
        principal_type, colon, name = acl_principal.partition(":")
        named = self.principals.get(principal_type) if colon else None
        return None if named is None else named.get(name)

    def rights_for(self, principal: KafkaPrincipal) -> tuple[PrincipalRights, ...]:
        """What counts for who asks: the principal's own rights, if it has any, and those of ``User:*``."""
        named = self.principals.get(principal.principal_type)
        if named is None:
            return (self.everyone,)
        own = named.newest.get(principal.name)
        if named.since is not None:
            own = named.get(principal.name)
        return (self.everyone,) if own is None else (own.rights or self.made(own), self.everyone)

    def rights_of(self, acl_principal: str) -> PrincipalRights | None:
        """What the ACLs for exactly this principal say; None if there are none, or it matches nobody."""
        lazy = self._lazy_of(acl_principal)
        return None if lazy is None else lazy.rights or self.made(lazy)

    def rows_of(self, acl_principal: str | None) -> npt.NDArray[np.int32]:
        """The rows in force, of everybody or of exactly one principal, also if that matches nobody."""
        rows = self.rows.every_row() if acl_principal is None else self.rows.rows_of(acl_principal)
        changes = self.image.changes
        return self.rows.without(rows, changes) if changes else rows

    def added_of(self, acl_principal: str | None) -> Iterator[AppliedAcl]:
        """The ACLs that are no rows."""
        if acl_principal is not None and ":" in acl_principal:
            yield from self._added_of(acl_principal)
            return
        for acl in self.image.changes.values():
            if acl is not None and acl_principal in (None, acl.record.principal):
                yield acl

    def _added_of(self, acl_principal: str) -> Iterator[AppliedAcl]:
        """Those of a principal that may have rights, found where it has any ACLs."""
        lazy = self._lazy_of(acl_principal)
        if lazy is None or not lazy.added:
            return
        added_at = self.resources.added_at
        for kind, rights in enumerate(lazy.rights or self.made(lazy)):
            if rights is not None:
                for literal, _ in rights.literals():
                    yield from added_at((kind, literal), acl_principal)
                for prefix, _ in () if rights.prefixes is None else rights.prefixes.values.items():
                    yield from added_at((kind + PREFIXED, prefix), acl_principal)

    def made(self, lazy: LazyRights) -> PrincipalRights:
        """The rights of a principal of this index, which are made now if they are not yet."""
        source = lazy.source
        if source is None:
            return lazy.rights  # type: ignore[return-value] # made meanwhile, by another thread
        before, places = source
        principal, leaf = lazy.principal, self.resources.leaf
        if before is None:
            leaves = self.rows.leaves_of(principal)
            for place in places:
                _set(leaves, place, leaf(place, principal))
            rights = _rights(leaves)
        else:
            changed: dict[int, dict[str, Leaf | None]] = {}
            for place in dict.fromkeys(places) if len(places) > 1 else places:
                kind, name = place
                changed.setdefault(kind, {})[name] = leaf(place, principal)
            mine = list(before)
            for kind, leaves_there in changed.items():
                here = mine[kind % PREFIXED] or NO_LEAVES
                mine[kind % PREFIXED] = (
                    here.with_literals(leaves_there) if kind < PREFIXED else here.with_prefixes(leaves_there)
                )
            rights = tuple(mine)
        lazy.keep(rights)
        return rights


def _set(leaves: LeavesByKind, place: Place, leaf: Leaf | None) -> None:
    kind, name = place
    here = leaves[kind]
    if leaf is None:
        if here is not None:
            here.pop(name, None)
    elif here is None:
        leaves[kind] = {name: leaf}
    else:
        here[name] = leaf


def _rights(leaves: LeavesByKind) -> PrincipalRights:
    """``leaves`` must never change again."""
    return tuple(
        Rights.of(literals or _NO_NAMES, PrefixRanges.of(prefixes) if prefixes else None)
        if literals or prefixes
        else None
        for literals, prefixes in zip(leaves[:PREFIXED], leaves[PREFIXED:KINDS], strict=True)
    )
