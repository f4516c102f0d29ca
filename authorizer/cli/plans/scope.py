"""Which ACLs a wanted set speaks of: all, or those of some principals, or on some resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click
import numpy as np

from authorizer.cli.resources import RESOURCES, names_of
from records.acl import CLUSTER_NAME, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.analysis.name_space import Key
    from records.columns.acl_table import AclTable


class Scope(NamedTuple):
    """What is in it: ACLs of the principals, on the resources; without any of either, whatever it is.

    Attributes:
        principals: as ``Type:name``.
        resources: of each type a name, which takes literal ACLs alone, or all names with a prefix.
    """

    principals: tuple[str, ...] = ()
    resources: tuple[tuple[ResourceType, Key], ...] = ()

    @classmethod
    def given(cls, flags: Mapping[str, Any], *, everything: bool) -> Self | None:
        """As flags say it: None if they say nothing."""
        principals = tuple(str(each) for each in flags["principal"])
        resources: list[tuple[ResourceType, Key]] = [
            (kind, names_of(name))
            for parameter, kind in RESOURCES.items()
            if kind is not ResourceType.CLUSTER
            for name in flags[parameter]
        ]
        if flags["cluster"]:
            resources.append((ResourceType.CLUSTER, (CLUSTER_NAME, True)))
        if everything and (principals or resources):
            raise click.UsageError("--all is every ACL: it goes without --principal and resources")
        return cls(principals, tuple(resources)) if everything or principals or resources else None

    def rows(self, table: AclTable) -> Any:
        """Which rows are in it, as a mask."""
        is_in = np.ones(len(table), np.bool_)
        if self.principals:
            is_in &= np.isin(table.principals.codes, _places(table.principals.texts, set(self.principals)))
        if self.resources:
            is_on = np.zeros(len(table), np.bool_)
            for kind, (name, is_name) in self.resources:
                texts = table.names.texts
                wanted = {text for text in texts if (text == name if is_name else text.startswith(name))}
                on_these = np.isin(table.names.codes, _places(texts, wanted)) & (table.resource_types == kind)
                if is_name:
                    on_these &= table.pattern_types == PatternType.LITERAL
                is_on |= on_these
            is_in &= is_on
        return is_in


def _places(texts: Any, wanted: set[str]) -> Any:
    return np.flatnonzero(np.fromiter((text in wanted for text in texts), np.bool_, len(texts)))
