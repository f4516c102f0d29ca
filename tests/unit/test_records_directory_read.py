"""Reading directories of segments: those of real brokers, and damaged ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.batch import encode_batch
from records.codecs.json import to_json
from records.codecs.kraft import encode_frame, record_type_name
from records.entries import ControlRecord, OtherRecord
from records.errors import (
    DecodeError,
    LogCorruptError,
    LogError,
    LogNotFoundError,
    LogReadOnlyError,
    LogStorageError,
    OffsetOutOfRangeError,
)
from records.ids import METADATA_TOPIC_ID
from records.log.base import CheckpointId, LogIdentity
from records.log.directory import DirectoryLog
from records.log.open import open_log
from support.data import REAL_LOGS, real_log, real_log_home
from support.directory_logs import (
    TIMESTAMP_MS,
    acl,
    assert_holds_acls,
    batch_bytes,
    offsets_of,
    read_batches,
    read_path,
    read_until_error,
    records_of,
    segment_path,
    write_segment,
)


def json_lines(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        yield from map(json.loads, lines)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A copy of kraft-small's log.dir that a test may change; the log's directory in it."""
    home = shutil.copytree(real_log_home("kraft-small"), tmp_path / "kraft-small")
    return home / "__cluster_metadata-0"


@pytest.mark.parametrize("name", REAL_LOGS)
def test_a_real_log_reads_as_kafka_dumps_it(name: str) -> None:
    """Offsets, timestamps and types of every record equal kafka-dump-log's, ACL records in every field."""
    with DirectoryLog.open(real_log(name)) as log:
        records = records_of(read_batches(log))
    dumped = list(json_lines(real_log_home(name) / "dump.jsonl"))
    assert len(records) == len(dumped)
    for found, expected in zip(records, dumped, strict=True):
        assert (found.offset, found.timestamp_ms) == (expected["offset"], expected["timestamp"])
        record = found.record
        if isinstance(record, ControlRecord):
            assert "control" in expected
        elif isinstance(record, OtherRecord):
            assert record_type_name(record.api_key) == expected["type"]
            assert record.version == expected["version"]
        else:
            assert to_json(record) == {key: expected[key] for key in ("type", "version", "data")}


@pytest.mark.parametrize("name", ["kraft-small", "kraft-trimmed"])
def test_a_real_log_has_kafkas_batches(name: str) -> None:
    """Bounds, epochs and sizes of all batches equal what kafka-dump-log prints."""
    with DirectoryLog.open(real_log(name)) as log:
        found = [(b.base_offset, b.end_offset - 1, b.epoch, b.size_bytes) for b in read_batches(log)]
    fields = ("baseOffset", "lastOffset", "partitionLeaderEpoch", "size")
    assert found == [
        tuple(batch[field] for field in fields) for batch in json_lines(real_log_home(name) / "batches.jsonl")
    ]


def test_any_offset_leads_to_its_batch() -> None:
    """A read at any offset begins with the batch that contains it, whatever was read before."""
    with DirectoryLog.open(real_log("kraft-trimmed")) as log:
        batches = read_batches(log)
        holder = {offset: batch for batch in batches for offset in range(batch.base_offset, batch.end_offset)}
        offsets = range(log.start_offset(), log.high_watermark())
        for offset in (*reversed(offsets), *offsets):
            assert log.read(offset, max_bytes=1) == [holder[offset]]


def test_a_seek_in_a_large_segment_hops_from_where_it_knows() -> None:
    """Offsets far into a segment are found before and after their surroundings were read."""
    with DirectoryLog.open(real_log("kraft-large")) as log:
        for offset in (70_000, 35_000, 10, 71_000):
            batch = log.read(offset, max_bytes=1)[0]
            assert batch.base_offset <= offset < batch.end_offset
        whole = read_batches(log)
        for offset in (70_000, 35_000, 10, 71_000):
            batch = next(batch for batch in whole if batch.end_offset > offset)
            assert log.read(offset, max_bytes=1) == [batch]


@pytest.mark.parametrize("max_bytes", [1, 100, 5_000, 1_000_000])
def test_a_read_is_bounded_and_never_empty(max_bytes: int) -> None:
    """A read returns at most ``max_bytes`` of batches, or one batch; together they are the same log."""
    with DirectoryLog.open(real_log("kraft-trimmed")) as log:
        whole = read_batches(log)
        offset, pieces = log.start_offset(), []
        while offset < log.high_watermark():
            read = log.read(offset, max_bytes=max_bytes)
            assert len(read) == 1 or sum(batch.size_bytes for batch in read) <= max_bytes
            pieces += read
            offset = read[-1].end_offset
    assert pieces == whole


