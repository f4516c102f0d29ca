"""Managed logs: creating, appending, rolling, locking, and permissions to write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from records.entries import MetadataRecord, OtherRecord
from records.errors import (
    EncodeError,
    LogCorruptError,
    LogError,
    LogLockedError,
    LogMovedError,
    LogNotFoundError,
    LogReadOnlyError,
    OffsetOutOfRangeError,
)
from records.ids import METADATA_TOPIC_ID, uuid_to_string
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from records.log.directory.high_watermark import (
    HighWatermarkRecorder,
    create_high_watermark,
    read_high_watermark,
)
from records.log.directory.identity import random_id, write_owner
from records.log.open import open_log
from support.data import real_log
from support.directory_logs import (
    acl,
    acls,
    append_bytes,
    assert_holds_acls,
    batch_bytes,
    read_batches,
    read_path,
    segment_path,
    write_segment,
)
from support.waiting import wait_until

MODES = ("write", "create")


def segment_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.log"))


def tree(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def create(directory: Path, **options: object) -> DirectoryLog:
    return DirectoryLog.open(directory, mode="create", **options)  # type: ignore[arg-type]


def test_appended_records_are_read(tmp_path: Path) -> None:
    """Appends return their ends; the writer, a reader beside it and one after it read the same."""
    with create(tmp_path / "log") as log:
        assert (log.start_offset(), log.high_watermark(), log.read(0)) == (0, 0, [])
        assert log.append(acls(0, 3)) == 3
        assert log.append([acl(3)]) == 4
        assert log.uncommitted_from is None
        assert_holds_acls(read_batches(log), 0, 4)
        assert [(b.base_offset, b.end_offset) for b in log.read(0)] == [(0, 3), (3, 4)]
        with DirectoryLog.open(tmp_path / "log") as reader:
            assert reader.uncommitted_from is None
            assert_holds_acls(read_batches(reader), 0, 4)
            log.append([acl(4)])
            assert_holds_acls(reader.read(4), 4, 5)
    assert_holds_acls(read_path(tmp_path / "log"), 0, 5)


def test_an_empty_append_writes_no_batch(tmp_path: Path) -> None:
    """No records make no batch."""
    with create(tmp_path) as log:
        log.append([acl(0)])
        assert log.append([]) == 1
        assert log.append_batches([([], None), ([], 5)]) == 1
    assert len(read_path(tmp_path)) == 1


def test_an_append_after_another_end_offset_writes_nothing(tmp_path: Path) -> None:
    """Also of concurrent threads with a shared commit: only one of them succeeds."""
    with create(tmp_path / "log") as log:
        log.append(acls(0, 2))
        for after in (0, 1, 3):
            with pytest.raises(LogMovedError, match="nothing was written"):
                log.append([acl(2)], after=after)
        assert log.append([acl(2)], after=2) == 3

        def raced(number: int) -> bool:
            try:
                log.append([acl(number)], after=3)
            except LogMovedError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(raced, range(3, 11))) == 1
        assert log.high_watermark() == 4


def test_an_append_has_the_clocks_time_or_the_one_given(tmp_path: Path) -> None:
    """Timestamps are the clock's in milliseconds, today's by default, or an imported record's own."""
    with create(tmp_path, clock_ms=lambda: 77) as log:
        log.append([acl(0)])
        log.append([acl(1)], timestamp_ms=5)
        log.append_batches([([acl(2)], None), ([acl(3)], 6)])
        assert [batch.timestamp_ms for batch in read_batches(log)] == [77, 5, 77, 6]
    before_ms = time.time_ns() // 1_000_000
    with DirectoryLog.open(tmp_path, mode="write") as log:
        log.append([acl(4)])
        assert before_ms <= read_batches(log)[-1].timestamp_ms <= time.time_ns() // 1_000_000


def test_the_files_are_kafkas(tmp_path: Path) -> None:
    """Segment, partition.metadata and leader-epoch-checkpoint are named and written as Kafka's."""
    with create(tmp_path) as log:
        log.append(acls(0, 2))
        topic_id = uuid_to_string(log.identity.topic_id)
    assert segment_path(tmp_path, 0).exists()
    assert (tmp_path / "partition.metadata").read_text() == f"version: 0\ntopic_id: {topic_id}"
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"


def test_each_writer_begins_an_epoch(tmp_path: Path) -> None:
    """Opening for writing bumps the leader epoch; one in which nothing was written leaves no entry."""
    for count in (2, 0, 1, 0):
        with DirectoryLog.open(tmp_path, mode="create") as log:
            log.append(acls(0, count))
    assert [(b.epoch, b.base_offset) for b in read_path(tmp_path)] == [(1, 0), (3, 2)]
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n3 2\n4 3\n"


