"""Kafka's releases, as far as their rules about ACLs differ, and how the log gives them away.

From 3.9 to 4.4 these differ, and nothing else that is answered here:

- Since 4.4 (KIP-1276) the authorizer reads hosts as networks, and the controller checks hosts of new ACLs.
- Brokers list more operations as authorized (KIP-430): DESCRIBE_CONFIGS and ALTER_CONFIGS of a GROUP since
  4.0, TWO_PHASE_COMMIT of a TRANSACTIONAL_ID since 4.1.
- Before 4.2 the audit log writes an ACL as ``StandardAcl(...)``; here it is always ``StandardAcl[...]``.

docs/compatibility.md has the comparison.

Source: MetadataVersion (levels), CidrUtils, AclControlManager, AclEntry and StandardAcl of each release.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from authorizer.api.errors import ConfigError
from authorizer.api.ip_network import EXACT_HOSTS, NETWORK_HOSTS, NetworkRules
from records.acl import SUPPORTED_OPERATIONS, AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.entries import SupportedLevels

KAFKA_VERSION_CONFIG: Final = "aclog.kafka.version"

#: The metadata.version from which on a controller lets networks in: 4.4-IV1.
NETWORKS_LEVEL: Final = 32


class KafkaVersion(StrEnum):
    """A release whose rules can be followed."""

    V3_9 = "3.9"
    V4_0 = "4.0"
    V4_1 = "4.1"
    V4_2 = "4.2"
    V4_3 = "4.3"
    V4_4 = "4.4"

    @property
    def matches_networks(self) -> bool:
        """Whether its authorizer takes a host with a slash for a network, whatever the metadata.version."""
        return self is KafkaVersion.V4_4

    @property
    def networks(self) -> NetworkRules:
        """The same, as the rules that hosts of ACLs are matched by."""
        return NETWORK_HOSTS if self.matches_networks else EXACT_HOSTS

    def supported_operations(self, resource_type: ResourceType) -> tuple[AclOperation, ...]:
        """Those that its brokers ask for on a resource of the type, in code order (AclEntry)."""
        known = tuple(KafkaVersion)
        return tuple(
            each
            for each in SUPPORTED_OPERATIONS.get(resource_type, ())
            if self in known[known.index(_FIRST_SUPPORTED.get((resource_type, each), known[0])) :]
        )

    @classmethod
    def of_level(cls, level: int) -> KafkaVersion:
        """The release whose binaries know metadata.version up to this level."""
        known = [each for each, first in _FIRST_LEVELS.items() if first <= level]
        return known[-1] if known else cls.V3_9


# Of metadata.version, the first level that is this release's. What is older counts as 3.9.
_FIRST_LEVELS: Final[Mapping[KafkaVersion, int]] = {
    KafkaVersion.V3_9: 0,
    KafkaVersion.V4_0: 22,
    KafkaVersion.V4_1: 26,
    KafkaVersion.V4_2: 28,
    KafkaVersion.V4_3: 30,
    KafkaVersion.V4_4: 31,
}
#: The newest level of metadata.version that is known: 4.4-IV2, which 4.4.0 supports at most.
NEWEST_LEVEL: Final = 33
#: The newest release that is known, and the newest whose authorizer does not match networks.
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
    """A release by its text; None: not said.

    Raises:
        ConfigError: no release that is known.
    """
    text = "" if value is None else str(value).strip()
    try:
        return KafkaVersion(text) if text else None
    except ValueError:
        raise ConfigError(KAFKA_VERSION_CONFIG, text, KAFKA_VERSIONS_ALLOWED) from None


class VersionInForce(NamedTuple):
    """The release whose rules are followed, or those that it may be, and why.

    Attributes:
        releases: the oldest first. Of several, an answer is ALLOWED only if it is by each.
        source: what says so: the setting, the brokers that the log has, metadata.version (no binary that is
            older supports it), or nothing.
        of_brokers: the releases that the brokers are, the oldest first.
    """

    releases: tuple[KafkaVersion, ...]
    source: Literal["configured", "brokers", "metadata.version", "unknown"]
    of_brokers: tuple[KafkaVersion, ...] = ()

    @classmethod
    def of(
        cls,
        configured: KafkaVersion | None,
        brokers: Mapping[int, SupportedLevels],
        metadata_version: int | None = None,
    ) -> Self:
        """What is configured; else what the brokers are; else what can have this metadata.version."""
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
        """The release that is shown: the oldest of the brokers; None if it is not known."""
        is_known = self.source in ("configured", "brokers") or len(self.releases) == 1
        return self.releases[0] if is_known else None

    def supported_operations(self, resource_type: ResourceType) -> tuple[AclOperation, ...]:
        """Those that one of the releases supports, in code order: older ones never ask for the others."""
        return self.releases[-1].supported_operations(resource_type)

    @property
    def label(self) -> str:
        """``4.3``, or ``4.3 to 4.4`` where it may be several."""
        first, last = self.releases[0].value, self.releases[-1].value
        return first if first == last else f"{first} to {last}"

    @property
    def networks(self) -> NetworkRules:
        """Whether hosts may be networks: of ALLOW ACLs, if they may in each release; of DENYs, in any."""
        matched = [each.matches_networks for each in self.releases]
        return NetworkRules(allow=all(matched), deny=any(matched))

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> Self:
        """What ``to_json`` gives. Raises KeyError or ValueError for anything else."""
        releases, brokers = (tuple(map(KafkaVersion, shown[each])) for each in ("releases", "brokers"))
        return cls(releases, shown["source"], brokers)

    def to_json(self) -> dict[str, Any]:
        """``version`` is null if it is not known; ``releases`` are those that an answer holds for."""
        return {
            "version": None if self.version is None else self.version.value,
            "source": self.source,
            "releases": [each.value for each in self.releases],
            "brokers": [each.value for each in self.of_brokers],
            "brokersDisagree": self.brokers_disagree,
        }

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
        """Whether brokers of the cluster may answer differently: hosts are networks to some of them only."""
        followed = self.releases if self.source == "configured" else ()
        return len({each.matches_networks for each in (*followed, *self.of_brokers)}) > 1
