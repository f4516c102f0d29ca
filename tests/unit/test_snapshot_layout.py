"""Names in a snapshot store: Kafka's snapshot names, and cluster ids that cannot leave their directory."""

from __future__ import annotations

import pytest

from snapshot.errors import SnapshotError
from snapshot.store.layout import (
    SnapshotRef,
    cluster_directory,
    is_part_name,
    parse_cluster_directory,
    parse_snapshot_name,
    part_name,
    snapshot_name,
)
from support.snapshots import CLUSTER


def test_snapshot_name_is_kafkas() -> None:
    """20 digits of end offset, 10 of epoch, and back."""
    assert snapshot_name(266, 1) == "00000000000000000266-0000000001"
    assert parse_snapshot_name("00000000000000000266-0000000001") == (266, 1)


@pytest.mark.parametrize(
    "name",
    ["", "266-1", "00000000000000000266-0000000001.checkpoint", " 0000000000000000266-0000000001", "x" * 31],
)
def test_other_names_are_no_snapshots(name: str) -> None:
    """Other directories are ignored."""
    assert parse_snapshot_name(name) is None


def test_newest_is_by_epoch_then_by_end_offset() -> None:
    """OffsetAndEpoch.compareTo: after a truncation, what the older epoch wrote is not the newest."""
    refs = [
        SnapshotRef(cluster_id="c", epoch=epoch, end_offset=end) for epoch, end in ((2, 5), (1, 9), (1, 8))
    ]
    assert [(ref.epoch, ref.end_offset) for ref in sorted(refs)] == [(1, 8), (1, 9), (2, 5)]


@pytest.mark.parametrize(
    ("cluster_id", "directory"),
    [
        (CLUSTER, CLUSTER),
        ("4L6g3nShT-eMCtK--X86sw", "4L6g3nShT-eMCtK--X86sw"),
        ("prod.eu", "prod.eu"),
        (".", "%2E"),
        ("..", "%2E."),
        ("../../etc", "%2E.%2F..%2Fetc"),
        ("/abs", "%2Fabs"),
        ("a\\b", "a%5Cb"),
        ("~root", "%7Eroot"),
        ("50%", "50%25"),
        ("%2E", "%252E"),
        ("s3://x", "s3%3A%2F%2Fx"),
        ("a*?[b]", "a%2A%3F%5Bb%5D"),
        ("nul\0\n", "nul%00%0A"),
        ("ü 🚀", "%C3%BC%20%F0%9F%9A%80"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_cluster_ids_are_percent_encoded(cluster_id: str, directory: str) -> None:
    """Kafka's ids do not change, unsafe characters are encoded, and the name decodes to the id."""
    assert cluster_directory(cluster_id) == directory
    assert parse_cluster_directory(directory) == cluster_id


@pytest.mark.parametrize("name", ["%2e", "a b", "%", "", "~x", ".hidden", "%41"])
def test_directories_that_no_id_makes_are_passed_by(name: str) -> None:
    """Only the one spelling that `cluster_directory` gives is a cluster's directory."""
    assert parse_cluster_directory(name) is None


def test_a_log_without_cluster_id_has_no_place() -> None:
    """Its directory would be the store itself."""
    with pytest.raises(SnapshotError, match="without a cluster id"):
        cluster_directory("")


def test_part_names_are_plain_file_names() -> None:
    """Ours and Spark's are part names; a path never is."""
    assert is_part_name(part_name(3, "0af"))
    assert is_part_name("part-00000-1c4f-c000.zstd.parquet")
    for name in (
        "part-../../x.parquet",
        "../part-0.parquet",
        "part-0.parquet/..",
        "manifest.json",
        "part-.parquet",
    ):
        assert not is_part_name(name)