def test_a_trimmed_log_starts_where_its_first_segment_does() -> None:
    """The start is the first segment's base offset; below it, and beyond the end, is out of range."""
    with DirectoryLog.open(real_log("kraft-trimmed")) as log:
        assert (log.start_offset(), log.high_watermark()) == (1675, 2054)
        assert log.read(2054) == []
        for offset in (0, 1674, 2055):
            with pytest.raises(OffsetOutOfRangeError) as caught:
                log.read(offset)
            assert (caught.value.offset, caught.value.start, caught.value.end) == (offset, 1675, 2054)


def test_a_brokers_high_watermark_is_a_guess_and_says_so() -> None:
    """Without a high-watermark file the last complete batch counts as committed."""
    with DirectoryLog.open(real_log("kraft-small")) as log:
        assert log.uncommitted_from is not None
        assert log.high_watermark() == 281


def test_leftovers_and_indexes_are_ignored(small: Path) -> None:
    """Only names of segments and checkpoints count."""
    before = read_path(small)
    segment = segment_path(small, 0).read_bytes()
    for name in (
        "00000000000000000300.log.deleted",
        "00000000000000000300.log.cleaned",
        "00000000000000000300.log.swap",
        "00000000000000000300.index",
        "00000000000000000300.timeindex",
        "00000000000000000300.txnindex",
        "00000000000000000300.snapshot",
        "00000000000000000300-0000000001.checkpoint.part",
        "00000000000000000300-0000000001.checkpoint.deleted",
        "300.log",
        "remote_log_snapshot.tmp",
    ):
        (small / name).write_bytes(segment)
    assert read_path(small) == before


def test_checkpoints_are_listed() -> None:
    """Kafka's snapshots come with the offset and epoch of their names, oldest first."""
    directory = real_log("kraft-small")
    with DirectoryLog.open(directory) as log:
        assert log.checkpoints() == [
            CheckpointId(end, 1, directory / f"{end:020}-0000000001.checkpoint")
            for end in (99, 153, 208, 264)
        ]


def test_a_brokers_log_belongs_to_its_cluster(small: Path) -> None:
    """Cluster id from the log.dir's meta.properties, topic id from partition.metadata."""
    with DirectoryLog.open(small) as log:
        assert log.identity == LogIdentity("aclogFixtureCluster001", METADATA_TOPIC_ID)
    linked = small.parent.parent / "link"
    linked.symlink_to(small)
    with DirectoryLog.open(linked, cluster_id="aclogFixtureCluster001") as log:
        assert log.identity.cluster_id == "aclogFixtureCluster001"
    with pytest.raises(LogError, match="belongs to cluster aclogFixtureCluster001, not to other"):
        DirectoryLog.open(small, cluster_id="other")


def test_a_log_copied_out_of_its_log_dir_is_itself(tmp_path: Path) -> None:
    """Without meta.properties two copies of one log are the same log, copies of two logs are not."""
    identities = []
    for copy, name in (("a", "kraft-small"), ("b", "kraft-small"), ("c", "kraft-trimmed")):
        with DirectoryLog.open(shutil.copytree(real_log(name), tmp_path / copy)) as log:
            identities.append(log.identity)
    first, second, other = identities
    assert first == second
    assert first.cluster_id.startswith("unknown-")
    assert other.cluster_id != first.cluster_id
    with DirectoryLog.open(tmp_path / "a", cluster_id="given") as log:
        assert log.identity == LogIdentity("given", METADATA_TOPIC_ID)


@pytest.mark.parametrize(
    ("file", "text", "match"),
    [
        ("partition.metadata", "version: 7\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version 7 is not known"),
        ("partition.metadata", "version: 0\ntopic_id: x", "is not a Kafka id"),
        ("partition.metadata", "", "version None"),
        ("../meta.properties", "cluster.id=\\u12", "not a properties file"),
    ],
)
def test_an_identity_that_makes_no_sense_is_corrupt(small: Path, file: str, text: str, match: str) -> None:
    """A damaged file that says which log it is stops the opening and is named."""
    (small / file).write_text(text)
    with pytest.raises(LogCorruptError, match=match) as caught:
        DirectoryLog.open(small)
    assert Path(file).name in str(caught.value)


