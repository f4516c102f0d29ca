"""Retention of a history's files, killed at any step: later states are as before, earlier ones refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from records.ids import uuid_to_string
from snapshot.delta import AclsDelta
from snapshot.errors import SnapshotError
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.changes.change_files import history_files, state_url, write_changes
from snapshot.jobs.changes.change_table import CONTENT, net_changes
from snapshot.jobs.changes.coverage import Coverage, put_coverage, read_coverage
from snapshot.jobs.changes.file_retention import remove_files
from snapshot.jobs.folding.schema import CHANGES_ARROW
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage
from support.example_counts import examples
from support.snapshots import CLUSTER, IDENTITY, acl_id

HOUR_MS = 3_600_000
BEGIN_MS = 1_796_076_000_000
State = dict[bytes, int]

#: Each batch: (hours since the one before, changed ids). Times may go back a little, as clocks do.
BATCHES = st.lists(
    st.tuples(st.integers(-3, 30), st.lists(st.integers(0, 4), max_size=3)), min_size=1, max_size=8
)


class History:
    """A written history, and the state after each of its changes."""

    def __init__(self, directory: str, batches: list[tuple[int, list[int]]]) -> None:
        self.output, self.storage = f"file://{directory}", Storage(directory)
        put_coverage(self.storage, Coverage.beginning(IDENTITY, 0, 0))
        #: (offset, time, state): of each change.
        self.states: list[tuple[int, int, State]] = []
        self.end, time_ms, state = 0, BEGIN_MS, State()
        born: dict[bytes, dict[str, Any]] = {}
        for hours, ids in batches:
            start, rows = self.end, []
            for number in ids:
                time_ms += HOUR_MS * hours // len(ids)
                offset, key = self.end, bytes(acl_id(number))
                before, state = born.pop(key, None), dict(state)
                after = None
                if state.pop(key, None) is None or number % 2:
                    content = dict.fromkeys(CONTENT, "x")
                    after = born[key] = {**content, "offset": offset, "timestamp_ms": time_ms}
                    state[key] = offset
                change = "added" if before is None else "removed" if after is None else "replaced"
                rows.append(
                    {
                        "topic_id": uuid_to_string(IDENTITY.topic_id),
                        "offset": offset,
                        "timestamp_ms": time_ms,
                        "change": change,
                        "id": key,
                        "before": before,
                        "after": after,
                    }
                )
                self.states.append((offset, time_ms, state))
                self.end += 1
            self.end += 1
            if rows:
                table = net_changes(pa.Table.from_pylist(rows, CHANGES_ARROW))
                write_changes(self.storage, CLUSTER, start, self.end, table)
        image = AclsDelta(AclsImage.EMPTY).apply(Provenance(self.end, 1, time_ms))
        SnapshotStore(state_url(self.output)).write(image, IDENTITY, log_end_time_ms=time_ms)
        self.newest = state

    def state_at(self, time_ms: int) -> State:
        return max(
            ((offset, state) for offset, time, state in self.states if time <= time_ms),
            key=lambda each: each[0],
            default=(-1, State()),
        )[1]

    def read_at(self, time_ms: int) -> State | None:
        """The state by the files, as history.py reads them; None if it refuses the time."""
        coverage = read_coverage(self.storage, CLUSTER)
        assert coverage is not None
        rows: dict[str, list[dict[str, Any]]] = {"changes": [], "intervals": []}
        for file in history_files(self.storage, CLUSTER):
            read = pq.read_table(pa.BufferReader(self.storage.read(file.path))).to_pylist()
            rows[file.path.split("/")[0]] += read
        known = [
            row["offset"]
            for row in rows["changes"]
            if row["offset"] >= coverage.begin_offset and row["timestamp_ms"] <= time_ms
        ]
        if not known and coverage.begin_offset and time_ms < coverage.begin_time_ms:
            return None
        at = max(known, default=coverage.begin_offset - 1)
        state = {
            row["id"]: row["valid_from_offset"]
            for row in rows["intervals"]
            if row["valid_to_offset"] >= coverage.begin_offset
            if row["valid_from_offset"] <= at < row["valid_to_offset"]
        }
        return state | {key: since for key, since in self.newest.items() if since <= at}


@contextmanager
def killed_after(steps: int) -> Iterator[list[int]]:
    """Puts and removals of files fail after so many; yields the number of each step that was tried."""
    tried: list[int] = []
    with patch.multiple(Storage, **{name: _counted(name, steps, tried) for name in ("put", "remove")}):
        yield tried


def _counted(name: str, steps: int, tried: list[int]) -> Any:
    step = getattr(Storage, name)

    def counted(storage: Storage, *args: Any) -> Any:
        tried.append(len(tried))
        if len(tried) > steps:
            raise SnapshotError("killed")
        return step(storage, *args)

    return counted


@settings(max_examples=examples(gate=15, deep=500))
@given(BATCHES, st.integers(0, 200), st.integers(0, 12), st.none() | st.integers(0, 30))
def test_retention_that_is_killed_at_any_step_keeps_every_later_state(
    batches: list[tuple[int, list[int]]], hours: int, steps: int, published: int | None
) -> None:
    keep_ms = BEGIN_MS + HOUR_MS * hours
    keep_from = datetime.fromtimestamp(keep_ms / 1000, UTC)
    with tempfile.TemporaryDirectory() as directory:
        history = History(directory, batches)
        times = {keep_ms} | {time - less for _, time, _ in history.states for less in (0, 1)}
        ends = None if published is None else {CLUSTER: published}

        def check() -> None:
            for time_ms in times:
                read = history.read_at(time_ms)
                assert read == history.state_at(time_ms) or (read is None and time_ms < keep_ms)

        def run(*, is_dry_run: bool = False) -> tuple[int, int]:
            (effect,) = remove_files(history.output, keep_from, ends, is_dry_run=is_dry_run)
            return effect.removed, effect.files

        files = {file.path: file for file in history_files(history.storage, CLUSTER)}
        check()
        counted = run(is_dry_run=True)
        assert len(files) == sum(counted)
        with killed_after(steps) as tried, suppress(SnapshotError):
            run()
        check()
        run()
        check()
        left = {file.path for file in history_files(history.storage, CLUSTER)}
        assert (len(files) - len(left), len(left)) == counted
        assert run() == (0, counted[1])
        # All that could be removed is: batches of earlier days, in order, that the tables have.
        first = keep_from.date().isoformat()
        late = [file.start for file in files.values() if file.date >= first]
        until = min([history.end if published is None else published, *late])
        assert left == {path for path, file in files.items() if file.end > until}
        assert bool(tried) == bool(counted[0])
