"""AuthorizerState: everything that a decision depends on, as one immutable value (I1).

A request reads it once and uses it for all its actions. Its parts change independently: the index with every
published image, the settings by reconfiguration, readiness by replay. So a snapshot that replaces all ACLs
does not change settings and readiness (I5).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import msgspec

from authorizer.api.cluster_name import CLUSTER_NAME
from authorizer.api.ip_address import STRICTEST, NetworkRules
from authorizer.api.kafka_version import (
    KAFKA_VERSION_CONFIG,
    LAST_WITHOUT_NETWORKS,
    NEWEST,
    KafkaVersion,
    VersionInForce,
    parse_kafka_version,
)
from authorizer.api.principal_lists import (
    ALLOW_EVERYONE_CONFIG,
    SUPER_USERS_CONFIG,
    parse_allow_everyone,
    parse_super_users,
)
from authorizer.engine.index.acl_index import AclIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.acl import ResourcePattern
    from snapshot.image import AclsImage


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """The configuration that decisions depend on.

    Attributes:
        allow_everyone: ``allow.everyone.if.no.acl.found``: a resource without ACLs is open to all.
        kafka_version: the configured release, whose rules apply; None: the log has it, or it is unknown.
        cluster: the name of the cluster in a fleet, for audit lines; None: there is no fleet.
        unknown_keys: the keys of the brokers' settings that are unknown here. They have Kafka's defaults.
        super_names: the super users' names by principal type. They are compared as text, so ``User:a:b`` is
            both the name ``a:b`` of the type ``User`` and the name ``b`` of a type ``User:a``.
    """

    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False
    kafka_version: KafkaVersion | None = None
    cluster: str | None = field(default=None, compare=False)
    unknown_keys: frozenset[str] = field(default=frozenset(), compare=False)
    super_names: Mapping[str, frozenset[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: dict[str, frozenset[str]] = {}
        for text in self.super_users:
            for position, character in enumerate(text):
                if character == ":":
                    kind, name = text[:position], text[position + 1 :]
                    names[kind] = names.get(kind, frozenset()) | {name}
        object.__setattr__(self, "super_names", names)

    @property
    def networks(self) -> NetworkRules:
        """Whether ACL hosts may be networks, by this release; the strictest rules if it is not known."""
        return STRICTEST if self.kafka_version is None else self.kafka_version.networks

    def for_each_possible_release(self, *, has_networks: bool) -> tuple[Self, ...]:
        """Return these settings for each possible set of rules; only these if the release is known.

        A fact that is true for each of them is true for every release.
        """
        if self.kafka_version is not None or not has_networks:
            return (self,)
        return self.with_version(LAST_WITHOUT_NETWORKS), self.with_version(NEWEST)

    @classmethod
    def from_configs(cls, configs: Mapping[str, object], *, of_brokers: bool = False) -> Self:
        """Parse Kafka's keys; a missing key has Kafka's default, or is unknown if they are ``of_brokers``.

        Brokers decide by the same ACLs and their own settings. ConfigError: a super user without a colon, or
        an unknown Kafka version.
        """
        brokers_keys = {SUPER_USERS_CONFIG, ALLOW_EVERYONE_CONFIG} if of_brokers else set()
        return cls(
            parse_super_users(configs.get(SUPER_USERS_CONFIG)),
            parse_allow_everyone(configs.get(ALLOW_EVERYONE_CONFIG)),
            parse_kafka_version(configs.get(KAFKA_VERSION_CONFIG)),
            None if (cluster := configs.get(CLUSTER_NAME)) is None else str(cluster),
            frozenset(key for key in brokers_keys if configs.get(key) is None),
        )

    def version_for(self, image: AclsImage) -> VersionInForce:
        """Return the release whose rules apply to a state."""
        metadata = image.metadata
        return VersionInForce.of(self.kafka_version, metadata.brokers, metadata.metadata_version)

    def with_version_of(self, image: AclsImage) -> Self:
        """Return these settings with the release of a state; without one if it is unknown."""
        return self.with_version_in_force(self.version_for(image))

    def with_version_in_force(self, version: VersionInForce) -> Self:
        """Return these settings with this release; without one if it is unknown."""
        return self.with_version(None if version.networks == STRICTEST else version.releases[0])

    def with_version(self, version: KafkaVersion | None) -> Self:
        return replace(self, kafka_version=version)

    def index(self, image: AclsImage) -> AclIndex:
        """Return the index of a state by the rules of its release."""
        return AclIndex.of(image, networks=self.version_for(image).networks)

    def matches_rules_of(self, index: AclIndex, image: AclsImage) -> bool:
        """Return whether an index was built by the rules that apply to a state."""
        return index.rows.networks == self.version_for(image).networks


class AuthorizerState(msgspec.Struct, frozen=True, gc=False):
    """See the module.

    Attributes:
        index: the ACLs; ``index.image.provenance`` has their end offset.
        is_ready: whether all required records have been replayed, without an error (I4, I7).
    """

    index: AclIndex
    settings: AuthorizerSettings
    is_ready: bool = True
    not_ready_reason: str = ""

    @property
    def end_offset(self) -> int:
        return self.index.image.provenance.end_offset

    @property
    def version(self) -> VersionInForce:
        return self.settings.version_for(self.index.image)

    def allows_by_default(self, pattern: ResourcePattern) -> bool:
        """Return whether a request without a matching ACL is allowed: no ACL covers the name."""
        return self.settings.allow_everyone and not self.index.resources.covers(
            pattern.resource_type, pattern.name
        )
