"""`aclog snapshot`: list, create, verify and import, on the real logs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from snapshot.store.layout import SnapshotRef
from snapshot.store.snapshot_store import SnapshotStore
from support.data import real_log

ROOT = Path(__file__).resolve().parents[2]
SMALL = real_log("kraft-small")
CLUSTER = "aclogFixtureCluster001"
CHECKPOINT = SMALL / "00000000000000000208-0000000001.checkpoint"


def aclog(*args: object) -> Result:
    return CliRunner().invoke(cli, ["snapshot", *map(str, args)])


def answer(*args: object, code: int = 0) -> Any:
    result = aclog(*args, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_create_at_the_high_watermark(tmp_path: Path) -> None:
    """The snapshot ends at the high watermark and is named after it."""
    made = answer("create", "--log", SMALL, "--snapshots", tmp_path)
    assert (made["clusterId"], made["endOffset"], made["count"]) == (CLUSTER, 281, 59)
    assert (tmp_path / CLUSTER / "00000000000000000281-0000000001" / "manifest.json").is_file()
    (listed,) = answer("list", "--snapshots", tmp_path)["snapshots"]
    assert listed["state"] == "complete"
    assert {key: listed[key] for key in ("endOffset", "epoch", "count", "digest")} == {
        key: made[key] for key in ("endOffset", "epoch", "count", "digest")
    }


def test_create_at_an_offset(tmp_path: Path) -> None:
    """--at-offset is inclusive: the snapshot ends one past it, with the state that the log had there."""
    made = answer("create", "--log", SMALL, "--snapshots", tmp_path, "--at-offset", 207)
    imported = answer("import", CHECKPOINT, "--snapshots", tmp_path / "imported")
    assert made["endOffset"] == imported["endOffset"] == 208
    assert made["digest"] == imported["digest"]


def test_create_reports_the_logs_end(tmp_path: Path) -> None:
    """I10: now for the newest state, and the time of its last record for an older one."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path)
    answer("create", "--log", SMALL, "--snapshots", tmp_path, "--at-offset", 207)
    older, newest = answer("list", "--snapshots", tmp_path)["snapshots"]
    assert older["logEndTimeMs"] == older["timestampMs"]
    assert newest["logEndTimeMs"] > newest["timestampMs"] or newest["logEndTimeMs"] > 1_700_000_000_000


def test_a_second_create_leaves_the_parts(tmp_path: Path) -> None:
    """A complete and equal snapshot is not written again."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    answer("create", "--log", SMALL, "--snapshots", tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}


def test_create_removes_all_but_the_newest(tmp_path: Path) -> None:
    """--keep N leaves the N newest complete snapshots."""
    for offset in (100, 150, 200, 250):
        answer("create", "--log", SMALL, "--snapshots", tmp_path, "--at-offset", offset, "--keep", 2)
    assert [row["endOffset"] for row in answer("list", "--snapshots", tmp_path)["snapshots"]] == [201, 251]


def test_create_from_a_trimmed_log(tmp_path: Path) -> None:
    """The log's own checkpoint stands in for its missing beginning."""
    made = answer("create", "--log", real_log("kraft-trimmed"), "--snapshots", tmp_path)
    assert (made["endOffset"], made["count"]) == (2054, 479)


def test_list_shows_damage(tmp_path: Path) -> None:
    """Unfinished and corrupt snapshots are listed with the reason, text and JSON alike."""
    for offset in (100, 150, 200):
        answer("create", "--log", SMALL, "--snapshots", tmp_path, "--at-offset", offset)
    directories = sorted((tmp_path / CLUSTER).iterdir())
    (directories[0] / "manifest.json").unlink()
    next(directories[1].glob("*.parquet")).unlink()
    rows = answer("list", "--snapshots", tmp_path)["snapshots"]
    assert [row["state"] for row in rows] == ["unfinished", "corrupt", "complete"]
    assert "is missing" in rows[1]["problem"]
    text = aclog("list", "--snapshots", tmp_path).stdout
    assert "is missing" in text
    assert rows[2]["digest"] in text


