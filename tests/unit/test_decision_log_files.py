"""Events as lines of files and pipes: rotation, moved files, full disks, other writers."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from authorizer.api.errors import ConfigError
from authorizer.configuration.load import load_config
from authorizer.configuration.log_setup import setup_logging
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.decision_log.destinations import FileDestination, StdoutDestination

PLENTY = 1_000_000


def opened(path: Path, *, max_bytes: int = 0, keep: int = 3) -> FileDestination:
    return FileDestination(f"file:{path}", path, max_bytes=max_bytes, keep=keep)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def test_lines_are_appended_and_others_cannot_read_them(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"before\n")
    path.unlink()
    file = opened(path)
    file.put([b"1", b"2"])
    file.put([])
    file.put([b"3"])
    file.close()
    assert path.read_bytes() == b"1\n2\n3\n"
    assert stat.S_IMODE(path.stat().st_mode) & ~0o640 == 0
    again = opened(path)
    again.put([b"4"])
    again.close()
    assert lines_of(path) == [b"1", b"2", b"3", b"4"]
    assert (file.written, again.written, file.lost) == (3, 1, 0)


def test_a_full_file_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    file = opened(path, max_bytes=6, keep=2)
    for number in range(9):
        file.put([b"%d" % number])
    file.close()
    assert lines_of(path) == [b"6", b"7", b"8"]
    assert lines_of(tmp_path / "events.jsonl.1") == [b"3", b"4", b"5"]
    assert lines_of(tmp_path / "events.jsonl.2") == [b"0", b"1", b"2"]
    one_more = opened(path, max_bytes=6, keep=2)
    one_more.put([b"9"])
    one_more.close()
    assert lines_of(tmp_path / "events.jsonl.2") == [b"3", b"4", b"5"]
    assert len(list(tmp_path.iterdir())) == 3


@given(st.lists(st.lists(st.binary(max_size=8).map(lambda b: b.hex().encode()), max_size=4), max_size=12))
def test_rotation_keeps_complete_lines_in_order(
    tmp_path_factory: pytest.TempPathFactory, puts: list[list[bytes]]
) -> None:
    home = tmp_path_factory.mktemp("rotated")
    path = home / "events"
    file = opened(path, max_bytes=20, keep=100)
    for each in puts:
        file.put(each)
    file.close()
    rotated = sorted(home.glob("events.*"), key=lambda each: -int(each.suffix[1:]))
    written = [line for each in (*rotated, path) for line in lines_of(each)]
    assert written == [line for each in puts for line in each]
    # One put is not split, so that a file exceeds its size only by one put.
    most = max((sum(len(line) + 1 for line in each) for each in puts), default=0)
    assert all(each.stat().st_size <= max(20, most) for each in (*rotated, path))


@pytest.mark.parametrize("how", ["rename", "delete", "replace"])
def test_a_file_moved_by_another_program_is_created_again(how: str, tmp_path: Path) -> None:
    """By logrotate with `create` and without, and by `rm`."""
    path, away = tmp_path / "events", tmp_path / "events.old"
    file = opened(path)
    file.put([b"1"])
    if how == "delete":
        path.unlink()
    else:
        path.rename(away)
        if how == "replace":
            path.touch(0o600)
    file.put([b"2"])
    file.close()
    assert lines_of(path) == [b"2"]
    if how != "delete":
        assert lines_of(away) == [b"1"]
    assert (file.written, file.lost) == (2, 0)


def test_a_file_truncated_by_another_program_is_continued_at_its_start(tmp_path: Path) -> None:
    """logrotate's copytruncate."""
    path = tmp_path / "events"
    file = opened(path)
    file.put([b"1"])
    os.truncate(path, 0)
    file.put([b"2"])
    file.close()
    assert path.read_bytes() == b"2\n"


