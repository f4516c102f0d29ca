"""Ranges of a Spark job on a simulated quorum: under any faults each batch's state is one of the quorum.

Spark itself is left out: the driver plans a range, a task reads it, and the state is stored.
`ACLOG_QUORUM_RUNS` is the number of seeds.
"""

from __future__ import annotations

import os
import random
import re
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from records.errors import LogError, LogUnreachableError
from records.ids import METADATA_TOPIC_ID
from records.log.base import LogIdentity
from records.log.open import open_log
from snapshot.delta import AclsDelta
from snapshot.errors import SparkJobError
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.planning.log_states import BaseSearch, LogStates, search_bases
from snapshot.jobs.sources.log_failures import answered
from snapshot.jobs.sources.log_range import LogRange, read_ranges
from snapshot.jobs.sources.log_ranges import LogRanges, OffsetAndEpoch
from snapshot.jobs.sources.logs import FollowedLog
from snapshot.store.snapshot_store import SnapshotStore
from support.example_counts import examples
from support.nodes import SOON_S
from support.sim_quorum import CLUSTER_ID, SimQuorum

RUNS = int(os.environ.get("ACLOG_QUORUM_RUNS", examples(gate=12, deep=80)))
STEPS = 40
TURNS_MAX = 100
IDENTITY = LogIdentity(CLUSTER_ID, METADATA_TOPIC_ID)


@pytest.fixture
def url_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[SimQuorum, float], str]:
    """Connect observers to a quorum with this leader timeout; returns the URL of its log."""
    for name in (
        "session._PAUSE_MIN_S",
        "session._PAUSE_MAX_S",
        "log.LEADER_TIMEOUT_S",
        "log._FRESH_S",
        "log._POLL_INTERVAL_S",
    ):
        monkeypatch.setattr(f"records.log.quorum.{name}", 0.0)

    def url(quorum: SimQuorum, leader_timeout_s: float) -> str:
        monkeypatch.setattr("records.log.quorum.session.LEADER_TIMEOUT_S", leader_timeout_s)
        monkeypatch.setattr("records.log.protocol.connection.socket.create_connection", quorum.connect)
        return "kraft://" + ",".join(str(node.address) for node in quorum.nodes)

    return url


class Job:
    """A job with its checkpoint (``position``) and its store.

    Attributes:
        position: where the last batch ended; None before the first batch.
        starts: where each checkpoint began.
    """

    def __init__(self, quorum: SimQuorum, url: str) -> None:
        self._quorum, self._url = quorum, url
        self._store = SnapshotStore(f"memory://{uuid.uuid4().hex}")
        self.position: OffsetAndEpoch | None = None
        self.starts: list[int] = []

    def run(self, max_offsets: int | None) -> None:
        """From its start to the end of one batch."""
        states = LogStates(FollowedLog(url=self._url, identity=IDENTITY), self._store)
        try:
            if self.position is None:
                start = states.choose_start(_search(states, None), keep=3)
                self.position = OffsetAndEpoch(start, None)
                self.starts.append(self.position.offset)
            log_range = self._plan(self.position, max_offsets)
            if log_range is not None:
                self._commit(states, log_range)
        finally:
            states.close()

    def start_again(self) -> None:
        """With another checkpoint."""
        self.position = None

    def _plan(self, start: OffsetAndEpoch, max_offsets: int | None) -> LogRange | None:
        ranges = LogRanges(self._url, IDENTITY, {})
        try:
            end = ranges.next_end(start, below=ranges.high_watermark(), max_offsets=max_offsets)
        finally:
            ranges.close()
        if end == start:
            return None
        return LogRange(
            url=self._url, identity=IDENTITY, start=start.offset, end=end.offset, end_epoch=end.epoch
        )

    def _commit(self, states: LogStates, log_range: LogRange) -> None:
        state = states.next_state(_search(states, log_range.end), end_time_ms=None)
        if state is not None:
            base = AclsImage.EMPTY if state.base is None else self._store.read(state.base.ref).image
            delta = AclsDelta(base)
            ((_, batches),) = read_ranges([replace(log_range, start=base.provenance.end_offset)])
            epoch, timestamp_ms = base.provenance.epoch, 0
            for batch in batches:
                epoch, timestamp_ms = batch.epoch, batch.timestamp_ms
                for logged in batch.records:
                    if logged.offset >= base.provenance.end_offset:
                        delta.replay(logged)
            image = delta.apply(Provenance(log_range.end, epoch, timestamp_ms))
            assert image.digest == self._quorum.digests[log_range.end], log_range
            self._store.write(image, IDENTITY, log_end_time_ms=state.log_end_time_ms)
        self.position = OffsetAndEpoch(log_range.end, log_range.end_epoch)


