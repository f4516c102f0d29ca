"""AclIndex: all ACLs of one image, arranged for decisions. Immutable; the next shares what did not change.

    AclIndex
    |-- image                        the ACLs by id: columns, and changes since (snapshot.image)
    |-- rows: RowIndex               where in the columns the ACLs of a principal are, and those of a name
    |-- resources: ResourceIndex     by *name*, of all principals: the default, explanations, listings
    `-- principals: PrincipalIndex   by *principal*: what may it do? All that most decisions read
        `-- rights[type]: Rights         what one principal's ACLs say about the names of one type: the chain
                                         of what covers a name (covers) is found by one look-up of a literal
                                         name, or one bisection (rights), and what it says is a *leaf*: an int
                                         of allow and deny bits, or such an int for each host (masks)

A decision reads two chains, the asker's and that of ``User:*``; its reason is looked for in the same two.

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

from authorizer.api.ip_network import STRICTEST
from authorizer.engine.index.principal_index import PrincipalIndex
from authorizer.engine.index.resource_index import ResourceIndex
from authorizer.engine.index.row_index import RowIndex
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

    from authorizer.api.ip_network import NetworkRules
    from authorizer.engine.index.resource_index import Change
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
        """All ACLs of an image; ``networks``: whether their hosts may be networks."""
        return cls.on(RowIndex(image.columns, networks=networks), image)

    @classmethod
    def on(cls, rows: RowIndex, image: AclsImage) -> AclIndex:
        """The same, where the columns of the image have been arranged before."""
        columns = image.columns
        index = cls(image, rows, ResourceIndex.of(rows), PrincipalIndex.of(rows))
        if not image.changes:
            return index
        replaced = map(columns.row_of, image.changes)
        before = (None if row is None else columns.acl(row) for row in replaced)
        return index.with_changes(zip(before, image.changes.values(), strict=True), image)

    def advanced(self, delta: AclsDelta, image: AclsImage) -> AclIndex:
        """The index of ``image``, which is this one's image with the changes of ``delta``."""
        if image.columns is not self.rows.columns:
            return AclIndex.of(image, networks=self.rows.networks)
        return self.with_changes(delta.changed(), image)

    def with_changes(self, changed: Iterable[Change], image: AclsImage) -> AclIndex:
        """The index of ``image``, which stands on the same columns, and to which these changes lead."""
        resources, touched = self.resources.after(changed, image)
        return AclIndex(image, self.rows, resources, self.principals.after(touched, resources))

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