def test_a_missing_hole_shows_as_a_jump(tmp_path: Path) -> None:
    """Offsets that are missing, between segments or inside one, show in ``base_offset``."""
    write_segment(tmp_path, 5, batch_bytes(5, 2), batch_bytes(7))
    write_segment(tmp_path, 10, batch_bytes(10), batch_bytes(14, 2))
    with DirectoryLog.open(tmp_path) as log:
        assert offsets_of(read_batches(log)) == [5, 6, 7, 10, 14, 15]
        assert [batch.base_offset for batch in log.read(8)] == [10, 14]
        assert log.read(12)[0].base_offset == 14
        assert log.read(9)[0].base_offset == 10


def test_overlapping_segments_are_corrupt(tmp_path: Path) -> None:
    """A segment that reaches into the next one names its file and the byte; what precedes is read."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 2), batch_bytes(2, 3))
    write_segment(tmp_path, 4, batch_bytes(4))
    batches, error = read_until_error(DirectoryLog.open(tmp_path))
    assert offsets_of(batches) == [0, 1]
    assert isinstance(error, LogCorruptError)
    assert str(error).startswith(f"{path}: byte {len(batch_bytes(0, 2))}: the batch at offset 2 ends at 5")


def test_decreasing_offsets_are_corrupt(tmp_path: Path) -> None:
    """A batch whose offsets were there before names its file and byte; what precedes is read."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 3), batch_bytes(2, 2), batch_bytes(4))
    batches, error = read_until_error(DirectoryLog.open(tmp_path))
    assert offsets_of(batches) == [0, 1, 2]
    assert isinstance(error, LogCorruptError)
    assert f"{path}: byte {len(batch_bytes(0, 3))}: the batch at offset 2 after offset 2" in str(error)


def test_reading_from_within_a_hole(tmp_path: Path) -> None:
    """What one read of the file gives may end behind the batch before the hole, within the next one."""
    before, after = batch_bytes(0, 2), batch_bytes(7, 5)
    write_segment(tmp_path, 0, before, after)
    with DirectoryLog.open(tmp_path) as log:
        for max_bytes in (1, len(before) + 1, len(before) + 100, 10_000):
            assert offsets_of(log.read(4, max_bytes=max_bytes)) == [7, 8, 9, 10, 11]


def test_a_base_offset_that_jumps_over_its_follower_is_corrupt(tmp_path: Path) -> None:
    """The CRC does not cover the base offset: one that is too large is not taken for a hole."""
    damaged = (100).to_bytes(8, "big") + batch_bytes(1)[8:]
    write_segment(tmp_path, 0, batch_bytes(0), damaged, batch_bytes(2), batch_bytes(3))
    batches, error = read_until_error(DirectoryLog.open(tmp_path))
    assert offsets_of(batches) == [0]
    assert isinstance(error, LogCorruptError)
    assert "the batch at offset 100 is followed by one at 2" in str(error)


@pytest.mark.parametrize(("at", "value"), [(22, 0x10), (50, 0xFE)], ids=["transactional", "producer id"])
def test_a_producers_batch_is_not_understood(tmp_path: Path, at: int, value: int) -> None:
    """It has no place in a metadata log: it is an error at its offset, never skipped."""
    header = bytearray(batch_bytes(2))
    header[at] = value
    header[17:21] = crc_of(bytes(header))
    write_segment(tmp_path, 0, batch_bytes(0, 2), bytes(header), batch_bytes(3))
    batches, error = read_until_error(DirectoryLog.open(tmp_path))
    assert offsets_of(batches) == [0, 1]
    assert isinstance(error, DecodeError)
    assert (error.offset, error.position) == (2, len(batch_bytes(0, 2)))
    assert "producer" in error.reason


def crc_of(batch: bytes) -> bytes:
    import google_crc32c  # noqa: PLC0415

    return int(google_crc32c.value(batch[21:])).to_bytes(4, "big")


def test_an_undecodable_record_stops_the_log_before_it(tmp_path: Path) -> None:
    """A batch with a record that cannot be decoded: those before it first, then the error with its place."""
    bad = encode_batch(
        [encode_frame(acl(1)), b"\x01\x12\x63"], base_offset=1, epoch=1, timestamp_ms=TIMESTAMP_MS
    )
    path = write_segment(tmp_path, 0, batch_bytes(0), bad, batch_bytes(3))
    log = DirectoryLog.open(tmp_path)
    batches, error = read_until_error(log)
    assert_holds_acls(batches, 0, 1)
    assert isinstance(error, DecodeError)
    assert (error.source, error.offset) == (str(path), 2)
    assert error.position is not None
    assert len(batch_bytes(0)) < error.position < len(batch_bytes(0)) + len(bad)
    with pytest.raises(DecodeError):
        log.read(1)
    assert_holds_acls(log.read(3), 3, 4)