def test_list_of_an_empty_store_is_empty(tmp_path: Path) -> None:
    """Nothing stored yet is not an error."""
    assert answer("list", "--snapshots", tmp_path)["snapshots"] == []
    assert "no snapshots" in aclog("list", "--snapshots", tmp_path).stdout


def test_verify_accepts_a_sound_snapshot(tmp_path: Path) -> None:
    """A sound snapshot is complete, and equal to the state of the log."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path)
    (row,) = answer("verify", "--snapshots", tmp_path, "--log", SMALL)["snapshots"]
    assert (row["whole"], row["equalToLog"]) == (True, True)
    assert "complete, equal to the log" in aclog("verify", "--snapshots", tmp_path, "--log", SMALL).stdout


def test_verify_reports_a_snapshot_that_differs_from_the_log(tmp_path: Path) -> None:
    """A complete snapshot with another state than the log's: exit code 1 and the differences."""
    with DirectoryLog.open(SMALL) as log:
        identity = log.identity
    wrong = AclsDelta(AclsImage.EMPTY).apply(Provenance(end_offset=200, epoch=1, timestamp_ms=0))
    SnapshotStore(tmp_path).write(wrong, identity, log_end_time_ms=0)
    assert answer("verify", "--snapshots", tmp_path)["snapshots"][0]["whole"] is True
    (row,) = answer("verify", "--snapshots", tmp_path, "--log", SMALL, code=1)["snapshots"]
    assert (row["whole"], row["equalToLog"]) == (True, False)
    assert row["onlyThereCount"] == 59


def test_verify_reports_a_snapshot_that_the_log_cannot_confirm(tmp_path: Path) -> None:
    """Where the log has lost its beginning, a snapshot is checked by itself, and stderr says so."""
    trimmed = real_log("kraft-trimmed")
    with DirectoryLog.open(trimmed) as log:
        identity = log.identity
    image = AclsDelta(AclsImage.EMPTY).apply(Provenance(end_offset=1700, epoch=1, timestamp_ms=0))
    SnapshotStore(tmp_path).write(image, identity, log_end_time_ms=0)
    result = aclog("verify", "--snapshots", tmp_path, "--log", trimmed)
    assert result.exit_code == 0
    assert "was not compared with the log" in result.stderr


def test_import_takes_the_cluster_from_meta_properties(tmp_path: Path) -> None:
    """Beside a broker's log the cluster is known, and the snapshot serves that log."""
    made = answer("import", CHECKPOINT, "--snapshots", tmp_path)
    assert (made["clusterId"], made["endOffset"], made["epoch"]) == (CLUSTER, 208, 1)
    (row,) = answer("verify", "--snapshots", tmp_path, "--log", SMALL)["snapshots"]
    assert row["equalToLog"] is True


def test_import_of_a_copied_file_needs_the_cluster(tmp_path: Path) -> None:
    """A file alone does not say which cluster it is of."""
    copy = shutil.copy(CHECKPOINT, tmp_path)
    refused = aclog("import", copy, "--snapshots", tmp_path / "store")
    assert refused.exit_code == 2
    assert "--cluster-id" in refused.stderr
    made = answer("import", copy, "--snapshots", tmp_path / "store", "--cluster-id", CLUSTER)
    assert made["clusterId"] == CLUSTER


def test_import_under_a_wrong_cluster_is_refused(tmp_path: Path) -> None:
    """I9: the cluster that meta.properties names is the one."""
    refused = aclog("import", CHECKPOINT, "--snapshots", tmp_path, "--cluster-id", "theirs")
    assert refused.exit_code == 2
    assert CLUSTER in refused.stderr


def test_import_of_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """A checkpoint without its footer is unfinished, and is not imported."""
    damaged = tmp_path / CHECKPOINT.name
    damaged.write_bytes(CHECKPOINT.read_bytes()[:-80])
    refused = aclog("import", damaged, "--snapshots", tmp_path / "store", "--cluster-id", CLUSTER)
    assert refused.exit_code == 4
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("acls.csv", b"id,resourceType\n"),
        (CHECKPOINT.name, b""),
        (CHECKPOINT.name, b"\x9c" * 300),
        ("junk.checkpoint", CHECKPOINT.read_bytes()),
    ],
    ids=["csv", "empty", "junk", "name"],
)
def test_import_of_another_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """Another kind of file was named: that is wrong usage, and nothing is damaged or too new."""
    (tmp_path / name).write_bytes(content)
    refused = aclog("import", tmp_path / name, "--snapshots", tmp_path / "store", "--cluster-id", CLUSTER)
    assert refused.exit_code == 2
    assert f"{name} is not one of Kafka's snapshots" in refused.stderr
    assert "newer" not in refused.stderr


