"""The bootstrap file of a new cluster: its name, its existing records, and refused inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.control import ControlType, encode_control_key, snapshot_footer_value, snapshot_header_value
from records.entries import METADATA_VERSION_FEATURE, FeatureLevelRecord, MetadataRecord
from records.log.base import CheckpointId
from records.log.directory import DirectoryLog
from records.metadata_version import METADATA_VERSION_3_9, metadata_version_name, parse_metadata_version
from replay.snapshot_source import CheckpointFiles
from snapshot.errors import SnapshotMissingError, SnapshotRefusedError
from snapshot.files.kraft_bootstrap import add_to_formatted, write_bootstrap
from snapshot.files.kraft_checkpoint import BOOTSTRAP_NAME, read_checkpoint
from support.data import real_log
from support.snapshots import IDENTITY, acl, image_of, replayed

ZERO = Path("__cluster_metadata-0", CheckpointId(0, 0).name)
FEATURES = {METADATA_VERSION_FEATURE: 33, "share.version": 2}
LEVELS = [FeatureLevelRecord(name, level) for name, level in FEATURES.items()]
IMAGE = image_of(3, 1, 2)


def formatted(home: Path) -> Path:
    (home / "__cluster_metadata-0").mkdir(parents=True)
    (home / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    return home


def kafkas_file(*records: MetadataRecord) -> bytes:
    """As `kafka-storage format --standalone` writes it: voters, features, SCRAM users."""
    control = encode_batch(
        [snapshot_header_value(7), b"\0\0\0\x01\0", b"voters"],
        keys=[encode_control_key(ControlType.SNAPSHOT_HEADER), b"\0\0\0\x05", b"\0\0\0\x06"],
        is_control=True, base_offset=0, epoch=0, timestamp_ms=7,
    )  # fmt: skip
    scram_user = b"\x01\x0b\x00" + b"a record that aclog does not look into"
    values = [*map(encode_frame, records), scram_user] if records else []
    data = encode_batch(values, base_offset=3, epoch=0, timestamp_ms=7) if values else b""
    footer = encode_batch(
        [snapshot_footer_value()], keys=[encode_control_key(ControlType.SNAPSHOT_FOOTER)], is_control=True,
        base_offset=3 + len(values), epoch=0, timestamp_ms=7,
    )  # fmt: skip
    return control + data + footer


def test_existing_records_are_kept_and_acls_come_before_the_footer(tmp_path: Path) -> None:
    """Voters and SCRAM users too, byte by byte; the file's mode as well."""
    directory = formatted(tmp_path)
    before = kafkas_file(*LEVELS)
    (directory / ZERO).write_bytes(before)
    (directory / ZERO).chmod(0o400)
    path, features = add_to_formatted(IMAGE, directory)
    assert (path, features) == (directory / ZERO, FEATURES)
    assert path.stat().st_mode & 0o777 == 0o400
    after = path.read_bytes()
    footer = len(before) - 75
    assert after[:footer] == before[:footer]
    image = read_checkpoint(path)
    assert (image.digest, len(image), image.metadata.features) == (IMAGE.digest, 3, FEATURES)


def test_which_file_a_controller_begins_with(tmp_path: Path) -> None:
    """From 4.4 on 0-0 if metadata is in it; with control records alone, as before 4.4, the other one."""
    directory = formatted(tmp_path)
    (directory / ZERO).write_bytes(kafkas_file())
    with pytest.raises(SnapshotMissingError, match="has no bootstrap records"):
        add_to_formatted(IMAGE, directory)
    (directory / BOOTSTRAP_NAME).write_bytes(kafkas_file(*LEVELS))
    assert add_to_formatted(IMAGE, directory)[0] == directory / BOOTSTRAP_NAME
    (directory / ZERO).write_bytes(kafkas_file(*LEVELS))
    assert add_to_formatted(IMAGE, directory)[0] == directory / ZERO