class FullDisk:
    """A disk with room for a number of bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = PLENTY
        self._write: Callable[[int, memoryview], int] = os.write
        monkeypatch.setattr("authorizer.node.decision_log.destinations.os.write", self.write)

    def write(self, descriptor: int, data: memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk_truncates_no_line_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, path = FullDisk(monkeypatch), tmp_path / "events"
    file = opened(path)
    file.put([b"first"])
    disk.room = 9
    file.put([b"other", b"next", b"lost"])
    assert path.read_bytes() == b"first\nother\n"
    assert (file.written, file.lost, file.reason) == (2, 2, "No space left on device")
    file.put([b"lost"])
    disk.room = PLENTY
    file.put([b"after"])
    file.close()
    assert path.read_bytes() == b"first\nother\nafter\n"
    assert (file.written, file.lost) == (3, 3)


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from([b"", b"a", b"bcd"]), max_size=4), st.integers(0, 9)), max_size=8
    )
)
def test_with_any_free_space_lines_are_complete_and_counted(
    tmp_path_factory: pytest.TempPathFactory, puts: list[tuple[list[bytes], int]]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        disk, path = FullDisk(patched), tmp_path_factory.mktemp("full") / "events"
        file = opened(path)
        for lines, disk.room in puts:
            file.put([b"<%b>" % line for line in lines])
        file.close()
    assert all(line.startswith(b"<") and line.endswith(b">") for line in lines_of(path))
    assert len(lines_of(path)) == file.written
    assert file.written + file.lost == sum(len(lines) for lines, _ in puts)
    assert path.read_bytes()[-1:] in (b"", b"\n")


def test_a_line_truncated_by_a_crash_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b'{"first":1}\n{"to')
    file = opened(path)
    file.put([b'{"next":1}'])
    file.close()
    assert lines_of(path) == [b'{"first":1}', b'{"to', b'{"next":1}']


def test_events_are_lost_while_the_directory_is_missing(tmp_path: Path) -> None:
    home = tmp_path / "logs"
    home.mkdir()
    file = opened(home / "events")
    (home / "events").unlink()
    home.rmdir()
    file.put([b"1", b"2"])
    assert (file.written, file.lost, file.reason) == (0, 2, "No such file or directory")
    home.mkdir()
    file.put([b"3"])
    file.close()
    assert lines_of(home / "events") == [b"3"]


def test_a_file_that_cannot_be_renamed_grows_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", replace)
    file = opened(tmp_path / "events", max_bytes=2)
    with capture_logs() as message:
        for number in range(5):
            file.put([b"%d" % number])
    file.close()
    assert len(lines_of(tmp_path / "events")) == 5
    assert file.lost == 0
    assert [event["event"] for event in message] == ["decision_log_not_rotated"]


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    file = opened(path)
    with pytest.raises(OSError, match="another process writes it"):
        opened(path)
    file.close()
    opened(path).close()


def test_a_rotated_file_is_locked_too(tmp_path: Path) -> None:
    path = tmp_path / "events"
    file = opened(path, max_bytes=2)
    file.put([b"1"])
    file.put([b"2"])
    with path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.close()


def test_nothing_is_written_after_close(tmp_path: Path) -> None:
    file = opened(tmp_path / "events")
    file.close()
    file.close()
    file.put([b"1"])
    assert (file.written, file.lost, file.reason) == (0, 1, "it is closed")


@given(st.lists(st.integers(0, 9000), max_size=6))
def test_lines_of_other_writers_do_not_interleave_on_a_pipe(sizes: list[int]) -> None:
    """Each write is small enough to be atomic, unless a line is longer."""
    reader, writer = os.pipe()
    written: list[int] = []
    write = os.write

    def watched(descriptor: int, data: memoryview) -> int:
        written.append(len(data))
        return write(descriptor, data)

    lines = [bytes([97 + number]) * size for number, size in enumerate(sizes)]
    read: list[bytes] = []

    def read_all() -> None:
        with open(reader, "rb") as pipe:  # noqa: PTH123 - a descriptor
            read.append(pipe.read())

    reading = threading.Thread(target=read_all)
    reading.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("authorizer.node.decision_log.destinations.os.write", watched)
        out = StdoutDestination("stdout", writer)
        out.put(lines)
        out.close()
    os.close(writer)
    reading.join()
    assert read[0].splitlines() == lines
    assert out.written == len(lines)
    assert all(size <= 4096 or size - 1 in sizes for size in written)


def test_a_pipe_without_a_reader_delays_only_once() -> None:
    """Without a reader there is no long delay, and a new reader gets new events."""
    reader, writer = os.pipe()
    out = StdoutDestination("stdout", writer, timeout_s=0.2)
    line = b"x" * 999
    began_s = time.monotonic()
    out.put([line] * 100)
    assert time.monotonic() - began_s > 0.2
    assert (out.written + out.lost, out.reason) == (100, "nothing reads it")
    began_s = time.monotonic()
    for _ in range(1000):
        out.put([line])
    assert time.monotonic() - began_s < 1000 * 0.2
    assert out.lost == 1100 - out.written
    with open(reader, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor
        assert pipe.read(out.written * 1000).splitlines() == [line] * out.written
        out.put([b"again"])
        assert pipe.read(100) == b"again\n"
    os.close(writer)


def test_events_without_a_reader_are_counted() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    out = StdoutDestination("stdout", writer)
    out.put([b"1", b"2"])
    os.close(writer)
    assert (out.written, out.lost, out.reason) == (0, 2, "Broken pipe")


def test_each_worker_has_a_separate_file(tmp_path: Path) -> None:
    config = load_config(environ={}, flags={"aclog.decision.log": f"file:{tmp_path}/decisions.jsonl"})
    output = setup_logging("json", "INFO")
    with AuditWriter.configured(config, output, 0), AuditWriter.configured(config, output, 1):
        assert {each.name for each in tmp_path.iterdir()} == {"decisions-0.jsonl", "decisions-1.jsonl"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("file:{home}", "Is a directory"),
        ("file:{home}/none/events", "No such file or directory"),
        ("kafka:events", "kafka://HOST:PORT/events: `aclog.log.url` is no topic"),
        ("kafka://127.0.0.1/events", "is not HOST:PORT"),
        ("kafka://127.0.0.1:1/a b", "cannot be a topic"),
    ],
)
def test_an_unusable_destination_fails_the_start(value: str, message: str, tmp_path: Path) -> None:
    flags = {"aclog.decision.log": value.format(home=tmp_path), "aclog.log.url": "file:/nowhere"}
    config = load_config(environ={}, flags=flags)
    with pytest.raises(ConfigError) as raised:
        AuditWriter.configured(config, setup_logging("json", "INFO"))
    assert "aclog.decision.log" in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [
        "stdin",
        "stdout:1",
        "file",
        "file:",
        "kafka:",
        "kafka:a b",
        "kafka:..",
        "kafka://",
        "kafka://h:1/",
        "file:a;file:a",
    ],
)
def test_an_invalid_destination_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="`stdout`, `file:PATH`, `kafka:TOPIC`"):
        load_config(environ={}, flags={"aclog.decision.log": value})


def test_an_invalid_producer_setting_fails_the_start_without_secrets() -> None:
    flags = {
        "aclog.decision.log": "kafka://127.0.0.1:1/events",
        "aclog.decision.log.kafka.sasl.password": "s3cret",
        "aclog.decision.log.kafka.no.such": "1",
    }
    config = load_config(environ={}, flags=flags)
    assert "s3cret" not in repr(config)
    with pytest.raises(ConfigError, match=r"No such configuration property") as raised:
        AuditWriter.configured(config, setup_logging("json", "INFO"))
    assert "s3cret" not in str(raised.value)


def test_credentials_of_the_logs_cluster_are_sent_to_no_other() -> None:
    from authorizer.node.decision_log.destinations import event_topic  # noqa: PLC0415

    flags = {
        "aclog.log.url": "kafka://10.0.0.1:9092,10.0.0.2:9092/acls",
        "aclog.kafka.sasl.password": "the log's",
        "aclog.kafka.sasl.username": "node",
        "aclog.decision.log": "kafka:events;kafka://elsewhere:9092/events",
    }
    environ = {"ACLOG_DECISION_LOG_KAFKA_SASL_USERNAME": "auditor"}
    config = load_config(environ=environ, flags=flags)
    here, there = (event_topic(config, each) for each in config.decision_log)
    destination_settings = {"sasl.username": "auditor"}
    assert here == (
        "kafka://10.0.0.1:9092,10.0.0.2:9092/events",
        {"sasl.password": "the log's", **destination_settings},
    )
    assert there == ("kafka://elsewhere:9092/events", destination_settings)
