"""Scope: whose rights, and to which names, a report is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.related_acls import related_to
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.analysis.name_space import Key
    from authorizer.analysis.request_class import RequestClass
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

_EVERY_NAME: Final[Key] = ("", False)


class Scope(NamedTuple):
    """See the module.

    Attributes:
        principals: as ``Type:name``; none: all of them.
        where: the type of the names, and the name or the prefix; None: all.
    """

    principals: tuple[str, ...] = ()
    where: tuple[ResourceType, Key] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is about everything."""
        return not self.principals and self.where is None

    @property
    def types(self) -> Sequence[ResourceType]:
        """The resource types that it is about."""
        return list(NAME_SPACES) if self.where is None else [self.where[0]]

    @property
    def top(self) -> Key:
        """The names that all others are within."""
        return _EVERY_NAME if self.where is None else self.where[1]

    def table(self, table: AclTable) -> AclTable:
        """The ACLs that have to do with it."""
        if self.is_whole:
            return table
        return related_to(table, {each: [self.top] for each in self.types}, self.principals or None)

    def has(self, key: Key) -> bool:
        """Whether a name, or all names with a prefix, are within it."""
        text, is_name = self.top
        return key == self.top or (not is_name and key[0].startswith(text))

    def has_acl(self, acl: AccessControlEntryRecord) -> bool:
        """Whether an ACL has to do with it."""
        if self.principals and acl.principal not in (*self.principals, WILDCARD_PRINCIPAL):
            return False
        resource_type = ResourceType.from_code(acl.resource_type)
        if self.is_whole or resource_type not in self.types:
            return self.is_whole
        is_prefix = acl.pattern_type != LITERAL_PATTERN
        key = NAME_SPACES[resource_type].pattern(acl.resource_name, is_prefix=is_prefix)
        return key is not None and self._meets(*key)

    def has_some(self, questions: RequestClass) -> bool:
        """Whether a class of questions has to do with it."""
        asker = questions.principals.principal
        if asker is not None and self.principals and asker not in self.principals:
            return False
        return questions.resource_type in self.types and any(
            self._meets(names.text, names.is_name) for names in questions.names
        )

    def _meets(self, text: str, is_name: bool) -> bool:
        return self.has((text, is_name)) or (not is_name and self.top[0].startswith(text))

    def words(self) -> list[str]:
        """For people, what it is narrowed to."""
        found = list(self.principals)
        if self.where is not None:
            resource_type, (text, is_name) = self.where
            found.append(f"{resource_type.name} {text}{'' if is_name else '*'}")
        return found
