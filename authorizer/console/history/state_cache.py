"""The states that the page looks at: of now, recent ones, and those that a walk through the log has found."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from authorizer.analysis.matrix import Matrix
from authorizer.api.http.error_code import ErrorCode
from authorizer.console.history.history_scan import HistoryScan
from authorizer.console.history.indexes import IndexCache
from authorizer.console.history.scan_thread import ScanThread
from authorizer.console.history.stored_history import read_stored_states
from authorizer.console.process.thread_pool import run_in_console_thread
from authorizer.console.routes.matrix_window import window
from authorizer.console.routes.queries import MatrixQuery
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.sidecar.http.errors import HttpError
from records.acl import ResourceType
from records.log.open import open_log
from replay.snapshot_source import CheckpointFiles, StoredSnapshots
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.console.history.history_scan import History
    from authorizer.node.node import Node
    from records.columns.acl_table import AppliedAcl
    from records.log.base import MetadataLog
    from replay.snapshot_source import SnapshotSource

# Matrices that are kept.
_MATRICES_MAXIMUM: Final = 32
# What a page of usual size asks first: it is opened with the topics.
_FIRST_VIEW: Final = MatrixQuery(rows=60, columns=24)
# How long a question about the past waits for its newest part, and how often it looks.
_PATIENCE_S: Final = 2.0
_LOOK_S: Final = 0.02
# Of the thread that looks through the log, between two looks whether anyone waits.
_BREAK_S: Final = 0.005


class StateCache:
    """Of one node. Thread-safe; what is asked may take long."""

    def __init__(self, node: Node) -> None:
        self._node = node
        config = node.config
        store = None if config.snapshot_store is None else SnapshotStore(config.snapshot_store)

        def sources(log: MetadataLog) -> Sequence[SnapshotSource]:
            return [*([] if store is None else [StoredSnapshots(store)]), CheckpointFiles(log)]

        history = config.console_history
        self._past = HistoryScan(
            lambda: open_log(node.log.url, mode="read", client=config.kafka),
            sources,
            self._let_go_first,
            None if history is None else partial(read_stored_states, history),
        )
        self._asked = 0
        self._working = threading.Lock()
        self._indexes = IndexCache()
        self._matrices: OrderedDict[tuple[int, ResourceType], Matrix] = OrderedDict()
        self._ahead: Matrix | None = None
        self._scan_thread = ScanThread(self._past, self._forget)

    def walked(self) -> History:
        """What is known of the past by now; that people look lets more become known."""
        generation = self._node.changes.known.generation
        walked = self._past.look(generation, self._node.authorizer.state.index.image)
        self._scan_thread.look()
        return walked

    def close(self) -> None:
        """Look no further. From any thread."""
        self._scan_thread.close()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """While a caller waits for an answer; in the event loop."""
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1

    def _let_go_first(self) -> None:
        """Who waits for an answer goes before the past."""
        while self._asked:
            time.sleep(_BREAK_S)

    async def begun(self) -> None:
        """Wait a moment for the newest part of the past."""
        waited_s = 0.0
        while not self._past.has_begun and waited_s < _PATIENCE_S:
            await run_in_console_thread(self.walked)
            await asyncio.sleep(_LOOK_S)
            waited_s += _LOOK_S

    def at(self, at_offset: int | None) -> AuthorizerState:
        """The state of now, or with the record at an offset applied; -1: before the log's first record.

        Raises:
            AuthorizerNotReadyError: nothing can be relied on now.
            HttpError: 410, it is not known.
        """
        now = self._node.authorizer.state
        if at_offset is None or at_offset == now.end_offset - 1:
            return now
        end_offset = at_offset + 1
        walked = self.walked()
        at = walked.at(end_offset)
        if at is None:
            held = self._node.recent.at(end_offset)
            if held is not None:
                return held
            raise _not_known(at_offset, walked)
        networks = now.settings.version_for(walked.moments[at].image).networks
        index = self._indexes.of(walked.moments, at, now.index, networks=networks)
        return AuthorizerState(index, now.settings, now.is_ready, now.not_ready_reason)

    def matrix(self, state: AuthorizerState, resource_type: ResourceType) -> Matrix:
        """Its matrix; what it shares with one of before is not worked out again."""
        key = state.end_offset, resource_type
        with self._working:
            known = self._matrices.get(key)
            if known is not None and known.index.image is state.index.image:
                self._matrices.move_to_end(key)
                return known
            made = self._from_near(state, resource_type) or self._from_ahead(state, resource_type)
            self._matrices[key] = made
            while len(self._matrices) > _MATRICES_MAXIMUM:
                self._matrices.popitem(last=False)
            return made

    def prefetch(self) -> bool:
        """Make what people see first, unless what is there can be made that of now; False before it is ready.

        A change alone costs nothing here: only where it is on other columns is it made anew.
        """
        state = self._node.authorizer.state
        if not state.is_ready:
            return False
        with self._working:
            ahead = self._ahead
            if ahead is None or ahead.index.image.columns is not state.index.image.columns:
                self._ahead = None
                made = Matrix.of(state.index, state.settings, ResourceType.TOPIC)
                window(_FIRST_VIEW, made, None, None)
                self._ahead = made
        return True

    def _from_ahead(self, state: AuthorizerState, resource_type: ResourceType) -> Matrix:
        ahead = self._ahead
        if ahead is None or ahead.resource_type != resource_type:
            return Matrix.of(state.index, state.settings, resource_type)
        return ahead.at(state.index, state.settings)

    def _from_near(self, state: AuthorizerState, resource_type: ResourceType) -> Matrix | None:
        """That of a state that stands on the same columns, with what is the same there."""
        moments = self.walked()
        here = moments.at(state.end_offset)
        found: tuple[int, Matrix, Sequence[tuple[AppliedAcl | None, AppliedAcl | None]]] | None = None
        for (offset, kind), matrix in self._matrices.items():
            if kind != resource_type or matrix.index.image.columns is not state.index.image.columns:
                continue
            there = moments.at(offset)
            if here is None or there is None:
                continue
            between = moments.moments[min(here, there) + 1 : max(here, there) + 1]
            if any(each.changes is None for each in between):
                continue
            if found is None or len(between) < found[0]:
                found = (
                    len(between),
                    matrix,
                    [change.pair for each in between for change in each.changes or ()],
                )
        return None if found is None else found[1].at(state.index, state.settings, found[2])

    def _forget(self) -> None:
        with self._working:
            self._matrices.clear()
        self._indexes.forget()


def _not_known(at_offset: int, walked: History) -> HttpError:
    around = walked.around(at_offset + 1)
    if around is not None and around.first_record is not None:
        first, last = around.first_record, around.end_offset - 1
        nearest = f"{first - 1} or {last}" if first else last
        return HttpError(
            ErrorCode.OFFSET_NOT_HELD,
            f"There was no state at offset {at_offset}: the records {first} to {last} became visible at "
            f"once. Look at offset {nearest}",
        )
    what = f"The state at offset {at_offset} is not known"
    if at_offset >= walked.end:
        return HttpError(
            ErrorCode.OFFSET_NOT_HELD, f"{what}: the last record that this node has read is {walked.end - 1}"
        )
    if walked.progress is None:
        return HttpError(
            ErrorCode.OFFSET_NOT_HELD, f"{what}: neither the log nor its snapshots lead to it any more"
        )
    looked, every = walked.progress
    return HttpError(
        ErrorCode.OFFSET_NOT_HELD, f"{what} yet: {looked:,} of {every:,} records were read so far"
    )
