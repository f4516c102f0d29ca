"""Selection of the ACLs that are related to some names or principals.

Requests for these names have the same answers from the related ACLs as from all ACLs.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.analysis.permissions.acl_comparison import all_names
from authorizer.analysis.permissions.effective_permissions import is_of
from records.acl import WILDCARD, ResourceType
from records.columns.acl_table import AclTable
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import numpy.typing as npt

    from authorizer.analysis.request_space.name_space import Key
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.resource_index import Change

#: With more prefixes, a search in sorted ones is faster than a comparison with each.
_COMPARED_PREFIXES_MAX: Final = 8


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
    is_related = _is_related(table, names_by_type)
    if principals is not None:
        is_related &= is_of(table, {*principals, WILDCARD_PRINCIPAL})
    return np.flatnonzero(is_related)


def related_by_principal(
    table: AclTable, names_of: Mapping[str, Mapping[ResourceType, Collection[Key]]]
) -> AclTable:
    """Return the ACLs that can decide each principal's requests for its names, or those of ``User:*``."""
    is_related = _is_related(table, all_names(names_of))
    is_related &= is_of(table, names_of.keys() | {WILDCARD_PRINCIPAL})
    rows = np.flatnonzero(is_related)
    texts, principals = table.names.texts, table.principals.texts
    relations = {
        principal: _NameRelation(key for keys in names_by_type.values() for key in keys)
        for principal, names_by_type in names_of.items()
    }
    pairs = zip(table.principals.codes[rows].tolist(), table.names.codes[rows].tolist(), strict=True)
    is_own = [
        principals[principal] == WILDCARD_PRINCIPAL or relations[principals[principal]].has(texts[name])
        for principal, name in pairs
    ]
    is_related[rows] = is_own
    if WILDCARD_PRINCIPAL in names_of:
        is_related |= _is_related(table, names_of[WILDCARD_PRINCIPAL])
    return table.take(np.flatnonzero(is_related))


def _is_related(
    table: AclTable, names_by_type: Mapping[ResourceType, Collection[Key]]
) -> npt.NDArray[np.bool_]:
    is_related = np.zeros(len(table), np.bool_)
    for resource_type in names_by_type:
        is_related |= table.resource_types == int(resource_type)
    relation = _NameRelation(key for keys in names_by_type.values() for key in keys)
    return is_related & table.names.where(relation.has)


class _NameRelation:
    """The names and prefixes that have a name in common with one of some names and prefixes."""

    def __init__(self, keys: Iterable[Key]) -> None:
        keys = set(keys)
        self._above = {text[:length] for text, _ in keys for length in range(len(text) + 1)} | {WILDCARD}
        # Without those below another one: at most one is a prefix of a name, the last that sorts before it.
        self._prefixes: list[str] = []
        for prefix in sorted(text for text, is_name in keys if not is_name):
            if not self._prefixes or not prefix.startswith(self._prefixes[-1]):
                self._prefixes.append(prefix)
        self._compared = tuple(self._prefixes) if len(self._prefixes) <= _COMPARED_PREFIXES_MAX else None

    def has(self, text: str) -> bool:
        if text in self._above:
            return True
        if self._compared is not None:
            return text.startswith(self._compared)
        at = bisect_right(self._prefixes, text)
        return at > 0 and text.startswith(self._prefixes[at - 1])


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
