"""AclIndex: all ACLs of one image, arranged for decisions. Immutable; the next shares what did not change.

    AclIndex
    |-- image                        the ACLs by id: columns, and changes since (snapshot.image)
    |-- rows: RowIndex               where in the columns the ACLs of a principal are, and those of a name
    |-- resources: ResourceIndex     by *name*, whoever an ACL is for: the default, explanations, listings
    `-- principals: PrincipalIndex   by *principal*: what may it do? All that most decisions read
        `-- rights[type]: Rights         what one principal's ACLs say about the names of one type: a *leaf*,
                                         an int of allow and deny bits, or such an int for each host (masks),
                                         is found by one look-up of a literal name, or one bisection (rights)

A decision reads the Rights of two principals, the asker's and those of ``User:*``.

What is made of the columns stays as it is, and lies under a persistent map of what changed since: ACLs by id
in the image, ACLs by place in ``resources``, rights by name in ``principals``, and leaves by name in the
rights of one principal. So an update costs what changed, however large the rest is, and every earlier index
is as it was. When an image comes with new columns, the index is built anew. What is said at a place that
changed is worked out from all ACLs there: a removal needs no arithmetic, and an equal ACL under two ids is in
force until both are gone (I8).

The principal's type ends at its first colon; an ACL principal without one matches nobody, and is in
`resources` only (8.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from authorizer.index.places import PREFIXED, is_odd, place_of
from authorizer.index.principal_index import PrincipalIndex
from authorizer.index.resource_index import ResourceIndex
from authorizer.index.row_index import RowIndex
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from authorizer.index.places import Place
    from authorizer.index.resource_index import Step
    from records.columns.acl_table import AppliedAcl
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage


class AclIndex(msgspec.Struct, eq=False):
    """See the module.

    Attributes:
        count: ACLs, by id.
        odd: for each resource type, how many ACLs have a pattern or permission type that is none of Kafka's
            four; masks decide them rightly, but authorize-by-resource-type has rules of its own for them.
    """

    image: AclsImage
    rows: RowIndex
    resources: ResourceIndex
    principals: PrincipalIndex
    count: int
    odd: tuple[int, ...]

    @classmethod
    def of(cls, image: AclsImage) -> AclIndex:
        """All of an image."""
        columns = image.columns
        rows = RowIndex(columns)
        index = cls(image, rows, ResourceIndex.of(rows), PrincipalIndex.of(rows), len(columns), rows.odd)
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
        touched: dict[tuple[str, Place], int] = {}
        for acl, place, is_row, is_added in steps:
            record = acl.record
            change = 1 if is_added else -1
            count += change
            if is_odd(record):
                kind = place[0] % PREFIXED
                odd = (*odd[:kind], odd[kind] + change, *odd[kind + 1 :])
            at = record.principal, place
            touched[at] = touched.get(at, 0) + (0 if is_row else change)
        resources = self.resources.after(steps, image)
        changes = [
            (principal, place, resources.leaf(place, principal), added)
            for (principal, place), added in touched.items()
        ]
        principals = self.principals.after(changes, resources.lengths)
        return AclIndex(image, self.rows, resources, principals, count, odd)

    def rows_of(self, acl_principal: str | None) -> npt.NDArray[np.int32]:
        """The rows in force, of everybody or of exactly one principal, also if that matches nobody."""
        rows = self.rows.every_row() if acl_principal is None else self.rows.rows_of(acl_principal)
        changes = self.image.changes
        return self.rows.without(rows, changes) if changes else rows

    def added_of(self, acl_principal: str | None) -> Iterator[AppliedAcl]:
        """The ACLs that are no rows."""
        if acl_principal is not None and ":" in acl_principal:
            for place in self.principals.added_places(parse_kafka_principal(acl_principal)):
                yield from self.resources.added_at(place, acl_principal)
            return
        for acl in self.image.changes.values():
            if acl is not None and acl_principal in (None, acl.record.principal):
                yield acl
