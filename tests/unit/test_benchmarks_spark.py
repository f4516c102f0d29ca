"""The parts of the Spark benchmarks, without Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice

import pytest

from benchmarks.history import ChurnRecord, churn
from benchmarks.process_tree import (
    BROKER,
    DRIVER,
    JVM,
    TOGETHER,
    WORKERS,
    Process,
    cpu_by_role,
    cpu_s,
    parse_stat,
    resident_by_role,
    running,
)
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import UUID_BYTES, Uuid

ACLS = [
    AccessControlEntryRecord(Uuid(number.to_bytes(UUID_BYTES)), 2, f"topic-{number}", 3, "User:a", "*", 3, 3)
    for number in range(1, 301)
]


@pytest.fixture(scope="module")
def records() -> Sequence[ChurnRecord]:
    return list(islice(churn(ACLS), 10_000))


def test_a_history_is_seeded(records: Sequence[ChurnRecord]) -> None:
    """Each call gives the same records, so that figures of two runs are comparable."""
    assert list(islice(churn(ACLS), 10_000)) == records


def test_the_number_of_acls_in_force_is_constant(records: Sequence[ChurnRecord]) -> None:
    """All ACLs are added first; then additions, replacements and removals are in balance."""
    assert records[: len(ACLS)] == ACLS
    in_force: dict[Uuid, AccessControlEntryRecord] = {}
    did = {"added": 0, "replaced": 0, "removed": 0}
    for record in records:
        if isinstance(record, RemoveAccessControlEntryRecord):
            del in_force[record.id]
            did["removed"] += 1
        else:
            did["replaced" if record.id in in_force else "added"] += 1
            in_force[record.id] = record
    assert 0.9 < len(in_force) / len(ACLS) < 1.1
    assert all(count > 2_500 for count in did.values())


def test_a_name_may_hold_parentheses() -> None:
    """The text of proc_pid_stat(5) is split at the last of them."""
    line = f"7 (a) (b)) S 3 {'0 ' * 9}4 30 200 1000 {'0 ' * 6}25 0"
    cpu = 1_234 / os.sysconf("SC_CLK_TCK")
    assert parse_stat(line) == Process(7, 3, "a) (b)", 25 * os.sysconf("SC_PAGE_SIZE"), cpu)


def test_processes_are_summed_by_kind() -> None:
    """Workers are Python processes below the JVM; processes that are not below the driver do not count."""
    processes = [
        Process(10, 1, "python", 1, 0.5),
        Process(11, 10, "java", 20, 0.25),
        Process(12, 11, "python", 300, 1.0),
        Process(13, 12, "python", 4_000, 2.0),
        Process(14, 1, "java", 50_000, 4.0),
    ]
    sums = {DRIVER: 1, JVM: 20, WORKERS: 4_300, TOGETHER: 4_321}
    assert resident_by_role(10, processes) == sums
    assert cpu_s(10, processes) == 3.75
    assert cpu_by_role(10, processes) == {DRIVER: 0.5, JVM: 0.25, WORKERS: 3.0, BROKER: 0.0}


def test_running_processes_include_this_one() -> None:
    """It has a parent and uses memory."""
    here = next(process for process in running() if process.pid == os.getpid())
    assert here.parent == os.getppid()
    assert here.resident_bytes > 1_000_000