def test_a_closed_segment_with_a_truncated_end_is_an_error(tmp_path: Path) -> None:
    """Only the last segment may be unfinished: no process writes to the others."""
    whole = batch_bytes(1)
    write_segment(tmp_path, 0, batch_bytes(0), whole[:-1])
    write_segment(tmp_path, 2, batch_bytes(2))
    batches, error = read_until_error(DirectoryLog.open(tmp_path))
    assert offsets_of(batches) == [0]
    assert isinstance(error, DecodeError)
    assert error.position == len(batch_bytes(0))


def test_an_empty_last_segment_ends_the_log(tmp_path: Path) -> None:
    """A segment that was just begun: the log ends at its base offset."""
    write_segment(tmp_path, 0, batch_bytes(0, 3))
    write_segment(tmp_path, 3)
    with DirectoryLog.open(tmp_path) as log:
        assert log.high_watermark() == 3
        assert_holds_acls(read_batches(log), 0, 3)
        assert log.read(3) == []


def test_a_log_without_batches_is_empty(tmp_path: Path) -> None:
    """As a follower that just fetched a snapshot leaves it: one empty segment, at any offset."""
    write_segment(tmp_path, 42)
    with DirectoryLog.open(tmp_path) as log:
        assert (log.start_offset(), log.high_watermark(), log.read(42)) == (42, 42, [])


@pytest.mark.parametrize(
    "url", ["file:{0}", "file://{0}", "file://localhost{0}", "{0}", "file:{0}/../__cluster_metadata-0"]
)
def test_a_directory_has_many_urls(url: str, small: Path) -> None:
    """file: with a path as it is, a file URL, and a plain path open the same log; ``url`` is as given."""
    given = url.format(small)
    with open_log(given) as log:
        assert log.url == given
        assert log.high_watermark() == 281


def test_only_file_urls_are_unescaped(tmp_path: Path) -> None:
    """``file:DIR`` takes a percent sign as it is, ``file:///DIR`` as an escape."""
    write_segment(tmp_path / "a%20b", 1)
    write_segment(tmp_path / "a b", 2)
    with DirectoryLog.open(f"file:{tmp_path}/a%20b") as log:
        assert log.start_offset() == 1
    with DirectoryLog.open(f"file://{tmp_path}/a%20b") as log:
        assert log.start_offset() == 2


def test_a_relative_path_is_meant_from_here_and_now(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change of the working directory does not move the log."""
    monkeypatch.chdir(small)
    with DirectoryLog.open("file:.") as log:
        monkeypatch.chdir(tmp_path)
        assert log.high_watermark() == 281
        assert log.directory == small


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("kraft://broker", "is not HOST:PORT"),
        ("kraft://broker:9093/topic", "without a name"),
        ("http://example.com/log", "is not the URL of a log"),
        ("file://elsewhere/log", "not a local directory"),
        ("file:", "needs a directory"),
        ("", "needs a directory"),
    ],
)
def test_other_urls_say_what_is_wrong(url: str, match: str) -> None:
    """An address that cannot be a directory is an error that says so."""
    with pytest.raises(LogError, match=match):
        open_log(url)


def test_a_missing_log_is_not_found(tmp_path: Path, small: Path) -> None:
    """No directory, no segments in it, or a broker's log.dir instead of its metadata log."""
    with pytest.raises(LogNotFoundError, match="nowhere"):
        DirectoryLog.open(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogNotFoundError, match="no segments"):
        DirectoryLog.open(tmp_path / "empty")
    with pytest.raises(LogNotFoundError, match=r"did you mean .*__cluster_metadata-0"):
        DirectoryLog.open(small.parent)
    file = segment_path(small, 0)
    with pytest.raises(LogStorageError, match="Not a directory") as caught:
        DirectoryLog.open(file)
    assert str(file) in str(caught.value)


def test_a_log_opened_to_read_takes_nothing(small: Path) -> None:
    """Appending to it is refused, before anything is encoded."""
    with DirectoryLog.open(small) as log, pytest.raises(LogReadOnlyError, match="opened to read"):
        log.append([acl(0)])


def test_a_closed_log_says_so(small: Path) -> None:
    """Every use of a closed log but closing it again is an error; a wait ends."""
    log = DirectoryLog.open(small)
    log.close()
    log.close()
    for use in (log.high_watermark, log.start_offset, log.checkpoints, lambda: log.read(0)):
        with pytest.raises(LogError, match="closed"):
            use()
    assert not log.wait(281, 10)
