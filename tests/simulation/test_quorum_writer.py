"""Changes of a simulated quorum: each reported outcome is true, under any faults of its controllers.

Faults: elections before and after a change is appended, answers that are lost, truncated or invalid, and
stale leaders. `ACLOG_QUORUM_RUNS` is the number of seeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from records.entries import AclContent
from records.errors import LogError, LogOutcomeUnknownError
from records.log.cluster_writer import Refusal
from records.log.quorum import QuorumLog, session
from records.log.quorum.writer import QuorumWriter
from support.example_counts import examples
from support.sim_controllers import SimControllers

RUNS = int(os.environ.get("ACLOG_QUORUM_RUNS", examples(gate=24, deep=120)))
STEPS = 40
TRIES = 500


@pytest.fixture
def writer_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[SimControllers], QuorumWriter]:
    """A writer that waits for no clock."""
    monkeypatch.setattr(session, "_PAUSE_MIN_S", 0.0)
    monkeypatch.setattr(session, "_PAUSE_MAX_S", 0.0)
    monkeypatch.setattr("records.log.quorum.writer._RETRY_INTERVAL_S", 0.0)
    for module in ("session", "writer"):
        monkeypatch.setattr(f"records.log.quorum.{module}.LEADER_TIMEOUT_S", 0.02)

    def opened(quorum: SimControllers) -> QuorumWriter:
        monkeypatch.setattr("records.log.protocol.connection.socket.create_connection", quorum.connect)
        names = ",".join(str(node.address) for node in quorum.nodes)
        writer = QuorumLog.open(f"kraft://{names}", mode="write", lazily=True).cluster_writer
        assert writer is not None
        return writer

    return opened


def acl(name: str) -> AclContent:
    return (2, name, 3, "User:w", "*", 3, 3)


class CheckedWriter:
    """Records the expected presence of each ACL by the reported outcomes; None if the outcome is unknown."""

    def __init__(self, quorum: SimControllers, writer: QuorumWriter) -> None:
        self.quorum = quorum
        self.writer = writer
        self.is_present: dict[str, bool | None] = {}
        self.removals = 0
        self.unknown = 0

    def create(self, name: str) -> bool:
        return self._check(name, lambda: self.writer.create([acl(name)]).end_offset, is_present=True)

    def delete(self, name: str) -> bool:
        def write() -> int:
            answered = self.writer.delete([(2, name, 3, None, None, 1, 1)])
            (removals,) = answered.results
            assert not isinstance(removals, Refusal)
            assert [each.acl for each in removals] in ([acl(name)], []), removals
            if self.is_present[name] is not None:
                assert bool(removals) is self.is_present[name]
            return answered.end_offset

        before = self.quorum.removals[name]
        try:
            return self._check(name, write, is_present=False)
        finally:
            assert self.quorum.removals[name] - before <= 1, name

    def _check(self, name: str, write: Callable[[], int], *, is_present: bool) -> bool:
        try:
            end_offset = write()
        except LogOutcomeUnknownError:
            self.is_present[name] = None
            self.unknown += 1
            return False
        except LogError:
            self.is_present.setdefault(name, False)  # nothing was written
            return False
        committed_acls = {record.content for record in self.quorum.states[end_offset].values()}
        assert (acl(name) in committed_acls) is is_present, name
        self.is_present[name] = is_present
        return True


@pytest.mark.parametrize("seed", [pytest.param(range(each, RUNS, 2), id=f"{each}") for each in range(2)])
def test_reported_outcomes_are_true(seed: range, writer_of: Callable[[SimControllers], QuorumWriter]) -> None:
    """Success: visible at the reported offset. Failure: never. Unknown: a removal is done at most once."""
    done = unknown = 0
    for each in seed:
        quorum, chance = SimControllers(each, fetch_version=17 + each % 2), random.Random(each)
        checked = CheckedWriter(quorum, writer_of(quorum))
        try:
            for step in range(STEPS):
                quorum.faults = chance.choice([0.0, 0.0, 0.1, 0.5])
                for _ in range(chance.randint(0, 3)):
                    quorum.happen()
                name = f"w{step}"
                if chance.random() < 0.4 and checked.is_present:
                    done += checked.delete(chance.choice(list(checked.is_present)))
                else:
                    done += checked.create(name)
            quorum.settle()
            for name, is_present in checked.is_present.items():
                committed_acls = {record.resource_name for record in quorum.states[quorum.committed].values()}
                assert is_present in (None, name in committed_acls), name
            assert any(checked.create("last") for _ in range(TRIES))
        except BaseException:
            print(f"seed {each}")
            raise
        unknown += checked.unknown
    assert done > unknown > 0
