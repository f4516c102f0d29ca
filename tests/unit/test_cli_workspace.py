"""Shared code of commands: a command that wrote ends when other readers see the records."""

from __future__ import annotations

import pytest

import authorizer.cli.workspace
from authorizer.cli.workspace import wait_until_readable
from records.errors import LogUnreachableError


class LaggingLog:
    """A log whose high watermark is the next value, or raises it if it is an exception."""

    def __init__(self, *looks: int | Exception) -> None:
        self.looks = list(looks)

    def high_watermark(self) -> int:
        found = self.looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def open_transaction(self) -> str | None:
        return None


def test_a_command_waits_for_the_commit_marker() -> None:
    """It does not wait for later records."""
    log = LaggingLog(3, 3, 5, 9)
    wait_until_readable(log, 5)  # type: ignore[arg-type] # the used part of a log
    assert log.looks == [9]


def test_a_lost_cluster_does_not_fail_a_committed_write() -> None:
    """The command reports the commit."""
    log = LaggingLog(3, LogUnreachableError("away"), 9)
    wait_until_readable(log, 5)  # type: ignore[arg-type] # the used part of a log
    assert log.looks == [9]


def test_the_wait_for_a_marker_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing marker is a fault of the cluster, not of the command."""
    monkeypatch.setattr(authorizer.cli.workspace, "_READABLE_TIMEOUT_S", 0.0)
    log = LaggingLog(3, 3)
    wait_until_readable(log, 5)  # type: ignore[arg-type] # the used part of a log
    assert log.looks == [3]
