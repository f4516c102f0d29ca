"""AclIndex: all ACLs of one image, arranged for decisions. Immutable; the next one shares unchanged parts.

    AclIndex
    |-- image                        the ACLs by id: columns, and changes since (snapshot.image)
    |-- rows: RowIndex               the rows of the columns by principal and by name
    |-- resources: ResourceIndex     by *name*, of all principals: the default, explanations, listings
    `-- principals: PrincipalIndex   by *principal*: its rights. Most decisions read nothing else
        `-- rights[type]: Rights         one principal's ACLs for the names of one type: the list
                                         that covers a name (covers) is found by one look-up of a literal
                                         name, or one bisection (rights). Its content is a *leaf*: an int
                                         of allow and deny bits, or such an int for each host (masks)

A decision reads two lists, the principal's and that of ``User:*``; its reason is found in the same two.

Structures built from the columns never change. Persistent maps hold later changes: ACLs by id in the image,
ACLs by pattern in ``resources``, rights by name in ``principals``, and leaves by name in the rights of one
principal. So the cost of an update depends on the changes only, and earlier indexes do not change. An image
with new columns gets a new index. The leaf of a changed pattern is computed from all its ACLs: a removal
needs no arithmetic, and an equal ACL under two ids is in force until both are removed (I8).

The principal's type ends at its first colon. An ACL principal without a colon matches no caller, and is in
`resources` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from authorizer.api.ip_address import STRICTEST, NetworkRules
from authorizer.engine.index.principal_index import PrincipalIndex
from authorizer.engine.index.resource_index import Change, ResourceIndex
from authorizer.engine.index.row_index import RowIndex
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

    from records.columns.acl_table import AppliedAcl
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage


class AclIndex(msgspec.Struct, eq=False, gc=False):
    """See the module."""

    image: AclsImage
    rows: RowIndex
    resources: ResourceIndex
    principals: PrincipalIndex

    @classmethod
    def of(cls, image: AclsImage, *, networks: NetworkRules = STRICTEST) -> AclIndex:
        """Return the index of an image; ``networks``: whether ACL hosts may be networks."""
        return cls.from_rows(RowIndex(image.columns, networks=networks), image)

    @classmethod
    def from_rows(cls, rows: RowIndex, image: AclsImage) -> AclIndex:
        columns = image.columns
        index = cls(image, rows, ResourceIndex.of(rows), PrincipalIndex.of(rows))
        if not image.changes:
            return index
        replaced = map(columns.row_of, image.changes)
        before = (None if row is None else columns.acl(row) for row in replaced)
        return index.with_changes(zip(before, image.changes.values(), strict=True), image)

    def with_delta(self, delta: AclsDelta, image: AclsImage) -> AclIndex:
        """Return the index of ``image``, which is this one's image with the changes of ``delta``."""
        if image.columns is not self.rows.columns:
            return AclIndex.of(image, networks=self.rows.networks)
        return self.with_changes(delta.changed(), image)

    def with_changes(self, changed: Iterable[Change], image: AclsImage) -> AclIndex:
        """Return the index of ``image``, which has the same columns and these changes."""
        resources, growth = self.resources.with_changes(changed, image)
        return AclIndex(image, self.rows, resources, self.principals.with_changes(growth, resources))

    def rows_of(self, acl_principal: str | None) -> npt.NDArray[np.int32]:
        """Return the rows in force of all principals, or of exactly one, even if it matches no caller."""
        rows = self.rows.all_rows() if acl_principal is None else self.rows.rows_of(acl_principal)
        changes = self.image.changes
        return self.rows.exclude(rows, changes) if changes else rows

    def added_of(self, acl_principal: str | None) -> Iterator[AppliedAcl]:
        """Yield the ACLs that are not rows."""
        if acl_principal is not None and ":" in acl_principal:
            for key in self.principals.added_keys(parse_kafka_principal(acl_principal)):
                yield from self.resources.added_at(key, acl_principal)
            return
        for acl in self.image.changes.values():
            if acl is not None and acl_principal in (None, acl.record.principal):
                yield acl