def test_each_log_is_another_one(tmp_path: Path) -> None:
    """Ids are random: deleted and created again, even under a given cluster id, is another log (I9)."""
    identities = []
    for cluster_id in (None, None, "mine", "mine"):
        with create(tmp_path / "log", cluster_id=cluster_id) as log:
            identities.append(log.identity)
        with DirectoryLog.open(tmp_path / "log") as log:
            assert log.identity == identities[-1]
        shutil.rmtree(tmp_path / "log")
    assert len(set(identities)) == 4
    assert len({identity.cluster_id for identity in identities}) == 3
    assert identities[2].cluster_id == "mine"
    assert METADATA_TOPIC_ID not in {identity.topic_id for identity in identities}


def test_a_cluster_id_of_any_letters_survives(tmp_path: Path) -> None:
    """What a properties file has to escape comes back as it was, though no such id is given any more."""
    cluster_id = " a=b:c\\#ü€ "
    write_owner(tmp_path, LogIdentity(cluster_id, random_id()))
    create(tmp_path, cluster_id=cluster_id).close()
    with DirectoryLog.open(tmp_path, cluster_id=cluster_id) as log:
        assert log.identity.cluster_id == cluster_id


def test_another_clusters_log_is_refused(tmp_path: Path) -> None:
    """A cluster id that is not the log's stops every mode, and leaves the log unlocked."""
    create(tmp_path, cluster_id="mine").close()
    for mode in ("read", "write", "create"):
        with pytest.raises(LogError, match="belongs to cluster mine, not to yours"):
            DirectoryLog.open(tmp_path, mode=mode, cluster_id="yours")
    DirectoryLog.open(tmp_path, mode="write", cluster_id="mine").close()


@pytest.mark.parametrize("cluster_id", [None, "the-same"])
def test_a_reader_notices_that_the_log_is_another_one(tmp_path: Path, cluster_id: str | None) -> None:
    """Deleted and created again under a reader: it says so instead of mixing two histories."""
    with create(tmp_path / "log", cluster_id=cluster_id) as log:
        log.append(acls(0, 2))
    with DirectoryLog.open(tmp_path / "log") as reader:
        reader.read(0)
        shutil.rmtree(tmp_path / "log")
        with create(tmp_path / "log", cluster_id=cluster_id) as log:
            log.append(acls(0, 5))
        with pytest.raises(LogError, match=r"another log|belongs to cluster"):
            reader.read(2)


def test_a_segment_is_left_when_it_is_full(tmp_path: Path) -> None:
    """A batch that would make a segment too long begins the next one, named by its offset."""
    size = 2 * len(batch_bytes(50))
    with create(tmp_path, segment_bytes=size) as log:
        for number in range(5):
            log.append([acl(number)])
        log.append(acls(5, 50))  # longer than a segment: one of its own
        log.append([acl(50)])
        assert_holds_acls(read_batches(log), 0, 51)
    assert segment_names(tmp_path) == [f"{base:020}.log" for base in (0, 2, 4, 5, 50)]
    with DirectoryLog.open(tmp_path, mode="write", segment_bytes=size) as log:
        log.append([acl(51)])
    assert segment_names(tmp_path)[-1] == f"{50:020}.log"
    assert_holds_acls(read_path(tmp_path), 0, 52)


def test_an_import_of_batches_keeps_them(tmp_path: Path) -> None:
    """Batches given together stay batches, in order, across segments."""
    batches = [(acls(start, start + 3), start) for start in range(0, 300, 3)]
    with create(tmp_path, segment_bytes=5_000) as log:
        assert log.append_batches(batches) == 300
    read = read_path(tmp_path)
    assert_holds_acls(read, 0, 300)
    assert [(b.base_offset, b.timestamp_ms) for b in read] == [(start, start) for start in range(0, 300, 3)]
    assert len(segment_names(tmp_path)) > 3


@pytest.mark.parametrize("segment_bytes", [0, -1, 2**31])
def test_a_segment_has_a_possible_size(tmp_path: Path, segment_bytes: int) -> None:
    """A size that Kafka could not read is refused."""
    with pytest.raises(ValueError, match="segment_bytes"):
        create(tmp_path, segment_bytes=segment_bytes)


