"""The scope of a desired state: all ACLs, or those of some principals or on some resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from records.acl import PatternType, ResourceType

if TYPE_CHECKING:
    from authorizer.analysis.name_space import Key
    from records.columns.acl_table import AclTable


class Scope(NamedTuple):
    """ACLs of the principals on the resources; an empty tuple does not restrict.

    Attributes:
        principals: as ``Type:name``.
        resources: types with a name, which selects literal ACLs only, or with a prefix of names.
    """

    principals: tuple[str, ...] = ()
    resources: tuple[tuple[ResourceType, Key], ...] = ()

    def rows(self, table: AclTable) -> Any:
        """A mask of the rows in the scope."""
        is_in = np.ones(len(table), np.bool_)
        if self.principals:
            is_in &= np.isin(table.principals.codes, _codes_of(table.principals.texts, set(self.principals)))
        if self.resources:
            is_on = np.zeros(len(table), np.bool_)
            for kind, (name, is_name) in self.resources:
                texts = table.names.texts
                wanted = {text for text in texts if (text == name if is_name else text.startswith(name))}
                on_these = np.isin(table.names.codes, _codes_of(texts, wanted)) & (
                    table.resource_types == kind
                )
                if is_name:
                    on_these &= table.pattern_types == PatternType.LITERAL
                is_on |= on_these
            is_in &= is_on
        return is_in


def _codes_of(texts: Any, wanted: set[str]) -> Any:
    return np.flatnonzero(np.fromiter((text in wanted for text in texts), np.bool_, len(texts)))