def test_invalid_exports_are_refused(tmp_path: Path) -> None:
    """And nothing is changed then."""
    directory = formatted(tmp_path)
    path = directory / BOOTSTRAP_NAME
    old = FeatureLevelRecord(METADATA_VERSION_FEATURE, 13)
    for records, why in (
        ([*LEVELS, acl(9)], "already has 1 ACLs"),
        ([old], "3.6-IV1 has no"),
    ):
        path.write_bytes(kafkas_file(*records))
        with pytest.raises(SnapshotRefusedError, match=why):
            add_to_formatted(IMAGE, directory)
        assert path.read_bytes() == kafkas_file(*records)
    path.write_bytes(kafkas_file(*LEVELS))
    (directory / ZERO).with_name("00000000000000000000.log").touch()
    with pytest.raises(SnapshotRefusedError, match="already has a metadata log"):
        add_to_formatted(IMAGE, directory)
    with pytest.raises(SnapshotRefusedError, match="IV3 has no"):
        write_bootstrap(IMAGE, tmp_path / "new", {METADATA_VERSION_FEATURE: 7})
    assert not (tmp_path / "new").exists()


def export(*args: object) -> Result:
    log = real_log("kraft-small")
    command = ["snapshot", "export", "--log", str(log), "--format", "kraft", *map(str, args)]
    return CliRunner().invoke(cli, command)


def test_the_command_chooses_features(tmp_path: Path) -> None:
    """The log's own, or the metadata.version that is named; in a formatted directory what is there."""
    log = read_checkpoint(real_log("kraft-small") / CheckpointId(264, 1).name).metadata.features
    for flags, expected in (
        ((), dict(log)),
        (("--metadata-version", "4.0"), {METADATA_VERSION_FEATURE: 25}),
        (("--metadata-version", "3.9-IV0"), {METADATA_VERSION_FEATURE: METADATA_VERSION_3_9}),
    ):
        done = export("--bootstrap", "--output", tmp_path, "--json", "--force", *flags)
        assert done.exit_code == 0, done.output
        result = json.loads(done.stdout)
        assert (result["file"], result["features"]) == (str(tmp_path / BOOTSTRAP_NAME), expected)
        image = read_checkpoint(tmp_path / BOOTSTRAP_NAME)
        assert (image.metadata.features, len(image)) == (expected, result["count"])
    for args, why in (
        (("--bootstrap", "--metadata-version", "5.9"), "`5.9` is no metadata.version"),
        (("--metadata-version", "4.0"), "needs --bootstrap"),
        (("--bootstrap", "--output", formatted(tmp_path), "--metadata-version", "4.0"), "--release-version"),
    ):
        done = export(*args)
        assert (done.exit_code, why in done.output) == (2, True), done.output


def test_metadata_versions_have_names() -> None:
    """MetadataVersion of Kafka 4.4; a level that is not known is its number."""
    names = {
        1: "3.0-IV1",
        7: "3.3-IV3",
        14: "3.6-IV2",
        21: "3.9-IV0",
        25: "4.0-IV3",
        30: "4.3-IV0",
        33: "4.4-IV2",
    }
    for level, name in names.items():
        assert (metadata_version_name(level), parse_metadata_version(name)) == (name, level)
    assert (metadata_version_name(0), metadata_version_name(34)) == ("0", "34")
    assert [parse_metadata_version(text) for text in ("4.3", "4.4", "21")] == [30, 33, 21]
    for text in ("", "5.0", "34", "4.3-IV1", "-1", "²"):
        with pytest.raises(ValueError, match=" is no "):
            parse_metadata_version(text)


def test_what_a_cluster_begins_with_is_no_state_of_its_log(tmp_path: Path) -> None:
    """KIP-1170: the log says itself what became of it."""
    log_dir = tmp_path / "__cluster_metadata-0"
    write_bootstrap(replayed([acl(1)]), log_dir / CheckpointId(0, 0).name, FEATURES)
    (log_dir / "00000000000000000000.log").write_bytes(
        encode_batch([encode_frame(acl(2))], base_offset=0, epoch=1, timestamp_ms=1)
    )
    with DirectoryLog.open(log_dir) as log:
        assert len(log.checkpoints()) == 1
        assert CheckpointFiles(log).offers(IDENTITY) == []
