"""PrincipalIndex: by principal, what its ACLs allow and deny. All that most decisions read.

    known[principal type][name]      of everyone with rows: a code, until its rights are made of them
    changed[principal type][name]    of everyone whose rights are not as the rows have them

The first is shared by all indexes on the same rows, and filled by who asks. The second is a persistent map:
an update makes a new one, which shares what it does not touch.

A principal that asks for the first time is answered from the rows (row_rights): what it has at the few places
that cover a name is found as quickly whether it has five ACLs or a thousand. Its rights are made (rights)
when it has asked so often that this pays. Those of ``User:*``, and of principals with very many places, are
made with the index, so that no question waits for them. An update changes rights that are made. Of others it
notes what a principal's ACLs say now at the places that it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import immutables
import msgspec

from authorizer.engine.index import limits
from authorizer.engine.index.covers import NO_COVER
from authorizer.engine.index.pattern_keys import PREFIXED
from authorizer.engine.index.rights import (
    NO_RIGHTS_OF_TYPE,
    ListableRights,
    MaterializedRights,
    Rights,
    RowRights,
)
from records.principal import EVERYONE, WILDCARD_PRINCIPAL, KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from authorizer.engine.index.masks import PatternLeaf
    from authorizer.engine.index.pattern_keys import PatternKey
    from authorizer.engine.index.resource_index import ResourceIndex
    from authorizer.engine.index.row_index import RowIndex

#: Rights by resource type.
PrincipalRights = tuple[ListableRights, ...]
# The same as the rows have them; a principal's code until they are made.
_OfRows = int | tuple[MaterializedRights, ...]
NO_RIGHTS: Final[PrincipalRights] = (NO_RIGHTS_OF_TYPE,) * PREFIXED


class _Changed(msgspec.Struct, gc=False):
    """A principal whose rights are not as the rows have them. Immutable in effect.

    Attributes:
        leaves: while the rights of its rows are not made, the places that changed, and what is said there:
            None where there is nothing any more.
        added: how many of the image's changes are ACLs for the principal.
        rights: with all changes, once they are made. Two threads may do it at once, and store equal ones.
    """

    leaves: immutables.Map[PatternKey, PatternLeaf | None]
    added: int
    rights: PrincipalRights | None


class PrincipalIndex(msgspec.Struct, eq=False, gc=False):
    """See the module. Immutable in effect.

    Attributes:
        everyone: the rights of ``User:*``, kept apart because every question needs them.
    """

    _rows: RowIndex
    _known: dict[str, dict[str, _OfRows]]
    _asked: dict[int, int]  # how often, by the code of who is answered from the rows
    _changed: dict[str, immutables.Map[str, _Changed]]
    _lengths: tuple[tuple[int, ...], ...]  # of prefixes, for each resource type, longest first
    everyone: PrincipalRights

    @classmethod
    def of(cls, rows: RowIndex) -> PrincipalIndex:
        """Of all rows."""
        texts = rows.columns.principals.texts
        known: dict[str, dict[str, _OfRows]] = {}
        for code, principal in enumerate(texts):
            principal_type, colon, name = principal.partition(":")
            if colon:
                known.setdefault(principal_type, {})[name] = code
        index = cls(rows, known, {}, {}, rows.lengths, NO_RIGHTS)
        index.everyone = index.made(EVERYONE) or NO_RIGHTS
        for code in rows.principals_in(limits.LAZY_PLACES):
            index.rights_of(texts[code])
        return index

    def rights_for(self, principal: KafkaPrincipal) -> tuple[PrincipalRights | _FromRows, PrincipalRights]:
        """What counts for who asks: the principal's own rights, and those of ``User:*``."""
        own: int | PrincipalRights | None = None
        if self._changed:
            changed = self._changed_of(principal)
            if changed is not None:
                own = changed.rights or self._own(principal)
        if own is None:
            named = self._known.get(principal.principal_type)
            own = None if named is None else named.get(principal.name)
        if own is None:
            return NO_RIGHTS, self.everyone
        return (_FromRows(self, principal, own) if isinstance(own, int) else own), self.everyone

    def rights_of(self, acl_principal: str) -> PrincipalRights | None:
        """As `made`, of the principal that an ACL is for; None if it matches nobody."""
        principal_type, colon, name = acl_principal.partition(":")
        return self.made(KafkaPrincipal(principal_type, name)) if colon else None

    def made(self, principal: KafkaPrincipal) -> PrincipalRights | None:
        """What the ACLs for exactly this principal say, put together; None if there are none."""
        own = self._own(principal)
        if isinstance(own, int):
            made = _made(self._rows, own, remembers=principal == EVERYONE)
            self._known[principal.principal_type][principal.name] = made
            self._asked.pop(own, None)
            own = self._own(principal)
        return own  # type: ignore[return-value] # it was made

    def _own(self, principal: KafkaPrincipal) -> int | PrincipalRights | None:
        """The rights of a principal; its code, if those of its rows are not made."""
        changed = self._changed_of(principal)
        if changed is not None and changed.rights is not None:
            return changed.rights
        of_rows = self._known.get(principal.principal_type, {}).get(principal.name)
        if changed is None or isinstance(of_rows, int):
            return of_rows
        rights: PrincipalRights = of_rows or NO_RIGHTS
        for place, leaf in changed.leaves.items():
            rights = _with_leaf(rights, place, leaf)
        changed.rights = rights
        return rights

    def _changed_of(self, principal: KafkaPrincipal) -> _Changed | None:
        named = self._changed.get(principal.principal_type)
        return None if named is None else named.get(principal.name)

    def added_places(self, principal: KafkaPrincipal) -> Iterator[PatternKey]:
        """Where there may be ACLs for exactly this principal that are no rows."""
        changed = self._changed_of(principal)
        if changed is not None and changed.added:
            for resource_type, rights in enumerate(self.made(principal) or ()):
                for cover in rights.places():
                    yield resource_type + cover.prefixed, cover.name

    def made_if_it_pays(self, principal: KafkaPrincipal, code: int) -> PrincipalRights | None:
        """As `made`, of a principal that has asked often enough; None if it has not yet. Counts."""
        asked = self._asked[code] = self._asked.get(code, 0) + 1
        pays = asked * limits.PLACES_FOR_AN_ANSWER >= self._rows.count_places(code)
        return self.made(principal) if pays else None

    def rights_from_rows(self, principal: KafkaPrincipal, code: int, resource_type: int) -> RowRights:
        """What the principal with this code may do, if its rights are not made."""
        changed = self._changed_of(principal)
        leaves = _UNCHANGED if changed is None else changed.leaves
        return RowRights(self._rows, code, leaves, resource_type, self._lengths[resource_type])

    def after(
        self, touched: Mapping[tuple[str, PatternKey], int], resources: ResourceIndex
    ) -> PrincipalIndex:
        """The next one, of ``resources``, which differs at these places of principals, as ACLs have them.

        And by how many the added ACLs have grown there.
        """
        by_type = {**self._changed}
        everyone = self.everyone
        for (acl_principal, place), grown in touched.items():
            principal_type, colon, name = acl_principal.partition(":")
            if not colon:
                continue
            of_rows = self._known.get(principal_type, {}).get(name)
            named = by_type.get(principal_type, _NOBODY)
            last = named.get(name)
            if last is None:
                rights, leaves, added = (
                    None if isinstance(of_rows, int) else of_rows or NO_RIGHTS,
                    _UNCHANGED,
                    grown,
                )
            else:
                rights, leaves, added = last.rights, last.leaves, last.added + grown
            leaf = resources.leaf(place, acl_principal, self._leaf_of_rows(of_rows, place))
            if rights is None:
                leaves = leaves.set(place, leaf)
            else:
                rights, leaves = _with_leaf(rights, place, leaf), _UNCHANGED
                if acl_principal == WILDCARD_PRINCIPAL:
                    everyone = rights
            if added or (of_rows is not None and rights != of_rows):
                by_type[principal_type] = named.set(name, _Changed(leaves, added, rights))
            elif last is not None:
                by_type[principal_type] = named.delete(name)
        return PrincipalIndex(self._rows, self._known, self._asked, by_type, resources.lengths, everyone)

    def _leaf_of_rows(self, of_rows: _OfRows | None, place: PatternKey) -> PatternLeaf | None:
        """What all rows of a principal say at a place, whether they are in force or not."""
        kind, name = place
        if isinstance(of_rows, tuple):
            cover = of_rows[kind % PREFIXED].at(kind - kind % PREFIXED, name)
            return None if cover is NO_COVER else cover.leaf
        group = self._rows.group_at(of_rows, kind, name)
        return None if group is None else self._rows.leaf_of(group)


