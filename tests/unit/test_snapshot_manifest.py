"""manifest.json: what is written is read, and nothing else is."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from records.log.base import LogIdentity
from snapshot.errors import SnapshotCorruptError, SnapshotUnsupportedError
from snapshot.image import Provenance
from snapshot.store.manifest import ChangePart, SnapshotManifest, SnapshotPart
from support.snapshots import IDENTITY

MANIFEST = SnapshotManifest(
    identity=IDENTITY,
    provenance=Provenance(end_offset=266, epoch=1, timestamp_ms=1_795_222_871_590),
    log_end_time_ms=1_795_222_900_000,
    count=5,
    count_by_resource_type={2: 3, 99: 1, -1: 1},
    digest=0xABC,
    features={"metadata.version": 30},
    parts=(
        SnapshotPart("part-00000-a.parquet", 3, 1_000, "0" * 64),
        SnapshotPart("part-00001-a.parquet", 2, 900, "f" * 64),
    ),
)


def sealed(**changes: Any) -> bytes:
    """The manifest with other fields and a checksum that fits them; None takes a field away."""
    fields = json.loads(MANIFEST.to_json()) | changes
    fields = {name: value for name, value in fields.items() if value is not None and name != "checksum"}
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return json.dumps(fields | {"checksum": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


def test_manifest_is_read_back() -> None:
    """Every field survives."""
    assert SnapshotManifest.from_json(MANIFEST.to_json(), source="m") == MANIFEST


def test_manifest_says_what_people_look_for() -> None:
    """Names as in Kafka's JSON, ids as Kafka prints them, types by name or by number."""
    fields = json.loads(MANIFEST.to_json())
    assert fields["formatVersion"] == 1
    assert fields["topicId"] == "dHR0dHR0dHR0dHR0dHR0dA"
    assert fields["countByResourceType"] == {"-1": 1, "TOPIC": 3, "99": 1}
    assert fields["digest"] == "0" * 29 + "abc"
    assert fields["parts"][1] == {
        "name": "part-00001-a.parquet", "rows": 2, "bytes": 900, "sha256": "f" * 64
    }  # fmt: skip


def test_changes_make_it_a_manifest_that_an_older_build_refuses() -> None:
    """Which would take the part's rows for the state; without changes it is one that any build reads."""
    part = replace(MANIFEST.parts[0], rows=4, changes=ChangePart("part-x.parquet", 1, 99, "1" * 64, 3))
    changed = replace(MANIFEST, parts=(part, MANIFEST.parts[1]))
    fields = json.loads(changed.to_json())
    assert fields["formatVersion"] == 2
    assert fields["parts"][0]["changes"]["count"] == 3
    assert "changes" not in fields["parts"][1]
    assert SnapshotManifest.from_json(changed.to_json(), source="m") == changed
    assert [file.name for file in changed.files] == [
        "part-00000-a.parquet", "part-x.parquet", "part-00001-a.parquet"
    ]  # fmt: skip
    with pytest.raises(SnapshotCorruptError, match="format version 1 has no changes"):
        SnapshotManifest.from_json(sealed(parts=fields["parts"]), source="m")
    for wrong in ({"name": "../x"}, {"name": "part-00001-a.parquet"}, {"count": 4}):
        parts = [fields["parts"][0] | {"changes": fields["parts"][0]["changes"] | wrong}, fields["parts"][1]]
        with pytest.raises(SnapshotCorruptError, match="not a snapshot manifest"):
            SnapshotManifest.from_json(sealed(formatVersion=2, parts=parts), source="m")


def test_an_empty_tail_is_written_only_if_there_is_one() -> None:
    """Markers at the end of a topic; older builds know no such field."""
    tailed = replace(MANIFEST, provenance=Provenance(266, 1, 1_795_222_871_590, 3))
    assert json.loads(tailed.to_json())["emptyTail"] == 3
    assert SnapshotManifest.from_json(tailed.to_json(), source="m") == tailed
    assert "emptyTail" not in json.loads(MANIFEST.to_json())
    for wrong in (267, -1):
        with pytest.raises(SnapshotCorruptError, match="not a snapshot manifest"):
            SnapshotManifest.from_json(sealed(emptyTail=wrong), source="m")


