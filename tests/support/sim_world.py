"""One seeded simulation of a log, a store and a node. tests/simulation runs many.

The seed draws these events:

- the log: appends of one to four records, batches that are committed later, metadata transactions (some of
  them aborted), a new leader, truncation (of committed batches too), retention, compaction with removals
  forgotten when their time is over, damage and repair, storage errors, reads of one batch at a time, another
  log in its place; each of these also between a read and the next read of the high watermark;
- the store: snapshots of any state that was published while the node was ready, also long after, a crash
  before the manifest, damage;
- the node: restarts, publishers that raise, pauses longer than the retention of removals.

These events are excluded, because no node can follow a log through them: in the end, a log that starts beyond
zero without a good snapshot at that offset; removals forgotten before their time; truncation below what was
compacted; a lower epoch after a truncation; a snapshot of a history that was cut off where the log starts.

Checks at every update: the state is one that the log had at that offset, with its digest, and the delta leads
to it from the former state. At every on_ready: the state contains all that was committed when the node became
not ready. After every turn that has read the log: a ready node serves a state of the present log. In the end,
when events have stopped: the node is ready with the last state.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final

from records.columns.acl_table import AppliedAcl
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import LogStorageError
from records.ids import Uuid
from records.log.base import READ_BYTES_MAX
from records.log_batch import LogRecord
from replay.core import Phase
from replay.loader import Iteration, Loader
from replay.manifest import LoaderManifest
from replay.publishers import FaultHandler
from snapshot.delta import AclsDelta
from snapshot.errors import SnapshotError
from snapshot.image import AclsImage, Provenance
from support.sim_clock import SimClock
from support.sim_history import State, state_of
from support.sim_log import SimLog, identity
from support.sim_publisher import Witness, check
from support.sim_store import SimStore

RETENTION_MS: Final = 60_000
_IDS: Final = tuple(Uuid(bytes([number]) * 16) for number in range(6))
_TURNS_TO_REST_MAX: Final = 300
#: Published states that a slow snapshot may still be written of.
_PUBLISHED_KEPT: Final = 5


class Node(Witness):
    """The publisher of one node: checks every update, and every on_ready."""

    def __init__(self, world: World) -> None:
        super().__init__(name="node")
        self._world = world
        self.owed = world.log.committed_end
        self._owed_since: str | None = None
        self.raise_next = False

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        # A refused state is offered again later, when the log may have lost it unseen.
        if image is not self._world.published_before:
            self.check_state(image, self._world.admissible)
        if self.raise_next:
            self.raise_next = False
            self.image = AclsImage.EMPTY
            raise RuntimeError("drawn by the seed")
        super().on_update(delta, image, manifest)

    def on_not_ready(self, reason: str) -> None:
        super().on_not_ready(reason)
        # The error of a failed read is appended to the reason, and disappears again.
        before = self._owed_since
        is_same = before is not None and (reason.startswith(before) or before.startswith(reason))
        if not is_same and not reason.startswith(("loading", "publisher ")):
            self._owed_since = reason
            self.owed = self._world.log.committed_end

    def on_ready(self) -> None:
        super().on_ready()
        self._owed_since = None
        settled = max(end for end in self._world.log.history.states if end <= self.owed)
        check(self.image.provenance.end_offset >= settled, f"ready before {settled} was applied (I4)")


class World:
    """``live`` causes one event; ``settle`` repairs everything and waits for the node."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.compacts = self.random.random() < 0.5
        self.clock = SimClock()
        self.store = SimStore()
        self.log = SimLog()
        self._compacted_to = 0
        self._published: list[tuple[AclsImage, LoaderManifest]] = []
        self._replacements = 0
        self.admissible: list[dict[int, State]] = []
        self.published_before: AclsImage | None = None
        self._asleep = 0
        self._is_resting = False
        self.node: Node
        self.loader: Loader
        self._start_node()

    # --- what is driven ----------------------------------------------------------------------------------

    def live(self) -> None:
        happenings = [
            (30, self._append),
            (40, self._turn),
            (10, self._commit),
            (4, self._begin_or_end_transaction),
            (6, self._write_snapshot),
            (2, self._damage_snapshot),
            (3, self._new_leader),
            (3, self._truncate),
            (4, self._trim),
            (5, self._compact),
            (1, self._clean_twice),
            (2, self._damage),
            (3, self.log.repair),
            (2, self._storage_error),
            (3, self._slow_or_fast),
            (1, self._replace),
            (2, self._restart),
            (1, self._pause_node),
            (2, self._fault),
            (8, self._wait),
        ]
        weights, actions = zip(*happenings, strict=True)
        action = self.random.choices(actions, weights)[0]
        self._asleep -= 1
        if action != self._turn or self._asleep <= 0:
            action()

    def settle(self) -> None:
        self._is_resting = True
        self.log.repair()
        if self.log.history.in_transaction:
            self.log.append_uncommitted([EndTransactionRecord()])
        self.log.commit()
        self.log.read_bytes_max = READ_BYTES_MAX
        self._cover_the_start()
        for _ in range(_TURNS_TO_REST_MAX):
            self.clock.advance(11_000 if not self.compacts else 500)
            if self._turn() is Iteration.IDLE and self.node.ready:
                break
        else:
            raise AssertionError(f"the node does not come to rest: {self.loader.status()}")
        assert state_of(self.node.image) == self.log.history.last_state
        status = self.loader.status()
        assert (status.end_offset, status.lag_records) == (self.log.end_offset, 0)
        assert status.digest == self.log.history.last_state.digest

    # --- the node ----------------------------------------------------------------------------------------

    def _start_node(self) -> None:
        self.node = Node(self)
        self._reloads_done = 0
        self.log.removal_retention_ms = RETENTION_MS if self.compacts else None
        self.loader = Loader(
            self.log,
            [self.store],
            [self.node],
            fault_handler=FaultHandler(),
            clock=self.clock,
        )

    def _restart(self) -> None:
        self.loader.close()
        self._start_node()

    def _turn(self) -> Iteration:
        self.admissible = [self.log.history.states]
        self.published_before = self.loader._image
        before, publishes = len(self.node.updates), self.loader.metrics.publishes
        self.log.after_read = None if self._is_resting else self._between_accesses
        turn = self.loader.iterate()
        self.log.after_read = None
        if len(self.node.updates) > before and self.node.ready:
            self._published.append((self.node.image, self.node.manifests[-1]))
            del self._published[:-_PUBLISHED_KEPT]
        metrics = self.loader.metrics
        if metrics.publishes > publishes:
            self._reloads_done = metrics.reloads
        # While an old state is served and a new one built, a truncation of the old shows only at the swap.
        is_building = metrics.reloads > self._reloads_done
        if self.node.ready and turn is not Iteration.FAILED and not is_building and len(self.admissible) == 1:
            held = self.node.image.provenance.end_offset
            assert state_of(self.node.image) == self.log.history.states.get(held), "ready with a lost state"
            assert self.loader.status().phase is not Phase.RECOVERING
        return turn

    def _pause_node(self) -> None:
        """Pause the node's machine while other events happen."""
        self._asleep = self.random.randint(10, 50)

    def _fault(self) -> None:
        self.node.raise_next = True

    def _wait(self) -> None:
        self.clock.advance(self.random.choice([10, 100, 1000, 5000, RETENTION_MS // 2, 2 * RETENTION_MS]))

    # --- the log -----------------------------------------------------------------------------------------

    def _between_accesses(self) -> None:
        """Perhaps cause an event between a read and the next access to the log."""
        self.log.after_read = None
        if self.random.random() < 0.1:
            happening = self.random.choice(
                [self._append, self._truncate, self._trim, self._compact, self._replace]
            )
            happening()
        self.log.after_read = self._between_accesses

    def _append(self) -> None:
        records = [self._record() for _ in range(self.random.randint(1, 4))]
        if not self.compacts and self.random.random() < 0.1 and not self.log.history.in_transaction:
            records = [self._record(), BeginTransactionRecord(), *records, self._ending(), self._record()]
        self._put(records)

    def _put(self, records: list[MetadataRecord]) -> None:
        self.log.append_uncommitted(records)
        if self.random.random() < 0.8:
            self.log.commit()

    def _record(self) -> MetadataRecord:
        acl_id = self.random.choice(_IDS)
        kind = self.random.random()
        if kind < 0.55:
            name = self.random.choice("ab")
            permission = self.random.choice([2, 3])
            return AccessControlEntryRecord(acl_id, 2, name, 3, "User:a", "*", 3, permission)
        if kind < 0.9:
            return RemoveAccessControlEntryRecord(acl_id)
        if kind < 0.95:
            return FeatureLevelRecord("metadata.version", self.random.randint(0, 30))
        return OtherRecord(20, 0)

    def _ending(self) -> EndTransactionRecord | AbortTransactionRecord:
        return AbortTransactionRecord("why") if self.random.random() < 0.5 else EndTransactionRecord()

    def _begin_or_end_transaction(self) -> None:
        if self.compacts:
            return
        if self.log.history.in_transaction:
            self._put([self._record(), self._ending()])
        else:
            self._put([self._record(), BeginTransactionRecord(), self._record()])

    def _commit(self) -> None:
        ends = [batch.end_offset for batch in self.log.batches if batch.end_offset > self.log.committed_end]
        if ends:
            self.log.commit(self.random.choice(ends))

    def _new_leader(self) -> None:
        self.log.new_epoch()

    def _truncate(self) -> None:
        ends = [batch.end_offset for batch in self.log.batches[-6:] if batch.end_offset >= self._compacted_to]
        if ends:
            self._remember_history()
            self.log.truncate(self.random.choice(ends))
            self.node.owed = min(self.node.owed, self.log.committed_end)

    def _trim(self) -> None:
        """Trim as Kafka does: the records that the newest snapshot does not cover remain."""
        if self.compacts:
            return
        states = self.log.history.states
        ends = [
            end_offset
            for end_offset, image in (
                (found.image.provenance.end_offset, found.image)
                for found in self.store.snapshots
                if found.identity == self.log.identity and found.problem is None and found.damage is None
            )
            if end_offset <= self.log.committed_end and states.get(end_offset) == state_of(image)
        ]
        if ends:
            start = self.random.choice(ends)
            self.log.trim(start)
            self.store.snapshots = [
                found for found in self.store.snapshots if not self._is_undetectable(found.image)
            ]

    def _compact(self) -> None:
        if not self.compacts:
            return
        end_offset = self.random.randint(0, self.log.committed_end)
        self._compacted_to = max(self._compacted_to, end_offset)
        self.log.compact(end_offset, now_ms=self.clock.now_ms(), retention_ms=RETENTION_MS)

    def _clean_twice(self) -> None:
        """Compact twice, a retention apart, without a read: the node misses removals."""
        for _ in range(2):
            self._compact()
            self._append()
            self.clock.advance(RETENTION_MS + 1)

    def _damage(self) -> None:
        if self.log.batches:
            self.log.damage(self.random.choice(self.log.batches).base_offset)

    def _storage_error(self) -> None:
        self.log.fail_reads(self.random.choice([LogStorageError("disk"), OSError("no such device")]))

    def _slow_or_fast(self) -> None:
        self.log.read_bytes_max = self.random.choice([1, 500, 1_000_000])

    def _replace(self) -> None:
        if self.random.random() < 0.3:
            self._remember_history()
            self._replacements += 1
            self.log.replace(identity(topic_id=Uuid(bytes([100 + self._replacements]) * 16)))
            self._compacted_to = self.node.owed = 0

    def _remember_history(self) -> None:
        """Store the history, because a state that was read before may be published after."""
        self.admissible.append(dict(self.log.history.states))

    # --- the store ---------------------------------------------------------------------------------------

    def _write_snapshot(self) -> None:
        """Write a snapshot of any state that was published while the node was ready (I13)."""
        if not self._published:
            return
        image, manifest = self.random.choice(self._published)
        if self._is_undetectable(image):
            return
        self.store.crash_next = self.random.random() < 0.2
        with suppress(SnapshotError):
            self.store.write(image, manifest.identity, log_end_time_ms=manifest.log_end_time_ms, keep=1)

    def _is_undetectable(self, image: AclsImage) -> bool:
        """Whether the image is of a truncated history of which the log has no trace."""
        end_offset = image.provenance.end_offset
        states = self.log.history.states
        return end_offset == self.log.start_offset() > 0 and states.get(end_offset) != state_of(image)

    def _damage_snapshot(self) -> None:
        if self.store.snapshots:
            self.random.choice(self.store.snapshots).damage = "a part is missing"

    def _cover_the_start(self) -> None:
        """If the log starts beyond zero, the store has a good snapshot at that offset."""
        start = self.log.start_offset()
        if start == 0:
            return
        delta = AclsDelta(AclsImage.EMPTY)
        state = self.log.history.states[start]
        for record in state.acls.values():
            delta.put(AppliedAcl(record, None, 0))
        for name, level in state.features.items():
            delta.replay(LogRecord(0, 0, FeatureLevelRecord(name, level)))
        image = delta.apply(Provenance(start, self.log.history.epoch_at(start), 0))
        self.store.write(image, self.log.identity, log_end_time_ms=self.clock.now_ms(), keep=1)
