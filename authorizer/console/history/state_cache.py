"""StateCache: the current state, recent states, and the states of the log scan, with their matrices."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from authorizer.analysis.matrix.matrix import Matrix
from authorizer.api.http.error_code import ErrorCode
from authorizer.console.history.history_scan import History, HistoryScan, ScanThread
from authorizer.console.history.index_cache import IndexCache
from authorizer.console.recent_results import RecentResults
from authorizer.console.threads import run_in_console_thread
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.sidecar.http.errors import HttpError
from records.acl import ResourceType
from records.log.open import open_log
from replay.snapshot_source import CheckpointFiles, SnapshotSource, StoredSnapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from authorizer.node.node import Node
    from records.columns.acl_table import AppliedAcl
    from records.log.base import MetadataLog

# Maximum number of cached matrices.
_MATRICES_MAXIMUM: Final = 32
# How long a request for the past waits for the first part of the scan, and how often it polls.
_FIRST_PART_TIMEOUT_S: Final = 2.0
_POLL_INTERVAL_S: Final = 0.02
# How often the scan checks whether requests are in progress.
_PAUSE_INTERVAL_S: Final = 0.005


class StateCache:
    """The states of one node. Thread-safe; calls may take long."""

    def __init__(self, node: Node, compute_first_view: Callable[[Matrix], object] = lambda _: None) -> None:
        """``compute_first_view``: fills the caches of a matrix for the first view (`prefetch`)."""
        self._node = node
        self._compute_first_view = compute_first_view
        config = node.config
        store = None
        if config.snapshot_store is not None:
            from snapshot.store.snapshot_store import SnapshotStore  # noqa: PLC0415 - loads Arrow and fsspec

            store = SnapshotStore(config.snapshot_store)
        read_stored = None
        if config.console_history is not None:
            from authorizer.console.history.stored_history import read_stored_states  # noqa: PLC0415 - as above

            read_stored = partial(read_stored_states, config.console_history)

        def sources(log: MetadataLog) -> Sequence[SnapshotSource]:
            return [*([] if store is None else [StoredSnapshots(store)]), CheckpointFiles(log)]

        self._scan = HistoryScan(
            lambda: open_log(node.log.url, mode="read", client=config.kafka),
            sources,
            self._wait_for_requests,
            read_stored,
        )
        self._request_count = 0
        self._lock = threading.Lock()
        self._indexes = IndexCache()
        self._matrices: RecentResults[tuple[int, ResourceType], Matrix] = RecentResults(_MATRICES_MAXIMUM)
        self._prefetched: Matrix | None = None
        self._scan_thread = ScanThread(self._scan, self._clear_caches)

    def history(self) -> History:
        """Return the states known so far; a call keeps the scan going."""
        generation = self._node.changes.retained.generation
        history = self._scan.update(generation, self._node.authorizer.state.index.image)
        self._scan_thread.touch()
        return history

    def close(self) -> None:
        """End the scan. From any thread."""
        self._scan_thread.close()

    @contextmanager
    def request_in_progress(self) -> Iterator[None]:
        """Let the scan pause while a caller waits for an answer. In the event loop."""
        self._request_count += 1
        try:
            yield
        finally:
            self._request_count -= 1

    def _wait_for_requests(self) -> None:
        while self._request_count:
            time.sleep(_PAUSE_INTERVAL_S)

    async def wait_for_first_part(self) -> None:
        """Wait up to two seconds until the scan has read its first part."""
        waited_s = 0.0
        while not self._scan.has_begun and waited_s < _FIRST_PART_TIMEOUT_S:
            await run_in_console_thread(self.history)
            await asyncio.sleep(_POLL_INTERVAL_S)
            waited_s += _POLL_INTERVAL_S

    def state_at(self, at_offset: int | None) -> AuthorizerState:
        """Return the current state, or the state at an offset; -1: before the first record.

        HttpError 410: the state is unknown.
        """
        now = self._node.authorizer.state
        if at_offset is None or at_offset == now.end_offset - 1:
            return now
        end_offset = at_offset + 1
        history = self.history()
        index = history.index_at(end_offset)
        if index is None:
            recent = self._node.recent_states.at(end_offset)
            if recent is not None:
                return recent
            raise _unknown_state(at_offset, history)
        networks = now.settings.version_for(history.states[index].image).networks
        acl_index = self._indexes.get(history.states, index, now.index, networks=networks)
        return AuthorizerState(acl_index, now.settings, now.is_ready, now.not_ready_reason)

    def matrix(self, state: AuthorizerState, resource_type: ResourceType) -> Matrix:
        """Return the matrix of a state, derived from a cached one if possible."""
        key = state.end_offset, resource_type
        with self._lock:
            known = self._matrices.get(key)
            if known is not None and known.index.image is state.index.image:
                return known
            matrix = self._from_nearest(state, resource_type) or self._from_prefetched(state, resource_type)
            return self._matrices.put(key, matrix)

    def prefetch(self) -> bool:
        """Compute the matrix of the first view, unless a cached one has the same columns.

        Returns False before the node is ready.
        """
        state = self._node.authorizer.state
        if not state.is_ready:
            return False
        with self._lock:
            cached = self._prefetched
            if cached is None or cached.index.image.columns is not state.index.image.columns:
                self._prefetched = None
                matrix = Matrix.of(state.index, state.settings, ResourceType.TOPIC)
                self._compute_first_view(matrix)
                self._prefetched = matrix
        return True

    def _from_prefetched(self, state: AuthorizerState, resource_type: ResourceType) -> Matrix:
        cached = self._prefetched
        if cached is None or cached.resource_type != resource_type:
            return Matrix.of(state.index, state.settings, resource_type)
        return cached.at(state.index, state.settings)

    def _from_nearest(self, state: AuthorizerState, resource_type: ResourceType) -> Matrix | None:
        """The matrix, derived from the cached one with the fewest states in between, on the same columns."""
        history = self.history()
        index = history.index_at(state.end_offset)
        found: tuple[int, Matrix, Sequence[tuple[AppliedAcl | None, AppliedAcl | None]]] | None = None
        for (offset, kind), matrix in self._matrices.items():
            if kind != resource_type or matrix.index.image.columns is not state.index.image.columns:
                continue
            other_index = history.index_at(offset)
            if index is None or other_index is None:
                continue
            between = history.states[min(index, other_index) + 1 : max(index, other_index) + 1]
            if any(each.changes is None for each in between):
                continue
            if found is None or len(between) < found[0]:
                found = (
                    len(between),
                    matrix,
                    [change.pair for each in between for change in each.changes or ()],
                )
        return None if found is None else found[1].at(state.index, state.settings, found[2])

    def _clear_caches(self) -> None:
        with self._lock:
            self._matrices.clear()
        self._indexes.clear()


def _unknown_state(at_offset: int, history: History) -> HttpError:
    containing = history.state_around(at_offset + 1)
    if containing is not None and containing.first_record is not None:
        first, last = containing.first_record, containing.end_offset - 1
        nearest = f"{first - 1} or {last}" if first else last
        return HttpError(
            ErrorCode.OFFSET_NOT_HELD,
            f"There was no state at offset {at_offset}: the records {first} to {last} became visible "
            f"together. Use offset {nearest}",
        )
    problem = f"The state at offset {at_offset} is not known"
    if at_offset >= history.end:
        return HttpError(
            ErrorCode.OFFSET_NOT_HELD,
            f"{problem}: the last record that this node has read is {history.end - 1}",
        )
    if history.progress is None:
        return HttpError(
            ErrorCode.OFFSET_NOT_HELD, f"{problem}: neither the log nor its snapshots contain it any more"
        )
    scanned, total = history.progress
    return HttpError(
        ErrorCode.OFFSET_NOT_HELD, f"{problem} yet: {scanned:,} of {total:,} records were read so far"
    )
