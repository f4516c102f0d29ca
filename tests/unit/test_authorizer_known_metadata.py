"""Metadata of other records: a newer metadata.version is logged once as a warning, and stops nothing."""

from __future__ import annotations

from msgspec import to_builtins
from structlog.testing import capture_logs

from authorizer.api.kafka_version import NEWEST_LEVEL
from authorizer.node.cluster_metadata_report import metadata_report, newer_version
from authorizer.node.metadata_warning import MetadataWarning
from records.entries import BrokerRecord, FeatureLevelRecord, MetadataRecord, SupportedLevels, TopicRecord
from replay.manifest import LogDeltaManifest
from snapshot.delta import AclsDelta
from snapshot.fold import DeltaCounts
from snapshot.image import AclsImage
from support.snapshots import IDENTITY, acl_id, replayed
from support.strategies import OTHER_RECORDS


def version(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord("metadata.version", level)


def test_a_newer_metadata_version_is_logged_once() -> None:
    """It is logged again if it increases, or returns."""
    publisher = MetadataWarning()
    image = AclsImage.EMPTY
    manifest = LogDeltaManifest(
        identity=IDENTITY,
        provenance=image.provenance,
        batches=1,
        records=1,
        size_bytes=1,
        counts=DeltaCounts(),
        high_watermark=1,
        log_end_time_ms=0,
    )
    steps: list[tuple[MetadataRecord, int]] = [
        (version(NEWEST_LEVEL), 0),
        (version(NEWEST_LEVEL + 1), 1),
        (TopicRecord(2, 0, acl_id(1), "t"), 0),
        (version(NEWEST_LEVEL + 2), 1),
        (version(NEWEST_LEVEL), 0),
        (version(NEWEST_LEVEL + 1), 1),
    ]
    for record, expected in steps:
        before, image = image, replayed([record], image)
        with capture_logs() as lines:
            publisher.on_update(AclsDelta(before), image, manifest)
        assert [line["log_level"] for line in lines] == ["warning"] * expected
        assert all(f"up to {NEWEST_LEVEL}" in line["reason"] for line in lines)


def test_counts_and_findings_are_reported() -> None:
    """They contain no names, because every caller may read them. A newer binary is reported, too."""
    metadata = replayed([*OTHER_RECORDS[:9], *OTHER_RECORDS[-6:-1], version(40)]).metadata
    shown = to_builtins(metadata_report(metadata))
    assert shown == {
        "topics": 1,
        "brokers": {},
        "features": {"metadata.version": 40},
        "scram_users": 0,
        "delegation_tokens": 1,
        "is_whole": True,
        "unread": [
            {"type": "TOPIC_RECORD", "version": 0, "records": 1},
            {"type": "PARTITION_RECORD", "version": 3, "records": 1},
            {"type": "UNKNOWN_RECORD_TYPE_99", "version": 1, "records": 1},
        ],
        "warning": shown["warning"],
    }
    assert "metadata.version 40" in shown["warning"]
    brokers = [BrokerRecord(0, 4, number, SupportedLevels(7, 30 + number)) for number in range(5)]
    shown = to_builtins(metadata_report(replayed([*brokers, version(30)], AclsImage.EMPTY).metadata))
    assert shown["brokers"] == {"4.3": 1, "4.4": 4}
    assert shown["warning"].startswith("a broker's binary supports metadata.version 34, and this build knows")
    assert newer_version(replayed([*brokers[:4], version(30)]).metadata) is None
