"""Changes asked of a simulated quorum: what is said of each is so, whatever happens to its controllers.

Elections before and after a change is appended, answers that are lost, cut or no answers at all, leaders that
do not know yet that they are none. `ACLOG_QUORUM_RUNS` says how many seeds.
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
    """Nothing waits for a clock."""
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


class Asked:
    """What should be there, by what was said; None: that was not said."""

    def __init__(self, quorum: SimControllers, writer: QuorumWriter) -> None:
        self.quorum = quorum
        self.writer = writer
        self.is_there: dict[str, bool | None] = {}
        self.removals = 0
        self.unknown = 0

    def create(self, name: str) -> bool:
        return self._ask(name, lambda: self.writer.create([acl(name)]).end_offset, there=True)

    def delete(self, name: str) -> bool:
        def ask() -> int:
            answered = self.writer.delete([(2, name, 3, None, None, 1, 1)])
            (removals,) = answered.results
            assert not isinstance(removals, Refusal)
            assert [each.acl for each in removals] in ([acl(name)], []), removals
            if self.is_there[name] is not None:
                assert bool(removals) is self.is_there[name]
            return answered.end_offset

        before = self.quorum.removals[name]
        try:
            return self._ask(name, ask, there=False)
        finally:
            assert self.quorum.removals[name] - before <= 1, name

    def _ask(self, name: str, ask: Callable[[], int], *, there: bool) -> bool:
        try:
            end_offset = ask()
        except LogOutcomeUnknownError:
            self.is_there[name] = None
            self.unknown += 1
            return False
        except LogError:
            self.is_there.setdefault(name, False)  # nothing was written
            return False
        held = {record.content for record in self.quorum.states[end_offset].values()}
        assert (acl(name) in held) is there, name
        self.is_there[name] = there
        return True


@pytest.mark.parametrize("seed", [pytest.param(range(each, RUNS, 2), id=f"{each}") for each in range(2)])
def test_what_is_said_is_so(seed: range, writer_of: Callable[[SimControllers], QuorumWriter]) -> None:
    """Done: it is below the offset that is named. Not done: never. Unknown: a removal is not done twice."""
    done = unknown = 0
    for each in seed:
        quorum, chance = SimControllers(each, fetch_version=17 + each % 2), random.Random(each)
        asked = Asked(quorum, writer_of(quorum))
        try:
            for step in range(STEPS):
                quorum.faults = chance.choice([0.0, 0.0, 0.1, 0.5])
                for _ in range(chance.randint(0, 3)):
                    quorum.happen()
                name = f"w{step}"
                if chance.random() < 0.4 and asked.is_there:
                    done += asked.delete(chance.choice(list(asked.is_there)))
                else:
                    done += asked.create(name)
            quorum.settle()
            for name, is_there in asked.is_there.items():
                held = {record.resource_name for record in quorum.states[quorum.committed].values()}
                assert is_there in (None, name in held), name
            assert any(asked.create("last") for _ in range(TRIES))
        except BaseException:
            print(f"seed {each}")
            raise
        unknown += asked.unknown
    assert done > unknown > 0
