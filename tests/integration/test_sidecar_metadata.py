"""The log of a Kafka newer than this build: its warnings, and the errors that stop a node."""

from __future__ import annotations

from pathlib import Path

import httpx
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from authorizer.api.kafka_version import NEWEST_LEVEL
from authorizer.cli.main import cli
from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.entries import (
    BrokerRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    SupportedLevels,
    TopicRecord,
)
from records.ids import METADATA_TOPIC_ID, uuid_to_string
from support.column_logs import frame_of
from support.directory_logs import acl, append_bytes, write_segment
from support.nodes import SOON_S, running_node, sidecar_of
from support.waiting import wait_until


def later_kafkas_log(directory: Path) -> Path:
    """Its segment, in a directory as a broker has it."""
    records: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", NEWEST_LEVEL + 1),
        BrokerRecord(0, 4, 1, SupportedLevels(7, NEWEST_LEVEL + 2)),
        TopicRecord(2, 0, acl(9).id, "a-topic"),
        *[OtherRecord(99, 1)] * 2,
        OtherRecord(3, 3),
        acl(1),
    ]
    frames = [frame_of(record) for record in records]
    segment = write_segment(directory, 0, encode_batch(frames, base_offset=0, epoch=1, timestamp_ms=1))
    (directory / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {uuid_to_string(METADATA_TOPIC_ID)}\n"
    )
    return segment


def test_unknown_records_are_ignored_except_acls(tmp_path: Path) -> None:
    """It is counted and warned of while decisions go on; an ACL record of a later version stops it (I7)."""
    segment = later_kafkas_log(tmp_path / "log")
    with (
        running_node(tmp_path / "log", log_mode="read") as node,
        sidecar_of(node) as url,
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        state = client.get("/v1/state").json()
        assert (state["ready"], state["acl_count"]) == (True, 1)
        metadata = state["metadata"]
        assert metadata["features"] == {"metadata.version": NEWEST_LEVEL + 1}
        assert f"supports metadata.version {NEWEST_LEVEL + 2}" in metadata["warning"]
        assert metadata["unread"] == [
            {"type": "PARTITION_RECORD", "version": 3, "records": 1},
            {"type": "UNKNOWN_RECORD_TYPE_99", "version": 1, "records": 2},
        ]
        shown = {
            sample.name: sample.value
            for family in text_string_to_metric_families(client.get("/metrics").text)
            for sample in family.samples
        }
        assert shown["aclog_metadata_feature_level"] == NEWEST_LEVEL + 1
        assert shown["aclog_metadata_version_is_newer"] == 1
        verified = CliRunner().invoke(cli, ["log", "verify", "--log", str(tmp_path / "log")])
        assert verified.exit_code == 0
        assert f"metadata.version {NEWEST_LEVEL + 1}, brokers of 4.4: 1, topics: 1" in verified.stdout
        assert "2 of UNKNOWN_RECORD_TYPE_99 version 1" in verified.stdout
        assert "warning: a broker's binary supports" in verified.stderr

        frame = bytearray(encode_frame(acl(7)))
        frame[2] = 1
        append_bytes(segment, encode_batch([bytes(frame)], base_offset=7, epoch=1, timestamp_ms=2))
        wait_until(lambda: client.get("/readyz").status_code == 503, "the stop", timeout_s=SOON_S)
        state = client.get("/v1/state").json()
        assert "version 1" in state["reason"]
        assert (state["offset"], state["metadata"]) == (7, metadata)