def test_records_that_cannot_be_encoded_are_not_appended(tmp_path: Path) -> None:
    """A record the format cannot hold, or a batch that is too long: EncodeError, and the log is as it was."""
    with create(tmp_path) as log:
        log.append([acl(0)])
        unknown: list[MetadataRecord] = [acl(1), OtherRecord(2, 1)]
        too_long: list[MetadataRecord] = [msgspec.structs.replace(acl(1), resource_name="x" * 30_000)] * 300
        for records in (unknown, too_long):
            with pytest.raises(EncodeError):
                log.append(records)
            with pytest.raises(EncodeError):
                log.append_batches([([acl(1)], None), (records, None)])
        assert log.high_watermark() == 1
        assert log.append([acl(1)]) == 2
    assert_holds_acls(read_path(tmp_path), 0, 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_second_writer_is_refused(tmp_path: Path, mode: str) -> None:
    """The error names the directory and the writing process; readers need no lock."""
    log = create(tmp_path)
    with pytest.raises(LogLockedError) as caught:
        DirectoryLog.open(tmp_path, mode=mode)  # type: ignore[arg-type]
    assert str(tmp_path) in str(caught.value)
    assert f"process {os.getpid()}" in str(caught.value)
    DirectoryLog.open(tmp_path).close()
    log.append([acl(0)])
    log.close()
    DirectoryLog.open(tmp_path, mode=mode).close()  # type: ignore[arg-type]


def test_a_writer_in_another_process_is_named(tmp_path: Path) -> None:
    """The lock holds across processes, and is free when its holder was killed."""
    script = (
        "import sys, time\n"
        "from records.log.directory import DirectoryLog\n"
        "log = DirectoryLog.open(sys.argv[1], mode='create')\n"
        "print('open', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(LogLockedError, match=f"process {holder.pid}"):
                DirectoryLog.open(tmp_path, mode="write")
        finally:
            holder.kill()
    DirectoryLog.open(tmp_path, mode="write").close()


def test_a_failed_opening_gives_the_lock_back(tmp_path: Path) -> None:
    """After an error while opening, the next opening does not meet a lock."""
    create(tmp_path).close()
    damaged = tmp_path / "leader-epoch-checkpoint"
    whole = damaged.read_text()
    damaged.write_text("0\n7\n")
    with pytest.raises(LogCorruptError, match="leader epoch"):
        DirectoryLog.open(tmp_path, mode="write")
    damaged.write_text(whole)
    DirectoryLog.open(tmp_path, mode="write").close()


@pytest.mark.parametrize("mode", MODES)
def test_a_brokers_directory_is_never_written_to(tmp_path: Path, mode: str) -> None:
    """Without aclog's mark a log can only be read; not a byte of it changes, not even a lock file is left."""
    directory = shutil.copytree(real_log("kraft-small"), tmp_path / "log")
    before = tree(directory)
    with pytest.raises(LogReadOnlyError, match=r"a broker's log can only be read"):
        DirectoryLog.open(directory, mode=mode)  # type: ignore[arg-type]
    assert tree(directory) == before


def test_writing_needs_a_log(tmp_path: Path) -> None:
    """Mode ``write`` makes nothing: neither where nothing is, nor in an empty directory."""
    for directory in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LogNotFoundError, match="there is no log to write to"):
            DirectoryLog.open(directory, mode="write")
    assert not list(tmp_path.iterdir())


def test_creating_spares_what_is_there(tmp_path: Path) -> None:
    """A directory that holds something else does not become a log, and stays as it is."""
    (tmp_path / "thesis.tex").write_text("do not lose this")
    with pytest.raises(LogError, match=r"not empty and not a log \(it holds thesis.tex\)"):
        create(tmp_path)
    assert tree(tmp_path) == {"thesis.tex": b"do not lose this"}


def test_creating_makes_the_way_there(tmp_path: Path) -> None:
    """Missing parents are made; what a new file system has in it does not count."""
    (tmp_path / "lost+found").mkdir()
    create(tmp_path).close()
    create(tmp_path / "a" / "b" / "c").close()
    assert read_path(tmp_path / "a" / "b" / "c") == []


def test_readers_do_not_see_uncommitted_records(tmp_path: Path) -> None:
    """Bytes after the high watermark are not visible, even if they are complete."""
    with create(tmp_path) as log:
        log.append(acls(0, 2))
        append_bytes(segment_path(tmp_path, 0), batch_bytes(2), batch_bytes(3)[:40])
        for reader in (log, DirectoryLog.open(tmp_path)):
            assert reader.high_watermark() == 2
            assert reader.read(2) == []
            assert_holds_acls(read_batches(reader), 0, 2)
            with pytest.raises(OffsetOutOfRangeError):
                reader.read(3)
        log.append([acl(2)])  # over the uncommitted bytes
        assert_holds_acls(read_batches(log), 0, 3)


def test_missing_records_below_the_high_watermark_are_an_error(tmp_path: Path) -> None:
    """A reader of a managed log that was cut below its acknowledged end reports an error."""
    with create(tmp_path) as log:
        log.append(acls(0, 2))
        log.append(acls(2, 4))
    os.truncate(segment_path(tmp_path, 0), len(batch_bytes(0, 2)))
    with DirectoryLog.open(tmp_path) as log:
        assert log.high_watermark() == 4
        assert_holds_acls(log.read(0), 0, 2)
        with pytest.raises(
            LogCorruptError, match="ends at offset 2, but everything below 4 was acknowledged"
        ):
            log.read(2)


def test_missing_offsets_in_a_managed_log_are_an_error(tmp_path: Path) -> None:
    """A managed log is never trimmed or compacted: a jump is damage."""
    with create(tmp_path, segment_bytes=1) as log:
        for number in range(4):
            log.append([acl(number)])
    segment_path(tmp_path, 2).unlink()
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0, max_bytes=1), 0, 1)
        assert_holds_acls(log.read(1, max_bytes=1), 1, 2)
        with pytest.raises(LogCorruptError, match="leaves out offsets from 2 on"):
            log.read(2)


