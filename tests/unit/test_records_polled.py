"""What polls are kept in: whole answers, one batch or transaction each, whatever interrupts them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.entries import AclContent, BeginTransactionRecord
from records.errors import LogError, LogReadOnlyError, LogStorageError
from records.log.directory import DirectoryLog
from records.log.directory.writer import Writer
from records.log.open import open_log
from records.log.polled import kept as kept_module
from records.log.polled.kept import LAST_POLL_FILE, KeptLog
from records.log.polled.url import parse_polled_url
from records.log.wire.answers import DescribedAcls
from replay.load import load_image

NOW_MS = 1_700_000_000_000


def acl(name: str, operation: int = 3) -> AclContent:
    return 2, name, 3, "User:a", "*", operation, 3


def answer(acls: Iterable[AclContent]) -> DescribedAcls:
    return DescribedAcls(b"digest", list(acls))


def in_force(log: DirectoryLog) -> set[AclContent]:
    return {each.record.content for each in load_image(log).image}


@given(answers=st.lists(st.sets(st.sampled_from("abcdef")), max_size=6))
@settings(max_examples=15, deadline=None)
def test_each_answer_is_what_is_in_force(answers: list[set[str]]) -> None:
    """And a new opening goes on from there; what did not change is not written."""
    with tempfile.TemporaryDirectory() as home:
        for names in answers:
            kept = KeptLog.make(Path(home, "kept"), "cluster")
            with closing(kept):
                before, was = kept.log.high_watermark(), in_force(kept.log)
                wanted = {acl(name, 99) for name in names}
                kept.take(answer(wanted), NOW_MS)
                kept.take(answer(wanted), NOW_MS)
                kept.take(DescribedAcls(kept.digest, None), NOW_MS)
                assert in_force(kept.log) == wanted
                assert kept.log.high_watermark() - before == len(was ^ wanted)
                assert kept.answered_at_ms() == NOW_MS


def test_a_large_answer_counts_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a transaction; what is written of it by halves does not count, and the next is taken."""
    monkeypatch.setattr(kept_module, "_BATCH_BYTES", 300)
    many = [acl(f"t{number}") for number in range(20)]
    with closing(KeptLog.make(tmp_path / "kept", "cluster")) as kept:
        kept.take(answer([acl("first")]), NOW_MS)
        append = Writer.append

        def interrupted(self: Writer, batches: object, *, after: int | None = None) -> int:
            some = list(batches)[:3]  # type: ignore[call-overload]
            append(self, some, after=after)
            raise LogStorageError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(Writer, "append", interrupted)
            with pytest.raises(LogStorageError):
                kept.take(answer(many), NOW_MS)
        records = [logged.record for batch in kept.log.read(0) for logged in batch.records]
        assert any(isinstance(record, BeginTransactionRecord) for record in records)
    with closing(KeptLog.make(tmp_path / "kept", None)) as kept:
        assert in_force(kept.log) == {acl("first")}
        kept.take(answer(many), NOW_MS)
        assert in_force(kept.log) == set(many)
    with closing(KeptLog.make(tmp_path / "kept", None)) as kept:
        kept.take(answer([]), NOW_MS)
        assert in_force(kept.log) == set()


def test_one_opening_writes_and_others_read(tmp_path: Path) -> None:
    """And the next one writes when that is closed."""
    directory = tmp_path / "kept"
    with closing(KeptLog.make(directory, "cluster")) as writer:
        writer.take(answer([acl("t")]), NOW_MS)
        beside = KeptLog.find(directory)
        assert beside is not None
        with closing(beside):
            assert not beside.is_written_here
            assert in_force(beside.log) == {acl("t")}
            assert beside.answered_at_ms() == writer.answered_at_ms()
    after = KeptLog.find(directory)
    assert after is not None
    with closing(after):
        assert after.is_written_here


def test_a_directory_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """A log that people write to would lose its ACLs to the first answer."""
    with closing(DirectoryLog.open(tmp_path / "own", mode="create")) as log:
        KeptLog.make(tmp_path / "kept", "cluster").close()
        log.append([BeginTransactionRecord()])
    with pytest.raises(LogError, match=f"there is no {LAST_POLL_FILE}"):
        KeptLog.find(tmp_path / "own")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(LogError, match="not empty and not a log"):
        KeptLog.make(tmp_path / "full", "cluster")
    assert KeptLog.find(tmp_path / "nothing") is None


def test_what_a_url_says() -> None:
    where = parse_polled_url("describe://one:9092,[::1]:9093/var/lib/aclog/shop")
    assert [str(broker) for broker in where.brokers] == ["one:9092", "[::1]:9093"]
    assert where.directory == Path("/var/lib/aclog/shop")
    assert parse_polled_url("DESCRIBE://one:9092").directory is None
    with pytest.raises(LogError, match="write describe://HOST:PORT"):
        parse_polled_url("describe://nowhere")
    with pytest.raises(LogReadOnlyError, match=r"kafka-acls\.sh"):
        open_log("describe://one:9092", mode="write")
    with pytest.raises(LogError, match=r"acls\.refresh\.interval\.ms=1: a number from 100"):
        open_log("describe://one:9092", client={"acls.refresh.interval.ms": "1"})
