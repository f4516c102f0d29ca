"""The benchmarks' two sides agree, and every part of them runs; how fast is not asked here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.anchor import AnchorError
from benchmarks.arena import Arena, DecisionsDifferError
from benchmarks.cases import CASES, Case, quorum, sidecar_requests, sidecar_workers
from benchmarks.settings import Settings
from records.entries import RemoveAccessControlEntryRecord

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("benchmarks-anchor")]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """W3 with Java beside it, measured as briefly as can be."""
    cache = tmp_path_factory.mktemp("cache")
    settings = replace(
        Settings.quick(cache), rounds=1, round_s=0.01, warm_s=0.01, decisions_checked=500, log_records=500
    )
    with closing(Arena("w3", settings)) as arena:
        yield arena


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the settings do not shorten."""
    monkeypatch.setattr(quorum, "_IDLE_ROUND_S", 0.5)
    monkeypatch.setattr(sidecar_requests, "_WARM_S", 0.1)
    monkeypatch.setattr(sidecar_workers, "_WARM_S", 0.1)


@pytest.mark.long
@pytest.mark.usefixtures("short_rounds")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_prints_figures(arena: Arena, case: Case) -> None:
    """Each gives rows, each row a positive figure; but for what may be there before it is waited for."""
    rows = list(case.measure(arena))
    assert rows
    assert all(row.ours.low >= 0 for row in rows)
    assert all("returned until decided here" in row.what for row in rows if row.ours.high <= 0)


@pytest.mark.long
def test_a_different_decision_is_reported(arena: Arena) -> None:
    """Where the sides do not decide the same, there is nothing to measure."""
    taken = [acl.record for acl in arena.ours.image]
    arena.ours.publish([RemoveAccessControlEntryRecord(acl.id) for acl in taken])
    try:
        with pytest.raises(DecisionsDifferError, match=r"w3 distinct, .* decisions differ, first: User:"):
            arena.compare_decisions("distinct")
    finally:
        arena.ours.publish(taken)
    assert arena.compare_decisions("distinct") > 0


@pytest.mark.long
def test_a_failed_java_command_is_reported(arena: Arena) -> None:
    """An error of the Java side is an AnchorError here, and the process goes on."""
    with pytest.raises(AnchorError, match="no such command"):
        arena.java.tell("dance")
    with pytest.raises(AnchorError, match="NoSuchFileException"):
        arena.java.tell("read-acls", file=str(Path("/nowhere")))
    arena.give_java("zipf")
    assert len(arena.java.tell("decide", list="zipf", count=3)["results"]) == 3