class _FromRows:
    """In place of rights by resource type, of a principal whose rights are not made."""

    __slots__ = ("_code", "_index", "_made", "_principal")

    def __init__(self, index: PrincipalIndex, principal: KafkaPrincipal, code: int) -> None:
        self._index = index
        self._principal = principal
        self._code = code
        self._made: PrincipalRights | None = None

    def __getitem__(self, resource_type: int) -> Rights:
        made = self._made
        if made is None:
            made = self._made = self._index.made_if_it_pays(self._principal, self._code)
        if made is None:
            return self._index.rights_from_rows(self._principal, self._code, resource_type)
        return made[resource_type]


_UNCHANGED: Final[immutables.Map[PatternKey, PatternLeaf | None]] = immutables.Map()
_NOBODY: Final[immutables.Map[str, _Changed]] = immutables.Map()


def _made(rows: RowIndex, principal: int, *, remembers: bool) -> tuple[MaterializedRights, ...]:
    """What all rows of the principal with this code say, by rights that remember names or do not."""
    return tuple(
        MaterializedRights.of(covers, remembers=remembers) if covers else NO_RIGHTS_OF_TYPE
        for covers in rows.covers_of(principal)
    )


def _with_leaf(before: PrincipalRights, place: PatternKey, leaf: PatternLeaf | None) -> PrincipalRights:
    """The rights with what is said at this place."""
    kind, name = place
    resource_type = kind % PREFIXED
    rights = before[resource_type].with_place(kind - resource_type, name, leaf)
    return (*before[:resource_type], rights, *before[resource_type + 1 :])
