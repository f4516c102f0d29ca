"""What a node and the commands say of MetadataImage: counts and a warning, no names and no secret.

A Kafka that is newer than this build stops nothing: ACL records have one version since there are any, and
another one stops the replay (I7). But what a newer Kafka decides by may not be known here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from authorizer.api.kafka_version import NEWEST, NEWEST_LEVEL, KafkaVersion
from records.codecs.kraft import record_type_name

if TYPE_CHECKING:
    from snapshot.metadata_image import MetadataImage


def entries(metadata: MetadataImage) -> dict[str, int]:
    """How many there are of each kind, as they are named everywhere."""
    return {
        "topics": len(metadata.topics),
        "brokers": len(metadata.brokers),
        "features": len(metadata.features),
        "scram_users": len(metadata.scram),
        "delegation_tokens": len(metadata.delegation_tokens),
    }


def unread(metadata: MetadataImage) -> dict[tuple[str, int], int]:
    """By type and version, how many records may have said something that is not known here."""
    return {
        (record_type_name(api_key), version): count
        for (api_key, version), count in sorted(metadata.unread.items())
    }


def newer_version(metadata: MetadataImage) -> str | None:
    """What to know where the log, or a broker's binary, is of a newer Kafka than this build; else None."""
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


def metadata_json(metadata: MetadataImage) -> dict[str, Any]:
    """The counts, brokers by release, the features' levels, and what is amiss."""
    releases = Counter(KafkaVersion.of_level(levels.highest) for levels in metadata.brokers.values())
    return {
        **entries(metadata),
        "brokers": {release.value: releases[release] for release in KafkaVersion if releases[release]},
        "features": dict(sorted(metadata.features.items())),
        "is_whole": metadata.is_complete,
        "unread": [
            {"type": record_type, "version": version, "records": count}
            for (record_type, version), count in unread(metadata).items()
        ],
        "warning": newer_version(metadata),
    }
