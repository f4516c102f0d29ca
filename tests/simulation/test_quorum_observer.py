"""An observer of a simulated quorum publishes only states of the log, under any faults.

Faults: elections, stale leaders, batches that are never committed, snapshots that
trim the log, missing controllers, clocks that jump, connections that end anywhere, and invalid
answers.
`ACLOG_QUORUM_RUNS` is the number of seeds.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import pytest

from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.errors import AclogError, LogError
from records.log.quorum import QuorumLog, session
from replay.clock import SystemClock
from replay.loader import Loader
from replay.manifest import LoaderManifest
from replay.publishers import FaultHandler
from replay.snapshot_source import CheckpointFiles
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.example_counts import examples
from support.sim_quorum import CLUSTER_ID, SimQuorum
from support.sim_quorum import Node as SimNode

RUNS = int(os.environ.get("ACLOG_QUORUM_RUNS", examples(gate=100, deep=600)))
STEPS_MIN, STEPS_MAX = 4, 30
TURNS_MAX = 300
TAMPERED_RUNS, READS = 60, 12
YEAR_MS = 365 * 86_400_000


class Witness:
    """Compares each published image with the committed states of the quorum."""

    name = "witness"

    def __init__(self, quorum: SimQuorum) -> None:
        self.quorum = quorum
        self.end_offset = 0
        self.decreases = 0

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        end_offset = image.provenance.end_offset
        assert end_offset in self.quorum.digests, f"{end_offset} is no end of a committed batch"
        assert image.digest == self.quorum.digests[end_offset], end_offset
        self.decreases += end_offset < self.end_offset
        self.end_offset = end_offset

    def on_ready(self) -> None:
        """Nothing to do."""

    def on_not_ready(self, reason: str) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class JumpingClock(SystemClock):
    """A wall clock that sometimes jumps by up to a year."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._ahead_ms = 0

    def now_ms(self) -> int:
        if self._chance.random() < 0.1:
            self._ahead_ms = self._chance.randint(-YEAR_MS, YEAR_MS)
        return super().now_ms() + self._ahead_ms


class UnexpectedFault(BaseException):
    """A fault that no test expects; not an Exception, so that no handler catches it."""


class RaisingFaultHandler(FaultHandler):
    def handle(self, part: str, message: str, error: Exception) -> bool:
        raise UnexpectedFault(f"{part}: {message}") from error


class Follow(Protocol):
    """Start a node on a quorum with the addresses of these controllers; by default all."""

    def __call__(
        self, quorum: SimQuorum, controllers: Sequence[int] = ...
    ) -> tuple[QuorumLog, Loader, Witness]: ...


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Follow:
    """A node that the test iterates; nothing waits for a clock."""
    monkeypatch.setattr(session, "_PAUSE_MIN_S", 0.0)
    monkeypatch.setattr(session, "_PAUSE_MAX_S", 0.0)
    monkeypatch.setattr(session, "LEADER_TIMEOUT_S", 0.02)
    monkeypatch.setattr("records.log.quorum.log.LEADER_TIMEOUT_S", 0.0)
    monkeypatch.setattr("records.log.quorum.log._FRESH_S", 0.0)
    monkeypatch.setattr("records.log.quorum.log._POLL_INTERVAL_S", 0.0)

    def started(
        quorum: SimQuorum, controllers: Sequence[int] = (0, 1, 2)
    ) -> tuple[QuorumLog, Loader, Witness]:
        monkeypatch.setattr("records.log.protocol.connection.socket.create_connection", quorum.connect)
        names = ",".join(str(quorum.nodes[number].address) for number in controllers)
        log, witness = QuorumLog.open(f"kraft://{names}", lazily=True), Witness(quorum)
        clock = JumpingClock(quorum.committed)
        sources = [CheckpointFiles(log)]
        return log, Loader(log, sources, [witness], fault_handler=RaisingFaultHandler(), clock=clock), witness

    return started


def run_to_the_end(quorum: SimQuorum, loader: Loader, witness: Witness) -> None:
    for _ in range(TURNS_MAX):
        loader.iterate()
        if loader.status().ready and witness.end_offset == quorum.committed:
            return
    pytest.fail(f"never at {quorum.committed}: {loader.status()}")


@pytest.mark.parametrize("seed", [pytest.param(range(each, RUNS, 4), id=f"{each}") for each in range(4)])
def test_only_committed_states_are_published(seed: range, follow: Follow) -> None:
    """In all runs published offsets never decrease, and after the last fault all records are applied."""
    for each in seed:
        quorum = SimQuorum(each, fetch_version=17 + each % 2)
        chance = random.Random(each)
        log, loader, witness = follow(quorum)
        try:
            for _ in range(chance.randint(STEPS_MIN, STEPS_MAX)):
                quorum.faults = chance.choice([0.0, 0.0, 0.1, 0.5])
                for _ in range(chance.randint(0, 4)):
                    quorum.happen()
                loader.iterate()
                if chance.random() < 0.3:
                    with suppress(LogError):  # the next iteration reports it
                        log.wait(loader.status().position, 0.0005)
            quorum.settle()
            run_to_the_end(quorum, loader, witness)
        except BaseException:
            print(f"seed {each}")
            raise
        finally:
            log.close()
        assert witness.decreases == 0, f"seed {each}"


