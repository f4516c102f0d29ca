"""Whatever is wrong with data, files or settings: a message that names it, a way out, an exit code."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.batch import HEADER_BYTES, encode_batch
from records.codecs.kraft import encode_frame
from records.entries import AccessControlEntryRecord
from records.errors import LogError
from records.ids import binding_uuid
from records.log.directory import DirectoryLog
from support.data import real_log

SEGMENT = "00000000000000000000.log"
REQUEST = ("--principal", "User:u7", "--operation", "Read", "--topic", "t7")


def record(number: int) -> AccessControlEntryRecord:
    binding = AclBinding(
        ResourcePattern(ResourceType.TOPIC, f"t{number}", PatternType.LITERAL),
        AccessControlEntry(f"User:u{number}", "*", AclOperation.READ, AclPermissionType.ALLOW),
    )
    return AccessControlEntryRecord.from_binding(binding_uuid(binding), binding)


@dataclass(frozen=True, slots=True)
class World:
    """An aclog-managed log of ten ACLs, one in each batch, and a store with its snapshot at end offset 10."""

    log: Path
    store: Path

    @property
    def segment(self) -> Path:
        return self.log / SEGMENT

    @property
    def snapshot(self) -> Path:
        return next(self.store.glob("*/00000000000000000010-*"))

    def flip(self, file: Path, position: int) -> None:
        data = bytearray(file.read_bytes())
        data[position] ^= 1
        file.write_bytes(data)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "log", tmp_path / "store")
    with DirectoryLog.open(made.log, mode="create", cluster_id="mine") as log:
        for number in range(10):
            log.append([record(number)])
    done = CliRunner().invoke(
        cli, ["snapshot", "create", "--log", str(made.log), "--snapshots", str(made.store)]
    )
    assert done.exit_code == 0, done.stderr
    return made


@contextmanager
def nothing(_: World) -> Iterator[None]:
    yield


@contextmanager
def corrupt_part(world: World) -> Iterator[None]:
    world.flip(next(world.snapshot.glob("*.parquet")), 100)
    yield


@contextmanager
def missing_manifest(world: World) -> Iterator[None]:
    (world.snapshot / "manifest.json").unlink()
    for part in world.snapshot.iterdir():
        os.utime(part, (0, 0))  # or a node may be writing it
    yield


@contextmanager
def foreign_snapshot(world: World) -> Iterator[None]:
    """Another cluster's snapshot under this cluster's name."""
    other = world.store.parent / "other"
    with DirectoryLog.open(other, mode="create", cluster_id="theirs") as log:
        log.append([record(1)])
    args = ["snapshot", "create", "--log", str(other), "--snapshots", str(world.store)]
    assert CliRunner().invoke(cli, args).exit_code == 0
    shutil.rmtree(world.store / "mine")
    (world.store / "theirs").rename(world.store / "mine")
    yield


@contextmanager
def truncated_segment(world: World) -> Iterator[None]:
    data = world.segment.read_bytes()
    world.segment.write_bytes(data[:-20])
    yield


@contextmanager
def flipped_bit(world: World) -> Iterator[None]:
    world.flip(world.segment, HEADER_BYTES + 20)
    yield


def of_a_broker(world: World, *segments: bytes) -> None:
    """A broker's directory in the log's place, that nobody has written to for a minute."""
    shutil.rmtree(world.log)
    world.log.mkdir()
    world.segment.write_bytes(b"".join(segments))
    then = time.time() - 60
    os.utime(world.segment, (then, then))


@contextmanager
def truncated_tail(world: World) -> Iterator[None]:
    """As a broker that was killed leaves it, or a copy that was cut short."""
    of_a_broker(world, world.segment.read_bytes()[:-20])
    yield


@contextmanager
def truncated_managed_tail(world: World) -> Iterator[None]:
    """As a writer of ours that was killed leaves it."""
    with world.segment.open("ab") as file:
        file.write(bytes(8) + b"\0\0\0\x99")
    yield


@contextmanager
def own_tail_being_written(world: World) -> Iterator[None]:
    with truncated_managed_tail(world), DirectoryLog.open(world.log, mode="write"):
        with world.segment.open("ab") as file:
            file.write(bytes(7))
        yield


@contextmanager
def junk(world: World) -> Iterator[None]:
    of_a_broker(world, b"hello")
    yield


@contextmanager
def random_bytes(world: World) -> Iterator[None]:
    of_a_broker(world, random.Random(1).randbytes(5000))
    yield


@contextmanager
def junk_behind_batches(world: World) -> Iterator[None]:
    of_a_broker(world, world.segment.read_bytes(), b"junk\n")
    yield


@contextmanager
def newer_record(world: World) -> Iterator[None]:
    """An AccessControlEntryRecord of version 9, in a broker's directory."""
    shutil.rmtree(world.log)
    world.log.mkdir()
    frame = bytearray(encode_frame(record(1)))
    frame[2] = 9
    world.segment.write_bytes(encode_batch([bytes(frame)], base_offset=0, epoch=1, timestamp_ms=0))
    yield