def test_a_batch_across_the_high_watermark_of_a_managed_log_is_corrupt(tmp_path: Path) -> None:
    """A batch is acknowledged completely or not at all; earlier batches are read."""
    with create(tmp_path) as log:
        log.append([acl(0)])
        log.append(acls(1, 4))
    (tmp_path / "high-watermark").unlink()
    create_high_watermark(tmp_path / "high-watermark")
    recorder, _ = HighWatermarkRecorder.open(tmp_path / "high-watermark")
    recorder.record(2)
    recorder.close()
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0), 0, 1)
        with pytest.raises(LogCorruptError, match="offset 1 ends at 4, beyond the high watermark 2"):
            log.read(1)


def test_appends_of_many_threads_share_their_syncs(tmp_path: Path) -> None:
    """Every acknowledged append is complete and at its reported offset."""
    ends: dict[int, int] = {}
    with create(tmp_path, segment_bytes=4_000) as log:

        def work(worker: int) -> None:
            for turn in range(20):
                number = worker * 1_000 + turn * 10
                ends[number] = log.append(acls(number, number + 1 + turn % 3))

        workers = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join()
    batches = read_path(tmp_path)
    assert len(batches) == 160
    for batch in batches:
        numbers = [int.from_bytes(record.record.id, "big") for record in batch.records]  # type: ignore[union-attr]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert ends.pop(numbers[0]) == batch.end_offset
    assert not ends


def test_a_wait_ends_with_the_append(tmp_path: Path) -> None:
    """A thread that waits on the writer's log is woken immediately, and released by a close."""
    with create(tmp_path) as log:
        answers: list[bool] = []

        def wait_twice() -> None:
            answers.append(log.wait(0, 60))
            answers.append(log.wait(1, 60))

        waiter = threading.Thread(target=wait_twice)
        waiter.start()
        log.append([acl(0)])
        wait_until(lambda: answers)
        assert answers == [True]
        assert not log.wait(1, 0.01)
    waiter.join(30)
    assert answers == [True, False]


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    """An append to a closed log is refused."""
    log = create(tmp_path)
    log.close()
    log.close()
    with pytest.raises(LogError, match="closed"):
        log.append([acl(0)])
    assert read_path(tmp_path) == []


def test_the_high_watermark_file_is_as_documented(tmp_path: Path) -> None:
    """Two lines of 30 bytes: 20 digits, their CRC-32C in hex; the greater one counts."""
    with create(tmp_path) as log:
        log.append(acls(0, 7))
        log.append(acls(7, 9))
    lines = (tmp_path / "high-watermark").read_text().splitlines(keepends=True)
    assert sorted(line[:21] for line in lines) == [f"{7:020} ", f"{9:020} "]
    assert {len(line) for line in lines} == {30}
    assert read_high_watermark(tmp_path / "high-watermark") == 9


def test_any_kind_of_log_opens_by_url(tmp_path: Path) -> None:
    """open_log passes the mode on."""
    log = open_log(f"file:{tmp_path}/log", mode="create")
    assert log.append([acl(0)]) == 1
    log.close()
    with pytest.raises(LogReadOnlyError):
        open_log(f"file:{tmp_path}/log").append([acl(1)])


def test_a_managed_log_without_its_high_watermark_can_be_read(tmp_path: Path) -> None:
    """Like a broker's log: up to the last complete batch, marked as a guess. It is not written to."""
    with create(tmp_path) as log:
        log.append(acls(0, 2))
    (tmp_path / "high-watermark").unlink()
    with DirectoryLog.open(tmp_path) as log:
        assert log.uncommitted_from is not None
        assert_holds_acls(read_batches(log), 0, 2)
    with pytest.raises(LogCorruptError, match="it is unknown what was committed"):
        DirectoryLog.open(tmp_path, mode="write")


def test_a_foreign_segment_beside_nothing_is_a_brokers(tmp_path: Path) -> None:
    """One segment suffices to make a directory the log of a broker."""
    write_segment(tmp_path, 0)
    with pytest.raises(LogReadOnlyError):
        create(tmp_path)