@pytest.mark.parametrize("command", [["list"], ["verify"], ["export", "--format", "csv"]])
def test_a_missing_store_is_reported(tmp_path: Path, command: list[str]) -> None:
    """Is not an empty one: the path is wrong."""
    missing = tmp_path / "no" / "such"
    refused = aclog(*command, "--snapshots", missing)
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert f"snapshot store {missing} does not exist" in refused.stderr


def test_a_snapshot_removed_during_verify_is_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node goes on beside the command; what it takes away is no damage."""
    for offset in (100, 150):
        answer("create", "--log", SMALL, "--snapshots", tmp_path, "--at-offset", offset)
    verify = SnapshotStore.verify

    def removed(
        self: SnapshotStore, ref: SnapshotRef, identity: LogIdentity | None = None
    ) -> tuple[str, ...]:
        if ref.end_offset == 101:
            shutil.rmtree(tmp_path / ref.directory)
        return verify(self, ref, identity)

    monkeypatch.setattr(SnapshotStore, "verify", removed)
    (row,) = answer("verify", "--snapshots", tmp_path)["snapshots"]
    assert row["endOffset"] == 151


def test_an_unfinished_snapshot_without_a_writer_is_damage(tmp_path: Path) -> None:
    """Before that a node may be at it, and a look must not raise an alarm."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path)
    (directory,) = (tmp_path / CLUSTER).iterdir()
    (directory / "manifest.json").unlink()
    (row,) = answer("verify", "--snapshots", tmp_path)["snapshots"]
    assert (row["whole"], row["beingWritten"]) == (False, True)
    assert "being written" in aclog("verify", "--snapshots", tmp_path).stdout
    for part in directory.iterdir():
        os.utime(part, (0, 0))
    (row,) = answer("verify", "--snapshots", tmp_path, code=4)["snapshots"]
    assert "beingWritten" not in row


def test_export_names_the_file_that_cannot_be_written(tmp_path: Path) -> None:
    """As the user named it, once, and with the system's own words."""
    path = tmp_path / "no" / "x"
    refused = aclog("export", "--log", SMALL, "--format", "csv", "--output", path)
    assert refused.exit_code == 2
    assert f"cannot write {path}: No such file or directory" in refused.stderr
    full = aclog("export", "--log", SMALL, "--format", "csv", "--output", "/dev/full")
    assert full.exit_code == 3
    assert "cannot write /dev/full: No space left on device" in full.stderr


def test_export_to_stdout_by_its_name() -> None:
    """The state and nothing else, as with `-`."""
    export = f"{sys.executable} -m authorizer.cli snapshot export --log {SMALL} --format csv".split()
    dash, named = (
        subprocess.run([*export, "--output", output], check=True, capture_output=True, cwd=ROOT).stdout
        for output in ("-", "/dev/stdout")
    )
    assert dash == named != b""


def test_a_damaged_snapshot_is_reported_once(tmp_path: Path) -> None:
    """By the command that passes it over."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path)
    for part in tmp_path.rglob("*.parquet"):
        part.write_bytes(b"x")
    result = aclog("export", "--log", SMALL, "--snapshots", tmp_path, "--format", "csv")
    assert result.exit_code == 0
    assert "note: snapshot 00000000000000000281-0000000001: " in result.stderr


def test_only_snapshots_of_the_named_log_are_listed(tmp_path: Path) -> None:
    """With --log only its cluster's snapshots count; without, all of the store's."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path)
    image = AclsDelta(AclsImage.EMPTY).apply(Provenance(end_offset=5, epoch=1, timestamp_ms=0))
    with DirectoryLog.open(SMALL) as log:
        other = LogIdentity("other", log.identity.topic_id)
    SnapshotStore(tmp_path).write(image, other, log_end_time_ms=0)
    assert len(answer("list", "--snapshots", tmp_path)["snapshots"]) == 2
    assert len(answer("list", "--snapshots", tmp_path, "--log", SMALL)["snapshots"]) == 1
    assert len(answer("list", "--snapshots", tmp_path, "--cluster-id", "other")["snapshots"]) == 1


