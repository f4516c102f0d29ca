"""What commands share: a command that wrote ends when others can read it."""

from __future__ import annotations

import pytest

import authorizer.cli.workspace
from authorizer.cli.workspace import wait_until_readable
from records.errors import LogUnreachableError


class Lagging:
    """A log as far as it is asked: each look at its high watermark finds, or raises, what comes next."""

    def __init__(self, *looks: int | Exception) -> None:
        self.looks = list(looks)

    def high_watermark(self) -> int:
        found = self.looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def open_transaction(self) -> str | None:
        return None


def test_it_waits_for_the_marker_of_a_commit() -> None:
    """Not longer: what is behind the end is nobody's business here."""
    log = Lagging(3, 3, 5, 9)
    wait_until_readable(log, 5)  # type: ignore[arg-type] # all that is asked of it
    assert log.looks == [9]


def test_a_cluster_that_went_away_does_not_undo_what_was_written() -> None:
    """It was committed: the command says so."""
    log = Lagging(3, LogUnreachableError("away"), 9)
    wait_until_readable(log, 5)  # type: ignore[arg-type] # all that is asked of it
    assert log.looks == [9]


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker that does not come is the cluster's matter."""
    monkeypatch.setattr(authorizer.cli.workspace, "_READABLE_TIMEOUT_S", 0.0)
    log = Lagging(3, 3)
    wait_until_readable(log, 5)  # type: ignore[arg-type] # all that is asked of it
    assert log.looks == [3]
