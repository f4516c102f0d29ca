"""Scope: the principals and names that a report is restricted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.analysis.permissions.related_acls import related_to
from authorizer.analysis.request_space.name_space import NAME_SPACES
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.analysis.permissions.request_class import RequestClass
    from authorizer.analysis.request_space.name_space import Key
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

_ALL_NAMES: Final[Key] = ("", False)


class Scope(NamedTuple):
    """The restriction of a report.

    Attributes:
        principals: as ``Type:name``; empty: all.
        names: the resource type, and the name or prefix; None: all.
    """

    principals: tuple[str, ...] = ()
    names: tuple[ResourceType, Key] | None = None

    @property
    def is_unrestricted(self) -> bool:
        return not self.principals and self.names is None

    @property
    def types(self) -> Sequence[ResourceType]:
        return list(NAME_SPACES) if self.names is None else [self.names[0]]

    @property
    def top(self) -> Key:
        """The name or prefix that contains all names in scope."""
        return _ALL_NAMES if self.names is None else self.names[1]

    def table(self, table: AclTable) -> AclTable:
        if self.is_unrestricted:
            return table
        return related_to(table, {each: [self.top] for each in self.types}, self.principals or None)

    def has(self, key: Key) -> bool:
        """Whether a name, or all names with a prefix, are in scope."""
        text, is_name = self.top
        return key == self.top or (not is_name and key[0].startswith(text))

    def has_acl(self, acl: AccessControlEntryRecord) -> bool:
        if self.principals and acl.principal not in (*self.principals, WILDCARD_PRINCIPAL):
            return False
        resource_type = ResourceType.from_code(acl.resource_type)
        if self.is_unrestricted or resource_type not in self.types:
            return self.is_unrestricted
        is_prefix = acl.pattern_type != LITERAL_PATTERN
        key = NAME_SPACES[resource_type].pattern(acl.resource_name, is_prefix=is_prefix)
        return key is not None and self._overlaps(*key)

    def has_some(self, request_class: RequestClass) -> bool:
        principal = request_class.principals.principal
        if principal is not None and self.principals and principal not in self.principals:
            return False
        return request_class.resource_type in self.types and any(
            self._overlaps(names.text, names.is_name) for names in request_class.names
        )

    def _overlaps(self, text: str, is_name: bool) -> bool:
        return self.has((text, is_name)) or (not is_name and self.top[0].startswith(text))

    def words(self) -> list[str]:
        found = list(self.principals)
        if self.names is not None:
            resource_type, (text, is_name) = self.names
            found.append(f"{resource_type.name} {text}{'' if is_name else '*'}")
        return found
