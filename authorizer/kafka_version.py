"""Kafka's releases, as far as their rules about ACLs differ, and how the log gives them away.

Only two things differ from 3.9 to 4.4: whether the authorizer looks at hosts as networks, and what the
controller lets in as a host; both came with 4.4 (KIP-1276). docs/compatibility.md has the comparison.

Source: MetadataVersion (levels), CidrUtils and AclControlManager of each release.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from authorizer.errors import ConfigError

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
#: What is followed where nothing tells: the newest that is known.
NEWEST: Final = KafkaVersion.V4_4

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
    """Whose rules are followed, and why.

    Attributes:
        source: what says so: the setting, what brokers of the log have registered, or nothing.
        of_brokers: the releases that these are, the oldest first.
    """

    version: KafkaVersion
    source: Literal["configured", "brokers", "newest"]
    of_brokers: tuple[KafkaVersion, ...] = ()

    @classmethod
    def of(cls, configured: KafkaVersion | None, brokers: Mapping[int, SupportedLevels]) -> Self:
        """What is configured; else the oldest that brokers have registered as; else the newest known."""
        found = {KafkaVersion.of_level(levels.highest) for levels in brokers.values()}
        versions = tuple(each for each in KafkaVersion if each in found)
        if configured is not None:
            return cls(configured, "configured", versions)
        return cls(versions[0], "brokers", versions) if versions else cls(NEWEST, "newest")

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> Self:
        """What ``to_json`` gives. Raises KeyError or ValueError for anything else."""
        return cls(
            KafkaVersion(shown["version"]), shown["source"], tuple(map(KafkaVersion, shown["brokers"]))
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version.value,
            "source": self.source,
            "brokers": [each.value for each in self.of_brokers],
            "brokersDisagree": self.brokers_disagree,
        }

    def __str__(self) -> str:
        """``Kafka 4.3, as brokers of the log have registered``."""
        why = {
            "configured": "as configured",
            "brokers": "as brokers of the log have registered",
            "newest": "the newest that is known: the log has no brokers",
        }
        disagree = f"; brokers disagree: {', '.join(self.of_brokers)}" if self.brokers_disagree else ""
        return f"Kafka {self.version.value}, {why[self.source]}{disagree}"

    @property
    def brokers_disagree(self) -> bool:
        """Whether brokers of the cluster may answer differently: hosts are networks to some of them only."""
        return len({each.matches_networks for each in (self.version, *self.of_brokers)}) > 1