@contextmanager
def second_writer(world: World) -> Iterator[None]:
    with DirectoryLog.open(world.log, mode="write"):
        yield


@contextmanager
def missing_log(world: World) -> Iterator[None]:
    shutil.rmtree(world.log)
    yield


@contextmanager
def file_for_a_directory(world: World) -> Iterator[None]:
    shutil.rmtree(world.log)
    world.log.write_text("not a directory")
    yield


@contextmanager
def bad_config(world: World) -> Iterator[None]:
    (world.log.parent / "aclog.conf").write_text("super.users=User:alice;bob\n")
    yield


@contextmanager
def mistyped_config(world: World) -> Iterator[None]:
    (world.log.parent / "aclog.conf").write_text("aclog.log.urll=file:x\n")
    yield


LISTING = "acls --list --log {log}"
CHECK = "check --log {log} " + " ".join(REQUEST)
VERIFY_LOG = "log verify --log {log}"
DUMP = "log dump --log {log}"
VERIFY_STORE = "snapshot verify --snapshots {store}"
VERIFY_BOTH = "snapshot verify --snapshots {store} --log {log}"
ADD = "acls --log {log} --add --topic t --allow-principal User:a"
CONF = "--config {home}/aclog.conf"

Arrange = Callable[[World], AbstractContextManager[None]]

