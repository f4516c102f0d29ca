"""A reader of an idle directory log: few complete checks, and every change is found by the next one."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from records.log.directory import DirectoryLog
from records.log.directory.files import Listing, QuietFiles, list_directory
from support.directory_logs import acls
from support.waiting import wait_until


class Checks:
    """A clock, and the result of one check of a file at its time."""

    def __init__(self, path: Path) -> None:
        self.now_s = 100.0
        self._files, self._path = QuietFiles(lambda: self.now_s), path

    def is_needed(self, after_s: float, *, offset: int = 5, is_changed: bool = False) -> bool:
        self.now_s += after_s
        if self._files.are_quiet(offset, [self._path]):
            return False
        if not is_changed:
            self._files.record_check()
        return True


@pytest.fixture
def checks(tmp_path: Path) -> Checks:
    path = tmp_path / "file"
    path.write_bytes(b"1")
    os.utime(path, ns=(1, 1))
    return Checks(path)


def test_equal_files_need_a_complete_check_each_second(checks: Checks) -> None:
    """The first one comes within a tick of the file system's clock, and does not count."""
    pauses_s = (0.0, 0.01, 0.05, 0.5, 0.49, 0.02, 0.98)
    assert [checks.is_needed(pause_s) for pause_s in pauses_s] == [
        True,
        True,
        True,
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("change", ["size", "time", "offset"])
def test_a_change_needs_a_complete_check(checks: Checks, tmp_path: Path, change: str) -> None:
    assert [checks.is_needed(pause_s) for pause_s in (0.0, 0.05, 0.05)] == [True, True, False]
    path, offset = tmp_path / "file", 5
    match change:
        case "size":
            path.write_bytes(b"12")
            os.utime(path, ns=(1, 1))
        case "time":
            os.utime(path, ns=(1, 2))
        case _:
            offset = 6
    assert checks.is_needed(0.05, offset=offset)


def test_a_check_that_found_a_change_or_failed_does_not_count(checks: Checks) -> None:
    assert [checks.is_needed(pause_s, is_changed=True) for pause_s in (0.0, 0.05, 0.05)] == [True, True, True]


@pytest.mark.parametrize("is_managed", [True, False])
def test_a_reader_of_an_idle_log_lists_it_rarely_and_finds_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_managed: bool
) -> None:
    """An append, a new segment, and a file in the directory; a broker's log has no files of aclog."""
    listings: list[Path] = []

    def counted(path: Path) -> Listing:
        listings.append(path)
        return list_directory(path)

    monkeypatch.setattr("records.log.directory.segments.list_directory", counted)
    directory = tmp_path / "log"
    with DirectoryLog.open(directory, mode="create", segment_bytes=1000) as writer:
        end = writer.append(acls(0, 1))
        if not is_managed:
            for name in ("aclog.properties", "high-watermark"):
                (directory / name).unlink()
        with DirectoryLog.open(directory) as reader:
            assert reader.is_cluster_metadata_log is not is_managed

            def is_quiet() -> bool:
                before = len(listings)
                assert not reader.wait(end, 0)
                return len(listings) == before

            segments = 1
            while segments < 3:  # an append to a segment, and to a new one
                wait_until(is_quiet)
                next_end = writer.append(acls(0, 1))
                assert reader.wait(end, 0)
                end = next_end
                segments = len(list(directory.glob("*.log")))
            wait_until(is_quiet)
            (directory / "other").touch()
            assert not is_quiet()


def test_checks_get_rarer_until_there_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second apart after a third of a second, a fifth after ten, and close after a record."""
    with DirectoryLog.open(tmp_path / "log", mode="create") as writer:
        writer.append(acls(0, 1))
    pauses_s: list[float] = []
    with DirectoryLog.open(tmp_path / "log") as log:

        def pause(pause_s: float) -> None:
            pauses_s.append(pause_s)
            log._is_closed = len(pauses_s) == 100

        monkeypatch.setattr(log._changed, "wait", pause)
        assert not log.wait(1, 600)
    after_s = dict(zip(itertools.accumulate(pauses_s), pauses_s, strict=True))
    assert pauses_s[0] == 0.002
    assert 0.1 <= next(pause_s for at_s, pause_s in after_s.items() if at_s > 0.4) < 0.12
    assert next(pause_s for at_s, pause_s in after_s.items() if at_s > 11) == max(pauses_s) == 0.2
    with DirectoryLog.open(tmp_path / "log") as log:
        log._poll_s = 0.2
        assert log.wait(0, 0)
        assert log._poll_s == 0.002
