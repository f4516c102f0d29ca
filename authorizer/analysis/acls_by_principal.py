"""The ACLs for some principals, out of an index; and whose ACLs differ between two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from records.columns.acl_table import AclTable

if TYPE_CHECKING:
    from collections.abc import Collection

    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.resource_index import Change


def acls_of(index: AclIndex, principals: Collection[str]) -> AclTable:
    """The ACLs for exactly these principals."""
    rows = [index.rows_of(principal) for principal in principals]
    added = [acl for principal in principals for acl in index.added_of(principal)]
    return AclTable.joined([index.image.columns.taken(np.concatenate(rows)), AclTable.of(added)])


def changed_principals(before: AclIndex, after: AclIndex) -> set[str] | None:
    """Whose ACLs are others; None if that is not to be had for less than all of it."""
    changes = changes_between(before, after)
    if changes is None:
        return None
    return {acl.record.principal for change in changes for acl in change if acl is not None}


def changes_between(before: AclIndex, after: AclIndex) -> list[Change] | None:
    """What makes the one of the other; None if that is not to be had for less than all of it."""
    if before.image.columns is not after.image.columns:
        return None
    ids = {*before.image.changes, *after.image.changes}
    pairs = ((before.image.get(each), after.image.get(each)) for each in ids)
    return [(was, now) for was, now in pairs if was is not now]
