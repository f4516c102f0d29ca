"""LazyRights: the Rights of one principal, made when somebody first asks for them.

A million ACLs are made into tables only for those who ask, and an update only says at which places it changed
something. Making them is the index's work (acl_index); two threads may do it at once and store equal
values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import immutables

from authorizer.index.rights import Rights
from records.acl import ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.index.places import Place
    from records.ids import Uuid
    from snapshot.image import AppliedAcl

#: Rights by resource type.
PrincipalRights = tuple[Rights | None, ...]
NO_RIGHTS: Final[PrincipalRights] = (None,) * len(ResourceType)


class LazyRights:
    """Immutable in effect.

    Attributes:
        principal: whose, as the ACLs have it.
        added: those of the image's changes that are for this principal, by id.
        source: what to make them of: Rights that they follow (None: those of the rows), and the places where
            something changed since. None when they are made.
        rights: None until they are made.
        is_superseded: whether some index has others for this principal (Askers.changed): if not, a decision
            need not look there.
    """

    __slots__ = ("added", "is_superseded", "principal", "rights", "source")

    def __init__(
        self,
        principal: str,
        added: immutables.Map[Uuid, AppliedAcl],
        before: PrincipalRights | None,
        places: tuple[Place, ...],
    ) -> None:
        self.principal = principal
        self.added = added
        self.source: tuple[PrincipalRights | None, tuple[Place, ...]] | None = (before, places)
        self.rights: PrincipalRights | None = None
        self.is_superseded = False

    def keep(self, rights: PrincipalRights) -> None:
        """They are made; in this order, for who reads in another thread."""
        self.rights = rights
        self.source = None

    @property
    def waiting(self) -> int:
        """At how many places something changed since."""
        return 0 if self.source is None else len(self.source[1])

    def changed(self, added: immutables.Map[Uuid, AppliedAcl], places: Iterable[Place]) -> LazyRights:
        """With these ACLs of the image's changes, after something changed at these places."""
        source = self.source
        if source is None:
            return LazyRights(self.principal, added, self.rights, (*places,))
        before, earlier = source
        return LazyRights(self.principal, added, before, (*earlier, *places))


class Askers:
    """The principals of one type by name. Immutable in effect.

    Attributes:
        base: those of the rows.
        changed: those whose ACLs changed since; also where none are left, as `base` still has them.
    """

    __slots__ = ("base", "changed")

    def __init__(self, base: dict[str, LazyRights], changed: immutables.Map[str, LazyRights]) -> None:
        self.base = base
        self.changed = changed

    def get(self, name: str) -> LazyRights | None:
        """As authorizer.fast_path does it, without a call."""
        lazy = self.base.get(name)
        if lazy is None or lazy.is_superseded:
            lazy = self.changed.get(name) or lazy
        return lazy

    def with_one(self, name: str, lazy: LazyRights) -> Askers:
        """With these rights changed."""
        base = self.base.get(name)
        if base is not None:
            base.is_superseded = True
        return Askers(self.base, self.changed.set(name, lazy))

    def without_one(self, name: str) -> Askers:
        """Without somebody whom only `changed` may have."""
        return Askers(self.base, self.changed.delete(name)) if name in self.changed else self


NOBODY: Final = Askers({}, immutables.Map())
NOTHING_ADDED: Final[immutables.Map[Uuid, AppliedAcl]] = immutables.Map()