def test_a_snapshot_beyond_a_gap_is_shown_and_not_compared(tmp_path: Path) -> None:
    """I6: it is no state of the log yet; comparisons and exports report that."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path, "--at-offset", 99)
    store = SnapshotStore(tmp_path)
    (ref,) = (status.ref for status in store.survey(CLUSTER))
    past_gap = replace(store.read(ref).manifest, gap_until=200)
    (tmp_path / ref.file("manifest.json")).write_bytes(past_gap.to_json())
    assert answer("list", "--snapshots", tmp_path)["snapshots"][0]["gapUntil"] == 200
    verified = aclog("verify", "--log", SMALL, "--snapshots", tmp_path)
    assert verified.exit_code == 0
    assert "not compared with the log" in verified.stderr
    assert "continued to 200" in verified.stderr
    exported = aclog("export", "--snapshots", tmp_path, "--format", "jsonl")
    assert "continued to 200" in exported.stderr


FORMATS = ("avro", "jsonl", "csv", "kip11")


@pytest.mark.parametrize("export_format", FORMATS)
def test_export_to_a_file_and_to_stdout(export_format: str, tmp_path: Path) -> None:
    """The same bytes either way, from the log and from a stored snapshot."""
    answer("create", "--log", SMALL, "--snapshots", tmp_path / "store")
    file = tmp_path / "out"
    made = answer("export", "--log", SMALL, "--format", export_format, "--output", file)
    assert (made["count"], made["endOffset"]) == (59, 281)
    assert aclog("export", "--log", SMALL, "--format", export_format).stdout_bytes == file.read_bytes()
    from_store = aclog("export", "--snapshots", tmp_path / "store", "--format", export_format)
    assert from_store.stdout_bytes == file.read_bytes()


def test_export_at_an_offset_equals_kafkas_checkpoint(tmp_path: Path) -> None:
    """A checkpoint made at Kafka's offset has Kafka's name and, read back, Kafka's ACLs."""
    made = answer(
        "export", "--log", SMALL, "--format", "checkpoint", "--output", tmp_path, "--at-offset", 207
    )
    assert Path(made["file"]).name == CHECKPOINT.name
    ours = answer("import", made["file"], "--snapshots", tmp_path / "ours", "--cluster-id", CLUSTER)
    kafkas = answer("import", CHECKPOINT, "--snapshots", tmp_path / "kafkas")
    assert ours["digest"] == kafkas["digest"]


def test_export_of_a_stored_snapshot(tmp_path: Path) -> None:
    """--end-offset selects one; the default is the newest complete one, and stderr names the skipped ones."""
    for offset in (100, 200):
        answer("create", "--log", SMALL, "--snapshots", tmp_path, "--at-offset", offset)
    next((tmp_path / CLUSTER).glob("*201-*/manifest.json")).unlink()
    newest = aclog("export", "--snapshots", tmp_path, "--format", "jsonl")
    chosen = aclog("export", "--snapshots", tmp_path, "--format", "jsonl", "--end-offset", 101)
    assert newest.exit_code == chosen.exit_code == 0
    assert newest.stdout_bytes == chosen.stdout_bytes
    assert "was skipped" in newest.stderr
    assert aclog("export", "--snapshots", tmp_path, "--format", "jsonl", "--end-offset", 201).exit_code == 4


def test_export_needs_the_cluster_id(tmp_path: Path) -> None:
    """A store of two clusters: one must be chosen."""
    for cluster in ("one", "two"):
        copy = tmp_path / f"{cluster}-log"
        shutil.copytree(SMALL, copy)
        (tmp_path / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\n")
        answer("create", "--log", copy, "--snapshots", tmp_path / "store")
    assert aclog("export", "--snapshots", tmp_path / "store", "--format", "csv").exit_code == 2
    chosen = aclog("export", "--snapshots", tmp_path / "store", "--format", "csv", "--cluster-id", "two")
    assert chosen.exit_code == 0