CASES = [
    (corrupt_part, VERIFY_STORE, 4, "SHA-256"),
    (missing_manifest, VERIFY_STORE, 4, "manifest.json is missing: the snapshot is unfinished"),
    (foreign_snapshot, VERIFY_STORE, 4, "belongs to cluster `theirs`, not to `mine`"),
    (foreign_snapshot, VERIFY_BOTH, 4, "belongs to cluster `theirs`, not to `mine`"),
    (nothing, "log append --log {log} --create --cluster-id theirs /dev/null", 2, "theirs"),
    *((truncated_segment, command, 4, SEGMENT) for command in (LISTING, CHECK, VERIFY_LOG, DUMP, ADD)),
    *((flipped_bit, command, 4, "CRC") for command in (LISTING, CHECK, VERIFY_LOG, DUMP)),
    (flipped_bit, "snapshot create --log {log} --snapshots {store}2", 4, "CRC"),
    *((newer_record, command, 4, "version 9") for command in (LISTING, CHECK, VERIFY_LOG, DUMP)),
    *((junk, command, 4, "5 are there") for command in (LISTING, CHECK, VERIFY_LOG, DUMP)),
    *((random_bytes, command, 4, "no record batch begins here") for command in (LISTING, CHECK, VERIFY_LOG)),
    *((junk_behind_batches, command, 4, "5 are there") for command in (LISTING, CHECK, VERIFY_LOG)),
    (
        truncated_tail,
        VERIFY_LOG,
        4,
        "its last 85 bytes, from byte 945 on, where offset 9 would be, are no complete",
    ),
    (truncated_tail, VERIFY_LOG, 4, "they are not being written"),
    (truncated_tail, CHECK, 0, "its last 85 bytes"),
    (truncated_tail, LISTING, 0, "its last 85 bytes"),
    (truncated_tail, DUMP, 0, "its last 85 bytes"),
    *(
        (truncated_tail, command, 0, "its last 85 bytes")
        for command in (
            "diff {log} {log}",
            f"check --acls {{log}} {' '.join(REQUEST)}",
            "snapshot create --log {log} --snapshots {store}",
        )
    ),
    (truncated_managed_tail, VERIFY_LOG, 4, "its last 12 bytes"),
    (truncated_managed_tail, CHECK, 0, "its last 12 bytes"),
    (own_tail_being_written, VERIFY_LOG, 0, "they are being written"),
    (second_writer, ADD, 3, "writ"),
    (second_writer, "log append --log {log} /dev/null", 3, "writ"),
    *((missing_log, command, 2, "{log}") for command in (LISTING, CHECK, VERIFY_LOG, DUMP, ADD)),
    *((file_for_a_directory, command, 2, "{log}") for command in (LISTING, CHECK, VERIFY_LOG)),
    (bad_config, f"{CHECK} {CONF}", 2, "super.users"),
    (bad_config, f"serve --log {{log}} {CONF}", 2, "super.users"),
    (mistyped_config, f"{LISTING} {CONF}", 2, "did you mean `aclog.log.url`?"),
    (nothing, f"{CHECK} {CONF}", 2, "{home}/aclog.conf"),
    (nothing, "acls --list", 2, "--log"),
    (nothing, "snapshot list", 2, "--snapshots"),
    (nothing, "acls --list --log kraft://localhost", 2, "HOST:PORT"),
    (nothing, "log create --log {log}", 2, "already exists"),
    (nothing, "log create --log {log}2 --replication-factor 3", 2, "for a topic"),
    (nothing, "log create --log {log}2 --delete-retention 7", 2, "7d"),
    (nothing, "log create --log kafka://localhost:9092/acls --cluster-id x", 2, "for a directory"),
    (nothing, "log create --log kraft://localhost:9093", 2, "its metadata log itself"),
    (nothing, "log create --log {log}2 --cluster-id ../x", 2, "`../x` is not a cluster id: 1 to 128 letters"),
    (nothing, "log append --log {log}2 --create --cluster-id a/b /dev/null", 2, "`a/b` is not a cluster id"),
    (nothing, "snapshot import --snapshots {store} --cluster-id .x /dev/null", 2, "`.x` is not a cluster id"),
    (nothing, "log dump --log {log} --from 10 --to 5", 2, "--from 10 is after --to 5"),
    (nothing, "log dump --log {log} --from 3 --to 3", 0, '"offset":3,'),
    (nothing, "log verify --log {log} --with http://127.0.0.1:1", 3, "http://127.0.0.1:1"),
    (nothing, "log verify --log {log} --with http://127.0.0.1:1 --at-offset 3", 2, "--at-offset"),
    (nothing, f"{CHECK} --at-offset 10", 2, "10"),
    (nothing, "log dump --log {log} --from 11", 2, "11"),
    (nothing, "snapshot verify --snapshots {store} --end-offset 3", 4, "ends at 3"),
    (nothing, "snapshot import --snapshots {store} {home}/none.checkpoint", 2, "none.checkpoint"),
    (nothing, "snapshot list --snapshots nope://x", 2, "nope"),
]


@pytest.mark.parametrize(
    ("arrange", "command", "code", "message"),
    CASES,
    ids=[f"{case[0].__name__}-{case[1].split(' --')[0]}-{number}" for number, case in enumerate(CASES)],
)
def test_message_and_exit_code(arrange: Arrange, command: str, code: int, message: str, world: World) -> None:
    """The exit code is the pinned one, the message names what is wrong, and no traceback is shown."""
    names = {"log": world.log, "store": world.store, "home": world.log.parent}
    with ExitStack() as stack:
        stack.enter_context(arrange(world))
        result = CliRunner().invoke(cli, command.format(**names).split())
    assert result.exit_code == code, result.output
    assert message.format(**names) in result.output
    assert "Traceback" not in result.output
    assert "a defect in aclog" not in result.output


def test_trailing_bytes_are_in_the_report(world: World) -> None:
    """A script finds in the JSON what people read, and the rest of the report stays."""
    args = ["log", "verify", "--json", "--log", str(world.log)]
    assert json.loads(CliRunner().invoke(cli, args).stdout)["trailing"] is None
    truncated_tail(world).__enter__()
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 4
    report = json.loads(result.stdout)
    expected = {"file": SEGMENT, "position": 945, "bytes": 85, "offset": 9, "beingWritten": False}
    assert report["trailing"] == expected
    assert (report["batches"], report["aclCount"]) == (9, 9)


