"""AuthorizerState: everything that a decision depends on, as one immutable value (I1).

A request reads it once and uses it for all its actions. Each of its parts changes apart from the others: the
index with every published image, the settings by reconfiguration, readiness by replay. A snapshot that
replaces all ACLs therefore keeps settings and readiness (I5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import msgspec

from authorizer.configuration.super_users import (
    ALLOW_EVERYONE_CONFIG,
    SUPER_USERS_CONFIG,
    parse_allow_everyone,
    parse_super_users,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.index.acl_index import AclIndex
    from records.acl import ResourcePattern


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """What is configured.

    Attributes:
        super_users: as ``Type:name``.
        allow_everyone: whether what no ACL covers is allowed (``allow.everyone.if.no.acl.found``).
        super_names: the super users' names by principal type. They are compared as text, so ``User:a:b`` is
            both the name ``a:b`` of the type ``User`` and the name ``b`` of a type ``User:a``.
    """

    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False
    super_names: Mapping[str, frozenset[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: dict[str, frozenset[str]] = {}
        for text in self.super_users:
            for at, character in enumerate(text):
                if character == ":":
                    names[text[:at]] = names.get(text[:at], frozenset()) | {text[at + 1 :]}
        object.__setattr__(self, "super_names", names)

    @classmethod
    def from_configs(cls, configs: Mapping[str, object]) -> Self:
        """Parse Kafka's keys; what is not there has Kafka's default.

        Raises:
            ConfigError: a super user without a colon.
        """
        return cls(
            parse_super_users(configs.get(SUPER_USERS_CONFIG)),
            parse_allow_everyone(configs.get(ALLOW_EVERYONE_CONFIG)),
        )


class AuthorizerState(msgspec.Struct, frozen=True):
    """See the module.

    Attributes:
        index: the ACLs, and with ``index.image.provenance`` the offset that they stand at.
        is_ready: whether all that must be replayed has been, and can be trusted (I4, I7).
        not_ready_reason: for people, while ``is_ready`` is false.
    """

    index: AclIndex
    settings: AuthorizerSettings
    is_ready: bool
    not_ready_reason: str

    @property
    def end_offset(self) -> int:
        """Last offset that is contained + 1."""
        return self.index.image.provenance.end_offset

    def allows_by_default(self, pattern: ResourcePattern) -> bool:
        """Whether a question that no ACL answers is allowed: if none covers the name, for any principal."""
        return self.settings.allow_everyone and not self.index.resources.covers(
            pattern.resource_type, pattern.name
        )
