"""Kafka releases whose rules about ACLs differ, and how a release is derived from the log.

From 3.9 to 4.4 only these rules differ:

- Since 4.4 (KIP-1276) the authorizer reads hosts as networks, and the controller checks hosts of new ACLs.
- Brokers return more operations as authorized (KIP-430): DESCRIBE_CONFIGS and ALTER_CONFIGS of a GROUP since
  4.0, TWO_PHASE_COMMIT of a TRANSACTIONAL_ID since 4.1.
- Before 4.2 the audit log writes an ACL as ``StandardAcl(...)``; here it is always ``StandardAcl[...]``.

docs/compatibility.md has the comparison.

Source: MetadataVersion (levels), CidrUtils, AclControlManager, AclEntry and StandardAcl of each release.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

from authorizer.api.errors import ConfigError
from authorizer.api.ip_address import EXACT_HOSTS, NETWORK_HOSTS, NetworkRules
from records.acl import SUPPORTED_OPERATIONS, AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.entries import SupportedLevels

KAFKA_VERSION_CONFIG: Final = "aclog.kafka.version"

#: The lowest metadata.version at which a controller accepts networks: 4.4-IV1.
NETWORKS_LEVEL: Final = 32


class KafkaVersion(StrEnum):
    """A release whose rules can be applied."""

    V3_9 = "3.9"
    V4_0 = "4.0"
    V4_1 = "4.1"
    V4_2 = "4.2"
    V4_3 = "4.3"
    V4_4 = "4.4"

    @property
    def matches_networks(self) -> bool:
        """Whether its authorizer reads a host with a slash as a network, at any metadata.version."""
        return self is KafkaVersion.V4_4

    @property
    def networks(self) -> NetworkRules:
        """The rules by which hosts of ACLs are matched."""
        return NETWORK_HOSTS if self.matches_networks else EXACT_HOSTS

    def supported_operations(self, resource_type: ResourceType) -> tuple[AclOperation, ...]:
        """The operations that its brokers check on a resource of the type, in code order (AclEntry)."""
        return _supported_operations(self, resource_type)

    @classmethod
    def of_level(cls, level: int) -> KafkaVersion:
        """The release whose binaries support metadata.version up to this level."""
        known = [each for each, first in _FIRST_LEVELS.items() if first <= level]
        return known[-1] if known else cls.V3_9


@cache
def _supported_operations(version: KafkaVersion, resource_type: ResourceType) -> tuple[AclOperation, ...]:
    known = tuple(KafkaVersion)
    return tuple(
        each
        for each in SUPPORTED_OPERATIONS.get(resource_type, ())
        if version in known[known.index(_FIRST_SUPPORTED.get((resource_type, each), known[0])) :]
    )


# The first level of metadata.version of each release. Older levels count as 3.9.
_FIRST_LEVELS: Final[Mapping[KafkaVersion, int]] = {
    KafkaVersion.V3_9: 0,
    KafkaVersion.V4_0: 22,
    KafkaVersion.V4_1: 26,
    KafkaVersion.V4_2: 28,
    KafkaVersion.V4_3: 30,
    KafkaVersion.V4_4: 31,
}
#: The newest known level of metadata.version: 4.4-IV2, the highest that 4.4.0 supports.
NEWEST_LEVEL: Final = 33
#: The newest known release, and the newest whose authorizer does not match networks.
NEWEST: Final = KafkaVersion.V4_4
LAST_WITHOUT_NETWORKS: Final = KafkaVersion.V4_3

#: The first release that supports an operation for a resource type, if that is not 3.9.
_FIRST_SUPPORTED: Final[Mapping[tuple[ResourceType, AclOperation], KafkaVersion]] = {
    (ResourceType.GROUP, AclOperation.DESCRIBE_CONFIGS): KafkaVersion.V4_0,
    (ResourceType.GROUP, AclOperation.ALTER_CONFIGS): KafkaVersion.V4_0,
    (ResourceType.TRANSACTIONAL_ID, AclOperation.TWO_PHASE_COMMIT): KafkaVersion.V4_1,
}

KAFKA_VERSIONS_ALLOWED: Final = f"one of {', '.join(KafkaVersion)}"


def parse_kafka_version(value: object) -> KafkaVersion | None:
    """The release of a configuration value; None if it is empty. Raises ConfigError: not a known release."""
    text = "" if value is None else str(value).strip()
    try:
        return KafkaVersion(text) if text else None
    except ValueError:
        raise ConfigError(KAFKA_VERSION_CONFIG, text, KAFKA_VERSIONS_ALLOWED) from None


VersionSource = Literal["configured", "brokers", "metadata.version", "unknown"]


class VersionInForce(NamedTuple):
    """The release whose rules apply, or the releases that are possible, and the source of that.

    Attributes:
        releases: oldest first. If there are several, a decision is ALLOWED only if each release allows it.
        source: the setting, the registrations of brokers in the log, metadata.version (older binaries do not
            support it), or unknown.
        of_brokers: the releases of the brokers, oldest first.
    """

    releases: tuple[KafkaVersion, ...]
    source: VersionSource
    of_brokers: tuple[KafkaVersion, ...] = ()

    @classmethod
    def of(
        cls,
        configured: KafkaVersion | None,
        brokers: Mapping[int, SupportedLevels],
        metadata_version: int | None = None,
    ) -> Self:
        """The configured release; else those of the brokers; else those that support the metadata.version."""
        found = {KafkaVersion.of_level(levels.highest) for levels in brokers.values()}
        versions = tuple(each for each in KafkaVersion if each in found)
        if configured is not None:
            return cls((configured,), "configured", versions)
        if versions:
            return cls(versions, "brokers", versions)
        if metadata_version is None:
            return cls(tuple(KafkaVersion), "unknown")
        oldest = KafkaVersion.of_level(metadata_version)
        return cls(tuple(each for each in KafkaVersion if each >= oldest), "metadata.version")

    @property
    def version(self) -> KafkaVersion | None:
        """The release to show: the oldest of the brokers; None if it is not known."""
        is_known = self.source in ("configured", "brokers") or len(self.releases) == 1
        return self.releases[0] if is_known else None

    def supported_operations(self, resource_type: ResourceType) -> tuple[AclOperation, ...]:
        """The operations that one of the releases supports, in code order; older brokers check fewer."""
        return self.releases[-1].supported_operations(resource_type)

    @property
    def label(self) -> str:
        """``4.3``, or ``4.3 to 4.4`` if several are possible."""
        first, last = self.releases[0].value, self.releases[-1].value
        return first if first == last else f"{first} to {last}"

    @property
    def networks(self) -> NetworkRules:
        """Hosts of ALLOW ACLs are networks if they are in every release; hosts of DENYs, if in any."""
        matched = [each.matches_networks for each in self.releases]
        return NetworkRules(allow=all(matched), deny=any(matched))

    def __str__(self) -> str:
        """``Kafka 4.3, as brokers of the log have registered``."""
        if self.version is None:
            return f"Kafka {self.label}: the release is not known, so ALLOWED is what each of them allows"
        why = {
            "configured": "as configured",
            "brokers": "as brokers of the log have registered",
            "metadata.version": "as the log's metadata.version says",
        }
        disagree = f"; brokers disagree: {', '.join(self.of_brokers)}" if self.brokers_disagree else ""
        return f"Kafka {self.version.value}, {why[self.source]}{disagree}"

    @property
    def brokers_disagree(self) -> bool:
        """Whether only some of the brokers read hosts as networks, so that they may decide differently."""
        followed = self.releases if self.source == "configured" else ()
        return len({each.matches_networks for each in (*followed, *self.of_brokers)}) > 1