@pytest.mark.parametrize("arrange", [own_tail_being_written, nothing])
def test_a_sound_log_causes_no_remark(arrange: Arrange, world: World) -> None:
    """A live log's end is always on its way."""
    with arrange(world):
        result = CliRunner().invoke(cli, CHECK.format(log=world.log).split())
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("arrange", [junk, random_bytes])
def test_invalid_bytes_do_not_suggest_a_newer_aclog(arrange: Arrange, world: World) -> None:
    """A version is only believed where all else looks like a batch."""
    with arrange(world):
        result = CliRunner().invoke(cli, CHECK.format(log=world.log).split())
    assert "newer" not in result.output


@pytest.mark.parametrize("arrange", [corrupt_part, missing_manifest, foreign_snapshot])
def test_a_damaged_snapshot_does_not_change_the_answer(arrange: Arrange, world: World) -> None:
    """check falls back to the log and says on stderr which snapshot it skipped."""
    with arrange(world):
        args = ["check", "--log", str(world.log), "--snapshots", str(world.store), *REQUEST]
        result = CliRunner().invoke(cli, args)
    assert (result.exit_code, result.stdout.split()[0]) == (0, "ALLOWED")
    assert "skipped" in result.stderr


def test_debug_prints_the_traceback(world: World) -> None:
    """--debug and ACLOG_DEBUG show where an error comes from; the message and the code stay."""
    flipped_bit(world).__enter__()
    args = ["acls", "--list", "--log", str(world.log)]
    for debug, env in ((["--debug"], {}), ([], {"ACLOG_DEBUG": "1"})):
        result = CliRunner(env=env).invoke(cli, [*debug, *args])
        assert result.exit_code == 4
        assert "Traceback" in result.stderr
        assert "Error: " in result.stderr


@pytest.mark.parametrize("cluster_id", ["a b", "", "ä", "a\n", "x" * 129, "..", "a:b", "-\t"])
def test_an_invalid_cluster_id_is_refused(cluster_id: str, tmp_path: Path) -> None:
    """It becomes part of paths, labels and commands; nothing is made where it is none."""
    args = ["log", "create", "--log", str(tmp_path / "log"), "--cluster-id", cluster_id]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert "is not a cluster id" in result.output
    with pytest.raises(LogError, match="is not a cluster id"):
        DirectoryLog.open(tmp_path / "own", mode="create", cluster_id=cluster_id)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("line", ["junk", "[1]", '{"type":"ACCESS_CONTROL_ENTRY_RECORD"}'])
def test_an_error_in_a_users_file_is_not_called_a_damaged_replica(line: str, world: World) -> None:
    """What to do about it is to mend the line."""
    args = ["log", "append", "--log", str(world.log)]
    result = CliRunner().invoke(cli, args, input=line + "\n")
    assert result.exit_code == 4
    assert "stdin line 1" in result.stderr
    assert "; nothing was written" in result.stderr
    assert "A line is one JSON object" in result.stderr
    assert "replica" not in result.stderr
    records = world.log.parent / "records.jsonl"
    records.write_text(line + "\n")
    result = CliRunner().invoke(cli, ["check", "--batch", "-", "--records", str(records)], input="{}")
    assert result.exit_code == 4
    assert "A line of --records is one JSON object" in result.stderr
    assert "replica" not in result.stderr


def test_bytes_that_are_no_utf_8_are_reported(world: World) -> None:
    """No encoding is guessed from them."""
    args = ["check", "--log", str(world.log), "--batch", "-"]
    result = CliRunner().invoke(cli, args, input=b"\xff\xfe\n")
    assert result.exit_code == 4
    assert json.loads(result.stdout) == {"error": "DecodeError: not UTF-8: byte 0xff at 0"}
    assert "utf-16" not in result.output.lower()


def test_a_brokers_log_is_never_written(tmp_path: Path) -> None:
    """--add to a broker's directory is refused, and nothing there changes."""
    copy = tmp_path / "__cluster_metadata-0"
    shutil.copytree(real_log("kraft-small"), copy)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    args = ["acls", "--log", str(copy), "--add", "--topic", "t", "--allow-principal", "User:a"]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert str(copy) in result.stderr
    assert before == {path.name: path.read_bytes() for path in copy.iterdir()}