def test_a_gap_is_written_only_if_it_matters() -> None:
    """I6: a state that may lack records that count says until where; older builds know no such field."""
    past_gap = replace(MANIFEST, gap_until=300)
    assert not past_gap.is_exact
    assert json.loads(past_gap.to_json())["gapUntil"] == 300
    assert SnapshotManifest.from_json(past_gap.to_json(), source="m") == past_gap
    assert MANIFEST.is_exact
    assert "gapUntil" not in json.loads(MANIFEST.to_json())
    for wrong in (266, 1, -1):
        with pytest.raises(SnapshotCorruptError, match="not a snapshot manifest"):
            SnapshotManifest.from_json(sealed(gapUntil=wrong), source="m")


@pytest.mark.parametrize("cluster_id", ["", "ü 🚀", "\ud800", '"\\\n'])
def test_any_cluster_id_survives(cluster_id: str) -> None:
    """Even text that is not valid Unicode."""
    manifest = replace(MANIFEST, identity=LogIdentity(cluster_id, IDENTITY.topic_id))
    assert SnapshotManifest.from_json(manifest.to_json(), source="m") == manifest


def test_resealed_manifest_is_read() -> None:
    """The helper of these tests seals as the code does; otherwise they would prove nothing."""
    assert SnapshotManifest.from_json(sealed(), source="m") == MANIFEST


def test_a_newer_format_is_named() -> None:
    """Nothing else of it is read: a newer format may have any fields."""
    with pytest.raises(SnapshotUnsupportedError, match=r"m has format version 3; .* reads up to 2"):
        SnapshotManifest.from_json(b'{"formatVersion": 3, "new": true}', source="m")


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.5, None])
def test_other_versions_do_not_exist(version: Any) -> None:
    """What is no version at all is damage, not news."""
    with pytest.raises(SnapshotCorruptError, match=r"format version .* does not exist"):
        SnapshotManifest.from_json(sealed(formatVersion=version), source="m")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"count": 6}, "its parts have 5 ACLs, its count is 6"),
        ({"count": -5}, "count"),
        ({"count": "5"}, "count"),
        ({"countByResourceType": {"TOPIC": 4}}, "counts by resource type are 4 in all, its count is 5"),
        ({"countByResourceType": {"TOPICS": 5}}, "TOPICS"),
        ({"digest": "abc"}, "a digest has 32"),
        ({"topicId": "short"}, "not a Kafka id"),
        ({"endOffset": -1}, "endOffset"),
        ({"features": {"metadata.version": "30"}}, "features"),
        ({"parts": []}, "its parts have 0 ACLs"),
        ({"parts": None}, "parts"),
        ({"clusterId": None}, "clusterId"),
        ({"extra": 1}, "extra"),
        (
            {"parts": [{"name": "../x.parquet", "rows": 5, "bytes": 1, "sha256": "0" * 64}]},
            "cannot be a part's",
        ),
        ({"parts": [{"name": "part-1.parquet", "rows": 5, "bytes": 1, "sha256": "0" * 63}]}, "sha256"),
        (
            {"parts": [{"name": "part-1.parquet", "rows": 3, "bytes": 1, "sha256": "0" * 64}] * 2},
            "named twice",
        ),
    ],
)
def test_fields_that_contradict_are_refused(changes: dict[str, Any], problem: str) -> None:
    """Even with a checksum that fits: the error names the file and the field."""
    with pytest.raises(SnapshotCorruptError, match=r"^m is not a snapshot manifest: ") as raised:
        SnapshotManifest.from_json(sealed(**changes), source="m")
    assert problem in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'"x"', b"9" * 5_000, b"[" * 100_000])
def test_other_bytes_are_refused(data: bytes) -> None:
    """Whatever is not a JSON object of ours is a SnapshotCorruptError, nothing else."""
    with pytest.raises(SnapshotCorruptError, match="m is not a snapshot manifest"):
        SnapshotManifest.from_json(data, source="m")


def test_any_flipped_bit_is_noticed() -> None:
    """No bit of the file can change what is read without an error."""
    data = MANIFEST.to_json()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1
        try:
            read = SnapshotManifest.from_json(bytes(flipped), source="m")
        except (SnapshotCorruptError, SnapshotUnsupportedError):
            continue
        assert read == MANIFEST  # white space
