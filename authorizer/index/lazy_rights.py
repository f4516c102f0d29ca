"""LazyRights: the Rights of one principal, made when somebody first asks for them.

A million ACLs are made into tables only for those who ask, and an update only says at which places it changed
something. Making them is the index's work (acl_index); two threads may do it at once and store equal
values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.index.rights import Rights
from records.acl import ResourceType

if TYPE_CHECKING:
    from authorizer.index.places import Place

#: Rights by resource type.
PrincipalRights = tuple[Rights | None, ...]
NO_RIGHTS: Final[PrincipalRights] = (None,) * len(ResourceType)
# What rights are made of: others (None: those of the rows), and the places where something changed since.
_Source = tuple[PrincipalRights | None, list["Place"]]
_ROWS: Final[_Source] = (None, [])


class LazyRights:
    """Immutable in effect, once the index that it was made for is.

    Attributes:
        principal: whose, as the ACLs have it.
        added: how many of the image's changes are ACLs for this principal.
        source: what to make them of; None when they are made.
        rights: None until they are made.
    """

    __slots__ = ("added", "principal", "rights", "source")

    def __init__(self, principal: str, added: int, source: _Source) -> None:
        self.principal = principal
        self.added = added
        self.source: _Source | None = source
        self.rights: PrincipalRights | None = None

    @classmethod
    def of_rows(cls, principal: str) -> LazyRights:
        """As the image's columns have them."""
        return cls(principal, 0, _ROWS)

    @classmethod
    def of_nobody(cls, principal: str) -> LazyRights:
        """Of whoever has no ACLs yet."""
        return cls(principal, 0, (NO_RIGHTS, []))

    def keep(self, rights: PrincipalRights) -> None:
        """They are made; in this order, for who reads in another thread."""
        self.rights = rights
        self.source = None

    @property
    def waiting(self) -> int:
        """At how many places something changed since."""
        return 0 if self.source is None else len(self.source[1])

    def following(self) -> LazyRights:
        """The same, for the next index to ``note`` in what it changes."""
        source = self.source
        if source is None:
            return LazyRights(self.principal, self.added, (self.rights, []))
        before, places = source
        return LazyRights(self.principal, self.added, (before, [*places]))

    def note(self, place: Place, added: int) -> None:
        """Something changes at a place, and the number of added ACLs by so many: of what is not made yet."""
        self.source[1].append(place)  # type: ignore[index]
        self.added += added
