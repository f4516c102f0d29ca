"""Kafka's own kafka-dump-log reads the .checkpoint files that aclog writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.entries import METADATA_VERSION_FEATURE, FeatureLevelRecord
from snapshot.files.kraft_checkpoint import read_checkpoint, write_checkpoint
from support.data import real_log
from support.kafka_tools import dump_batches, dump_log
from support.snapshots import acl, payload_acl, replayed

pytestmark = pytest.mark.integration


def test_kafka_reads_what_aclog_wrote(tmp_path: Path) -> None:
    """Of a real cluster's state, and of one with several batches: every record and every CRC."""
    real = read_checkpoint(real_log("kraft-trimmed") / "00000000000000001890-0000000001.checkpoint")
    odd = replayed(
        [
            FeatureLevelRecord("group.version", 1),
            FeatureLevelRecord(METADATA_VERSION_FEATURE, 30),
            *(acl(n, resource_name=f"naïve-🚀 {n} " + "x" * 30_000) for n in range(60)),
        ],
        epoch=7,
    )
    for image in (real, odd):
        path = write_checkpoint(image, tmp_path)
        header, *records, footer = dump_log(path)
        assert header["control"] == "SnapshotHeader"
        assert header["value"] == {"version": 0, "lastContainedLogTimestamp": image.provenance.timestamp_ms}
        assert (footer["control"], footer["value"]) == ("SnapshotFooter", {"version": 0})
        assert [entry["offset"] for entry in records] == list(range(1, len(records) + 1))
        features = [entry["data"] for entry in records if entry["type"] == "FEATURE_LEVEL_RECORD"]
        assert features[0] == {"name": METADATA_VERSION_FEATURE, "featureLevel": 30}
        assert {entry["name"]: entry["featureLevel"] for entry in features} == image.metadata.features
        acls = [payload_acl(entry["data"]) for entry in records[len(features) :]]
        assert set(acls) == {found.record for found in image}
        assert len(acls) == len(image)
        batches = dump_batches(path)
        assert all(batch["isvalid"] for batch in batches)
        assert {batch["partitionLeaderEpoch"] for batch in batches} == {image.provenance.epoch}
        assert len(batches) == (3 if image is real else 4)
