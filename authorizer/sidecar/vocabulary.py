"""The names that AuthZEN's clients use for Kafka's terms, in both directions: Kafka's own, and aliases.

Kafka's names of operations and resource types are taken in any case, aliases and principal types as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from authorizer.sidecar.terms import code_of
from records.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.load import Config


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Aliases, by what clients say.

    Attributes:
        subjects: principal types.
        resources: resource types.
        actions: operations.
    """

    subjects: Mapping[str, str]
    resources: Mapping[str, ResourceType]
    actions: Mapping[str, AclOperation]

    @classmethod
    def of(cls, config: Config) -> Vocabulary:
        """The configured one."""
        return cls(
            config.authzen_subject_aliases, config.authzen_resource_aliases, config.authzen_action_aliases
        )

    def principal_type(self, name: str) -> str:
        """Of a subject's type."""
        return self.subjects.get(name, name)

    def resource_type(self, name: str) -> ResourceType:
        """Of a resource's type. HttpError 400: there is none of that name."""
        known = self.resources.get(name)
        return code_of(ResourceType, name, "resource.type") if known is None else known

    def known_resource_type(self, name: str) -> ResourceType | None:
        """The same; None if there is none."""
        known = self.resources.get(name) or ResourceType.from_name(name)
        return known if known > ResourceType.ANY else None

    def operation(self, name: str) -> AclOperation:
        """Of an action's name. HttpError 400: there is none of that name."""
        known = self.actions.get(name)
        return code_of(AclOperation, name, "action.name") if known is None else known

    def action_names(self, operation: AclOperation) -> list[str]:
        """Its aliases; Kafka's name where it has none."""
        return [name for name, code in self.actions.items() if code is operation] or [operation.name]