def leader_of(quorum: SimQuorum) -> SimNode:
    return next(node for node in quorum.nodes if node.leader == node.id)


def committed_by(quorum: SimQuorum, batches: int) -> None:
    for _ in range(batches):
        quorum.write()
    quorum.settle()


def test_a_truncated_history_is_reloaded(follow: Follow) -> None:
    """A cluster restored from a backup: its log is truncated and continued, which the node reports (I11)."""
    quorum = SimQuorum(1)
    committed_by(quorum, 20)
    log, loader, witness = follow(quorum)
    with log:
        run_to_the_end(quorum, loader, witness)
        quorum.lose(sorted(quorum.digests)[5])
        committed_by(quorum, 40)
        run_to_the_end(quorum, loader, witness)
    assert loader.metrics.reloads >= 1


def test_an_observer_behind_a_trimmed_log_loads_the_snapshot(follow: Follow) -> None:
    """It loads the leader's snapshot and continues; so does a new observer."""
    quorum = SimQuorum(2)
    committed_by(quorum, 5)
    log, loader, witness = follow(quorum)
    with log:
        run_to_the_end(quorum, loader, witness)
        committed_by(quorum, 20)
        quorum.take_snapshot(trims=True)
        committed_by(quorum, 5)
        run_to_the_end(quorum, loader, witness)
        assert loader.metrics.snapshots_loaded == 1
        assert witness.decreases == 0
    log, loader, witness = follow(quorum)
    with log:
        run_to_the_end(quorum, loader, witness)
        assert loader.metrics.snapshots_loaded == 1


def test_an_unroutable_leader_is_named_and_the_next_one_is_found(follow: Follow) -> None:
    """KAFKA-20514: no busy loop, an error that names it, and the next leader is found (KAFKA-19605)."""
    quorum = SimQuorum(3)
    committed_by(quorum, 3)
    leader = leader_of(quorum)
    quorum.unroutable = {leader.id}
    log, loader, witness = follow(quorum)
    with log:
        for _ in range(3):
            loader.iterate()
        # The error of the last attempt: at a controller that does not lead, or at the leader.
        assert re.search("no leader could be asked|cannot connect", str(loader.status().error))
        quorum.unroutable = set()
        run_to_the_end(quorum, loader, witness)


def test_the_loss_of_the_configured_controller_does_not_matter(follow: Follow) -> None:
    """The observer knows the other controllers from an earlier answer."""
    quorum = SimQuorum(4)
    committed_by(quorum, 3)
    log, loader, witness = follow(quorum, controllers=(0,))
    with log:
        run_to_the_end(quorum, loader, witness)
        quorum.unroutable = {0}
        committed_by(quorum, 3)
        while leader_of(quorum).id == 0:
            quorum.settle()
        run_to_the_end(quorum, loader, witness)


def test_a_controller_that_has_just_started_is_skipped(follow: Follow) -> None:
    """It does not know its cluster id yet: another controller does; if none does, the error says so."""
    quorum = SimQuorum(5)
    committed_by(quorum, 3)
    quorum.starting = {0, 1, 2}
    log, loader, witness = follow(quorum)
    with log:
        loader.iterate()
        assert "UNSUPPORTED_VERSION): it has just started" in str(loader.status().error)
        quorum.starting = {0, 1}
        with QuorumLog.open(log.url) as opened:
            assert opened.identity.cluster_id == CLUSTER_ID
        run_to_the_end(quorum, loader, witness)


def test_any_bytes_give_an_error_or_a_record_of_the_log(follow: Follow) -> None:
    """Answers with changed or random bytes: no hang, and no record that the log does not have.

    As in Kafka, the checksum does not cover a batch's offset; TCP and TLS protect it.
    """
    read, refused = 0, 0
    for seed in range(TAMPERED_RUNS):
        quorum, chance = SimQuorum(seed, fetch_version=17 + seed % 2), random.Random(seed)
        committed_by(quorum, 6)
        leader = leader_of(quorum)
        written = {record for batch in leader.log for record in batch.records}

        def tampered(frame: bytes, chance: random.Random = chance) -> bytes:
            damaged = bytearray(frame)
            if chance.random() < 0.2:
                return chance.randbytes(chance.randint(0, 60))
            for _ in range(chance.choice((0, 0, 1, 3))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            return bytes(damaged)

        quorum.tamper = tampered
        log, _, _ = follow(quorum)
        with log:
            offset = 0
            for _ in range(READS):
                try:
                    batches = log.read(offset)
                except AclogError:
                    refused += 1
                    continue
                for batch in batches:
                    found = {logged.record for logged in batch.records if is_acl(logged.record)}
                    assert found <= written, f"seed {seed}"
                    read += len(found)
                offset = batches[-1].end_offset if batches else offset
    assert read > TAMPERED_RUNS
    assert refused > TAMPERED_RUNS


def is_acl(record: object) -> bool:
    return isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord)