def _search(states: LogStates, end: int | None) -> BaseSearch:
    return answered(search_bases({states: end})[states])


def committed_by(quorum: SimQuorum, batches: int) -> None:
    for _ in range(batches):
        quorum.write()
    quorum.settle()


def test_every_state_was_a_state_of_the_quorum(url_of: Callable[[SimQuorum, float], str]) -> None:
    """A job stops only if its position no longer exists; a new checkpoint begins at a snapshot."""
    for seed in range(RUNS):
        quorum, chance = SimQuorum(seed, fetch_version=17 + seed % 2), random.Random(seed)
        job = Job(quorum, url_of(quorum, 0.02))
        for step in range(STEPS + TURNS_MAX):
            if step < STEPS:
                quorum.faults = chance.choice([0.0, 0.0, 0.1, 0.5])
                for _ in range(chance.randint(0, 4)):
                    quorum.happen()
            elif step == STEPS:
                quorum.settle()
            elif job.position is not None and job.position.offset == quorum.committed:
                break
            try:
                job.run(chance.choice([None, 5]))
            except LogUnreachableError:
                continue  # there is no leader now
            except (LogError, SparkJobError) as error:
                if not re.search("another (--)?checkpoint", str(error)):
                    raise
                job.start_again()
        else:
            pytest.fail(f"seed {seed}: never at {quorum.committed}, but at {job.position}")


def test_a_job_begins_at_the_snapshot_of_the_leader(url_of: Callable[[SimQuorum, float], str]) -> None:
    """The log no longer has its start; the job then continues at its position despite a newer snapshot."""
    quorum = SimQuorum(2)
    job = Job(quorum, url_of(quorum, SOON_S))
    committed_by(quorum, 20)
    quorum.take_snapshot(trims=True)
    first = quorum.committed
    committed_by(quorum, 5)
    job.run(None)
    assert job.starts == [first]
    committed_by(quorum, 5)
    quorum.take_snapshot(trims=False)
    committed_by(quorum, 5)
    job.run(None)
    assert (job.starts, job.position and job.position.offset) == ([first], quorum.committed)
    committed_by(quorum, 5)
    quorum.take_snapshot(trims=True)
    last = quorum.committed
    committed_by(quorum, 5)
    with pytest.raises(SparkJobError, match=r"the log was trimmed: it starts at offset .*another checkpoint"):
        job.run(None)
    job.start_again()
    job.run(None)
    assert (job.starts, job.position and job.position.offset) == ([first, last], quorum.committed)


def test_the_end_is_queried_on_each_call(
    url_of: Callable[[SimQuorum, float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job's driver may report an earlier end than the process that planned a batch, and fail.

    Directly after a read it is the end of that read: a log that is always written has no gap before it.
    """
    quorum = SimQuorum(2)
    with open_log(url_of(quorum, SOON_S)) as log:
        monkeypatch.setattr("records.log.quorum.log._FRESH_S", SOON_S)
        committed_by(quorum, 5)
        assert log.high_watermark() == quorum.committed
        committed_by(quorum, 5)
        assert log.high_watermark() == quorum.committed
        log.read(0)
        read_end = quorum.committed
        committed_by(quorum, 5)
        assert [log.high_watermark(), log.high_watermark()] == [read_end, quorum.committed]
        log.read(0)
        log.end_reading()
        committed_by(quorum, 5)
        assert log.high_watermark() == quorum.committed
