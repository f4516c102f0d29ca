"""Selection of the ACLs that are related to some names or principals.

Requests for these names have the same answers from the related ACLs as from all ACLs.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.analysis.effective_permissions import is_of
from records.acl import WILDCARD
from records.columns.acl_table import AclTable
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy.typing as npt

    from authorizer.analysis.name_space import Key
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.resource_index import Change
    from records.acl import ResourceType

#: Each name is compared with each prefix. With more prefixes all ACLs are selected.
_PREFIXES_MAX: Final = 100


def related_to(
    table: AclTable,
    names_by_type: Mapping[ResourceType, Collection[Key]],
    principals: Collection[str] | None = None,
) -> AclTable:
    """Return the ACLs for these names, or for any name with these prefixes, by resource type.

    With ``principals``, only their ACLs and those for ``User:*``.
    """
    return table.take(related_rows(table, names_by_type, principals))


def related_rows(
    table: AclTable,
    names_by_type: Mapping[ResourceType, Collection[Key]],
    principals: Collection[str] | None = None,
) -> npt.NDArray[np.intp]:
    """Return the rows of the ACLs that `related_to` selects."""
    keys = {key for keys in names_by_type.values() for key in keys}
    above = {text[:length] for text, _ in keys for length in range(len(text) + 1)} | {WILDCARD}
    below = tuple({text for text, is_name in keys if not is_name})
    is_related = np.zeros(len(table), np.bool_)
    for resource_type in names_by_type:
        is_related |= table.resource_types == int(resource_type)
    if principals is not None:
        is_related &= is_of(table, {*principals, WILDCARD_PRINCIPAL})
    if "" not in below and len(below) <= _PREFIXES_MAX:
        names = table.names.texts
        has_related_name = np.fromiter(map(above.__contains__, names), np.bool_, len(names))
        if below:
            has_related_name |= np.fromiter(map(str.startswith, names, repeat(below)), np.bool_, len(names))
        is_related &= has_related_name[table.names.codes]
    return np.flatnonzero(is_related)


def acls_by_principal(index: AclIndex, principals: Collection[str]) -> AclTable:
    """Return the ACLs of an index for exactly these principals."""
    rows = [index.rows_of(principal) for principal in principals]
    added = [acl for principal in principals for acl in index.added_of(principal)]
    return AclTable.concat([index.image.columns.take(np.concatenate(rows)), AclTable.of(added)])


def changed_principals(before: AclIndex, after: AclIndex) -> set[str] | None:
    """Return the principals whose ACLs differ; None if only a full comparison could tell."""
    changes = changes_between(before, after)
    if changes is None:
        return None
    return {acl.record.principal for change in changes for acl in change if acl is not None}


def changes_between(before: AclIndex, after: AclIndex) -> list[Change] | None:
    """Return the changes that lead from one index to the other; None if only a full comparison could tell."""
    if before.image.columns is not after.image.columns:
        return None
    ids = {*before.image.changes, *after.image.changes}
    pairs = ((before.image.get(each), after.image.get(each)) for each in ids)
    return [(old, new) for old, new in pairs if old is not new]
