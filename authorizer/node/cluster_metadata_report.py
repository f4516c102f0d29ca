"""Report of a MetadataImage for a node and the commands: counts and a warning, no names and no secrets.

A newer Kafka than this build does not stop a node: ACL records have always had one version, and another one
stops the replay (I7). But a newer Kafka may decide by rules that are unknown here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from authorizer.api.http.answers.node import MetadataReport, UnreadRecords
from authorizer.api.kafka_version import NEWEST, NEWEST_LEVEL, KafkaVersion
from records.codecs.kraft import record_type_name

if TYPE_CHECKING:
    from snapshot.metadata_image import MetadataImage


def entries(metadata: MetadataImage) -> dict[str, int]:
    """Return the counts by kind."""
    return {
        "topics": len(metadata.topics),
        "brokers": len(metadata.brokers),
        "features": len(metadata.features),
        "scram_users": len(metadata.scram),
        "delegation_tokens": len(metadata.delegation_tokens),
    }


def unread(metadata: MetadataImage) -> dict[tuple[str, int], int]:
    """Return the counts of records that this build cannot read, by type and version."""
    return {
        (record_type_name(api_key), version): count
        for (api_key, version), count in sorted(metadata.unread.items())
    }


def newer_version(metadata: MetadataImage) -> str | None:
    """Return a warning if the log, or a broker's binary, is of a newer Kafka than this build."""
    level = metadata.metadata_version or 0
    binary = max((levels.highest for levels in metadata.brokers.values()), default=0)
    if max(level, binary) <= NEWEST_LEVEL:
        return None
    what = f"the log has metadata.version {level}"
    if binary > level:
        what = f"a broker's binary supports metadata.version {binary}"
    return (
        f"{what}, and this build knows Kafka {NEWEST}'s, up to {NEWEST_LEVEL}: "
        "compare its answers with the brokers', and take a newer aclog"
    )


def metadata_report(metadata: MetadataImage) -> MetadataReport:
    """Return the counts, brokers by release, levels of features, and warnings."""
    releases = Counter(KafkaVersion.of_level(levels.highest) for levels in metadata.brokers.values())
    return MetadataReport(
        topics=len(metadata.topics),
        brokers={release.value: releases[release] for release in KafkaVersion if releases[release]},
        features=dict(sorted(metadata.features.items())),
        scram_users=len(metadata.scram),
        delegation_tokens=len(metadata.delegation_tokens),
        is_whole=metadata.is_complete,
        unread=[
            UnreadRecords(record_type, version, count)
            for (record_type, version), count in unread(metadata).items()
        ],
        warning=newer_version(metadata),
    )
