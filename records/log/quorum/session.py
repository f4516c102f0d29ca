"""Asks the quorum's current leader: one connection at a time, moved when the leader moves.

An answer that names another leader is followed at once if it says something new, and else after a pause: two
controllers that name each other make no busy loop (KAFKA-19605). Pauses grow, with jitter, within
`PATIENCE_S` for one question; the caller decides when to ask again. Where no controller answers, the error
comes at once.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from records.errors import LogError, LogUnreachableError
from records.log.protocol import requests, responses
from records.log.protocol.answers import (
    LEADER_ERRORS,
    NO_ERROR,
    NOT_ALLOWED,
    Answer,
    Fetched,
    SnapshotId,
    SnapshotPart,
)
from records.log.protocol.connection import Connection
from records.log.quorum.leadership import Leadership

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from records.log.bootstrap_servers import Address
    from records.log.protocol.failure import Failure
    from records.log.protocol.responses import Answering
    from records.log.protocol.settings import ProtocolSettings

#: So long one question looks for a leader; an election takes one or two seconds.
PATIENCE_S: Final = 5.0
_PAUSE_MIN_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

_FETCH_VERSIONS: Final = (17, 18)
_SNAPSHOT_VERSION: Final = 1

_A = TypeVar("_A", bound=Answer)
_T = TypeVar("_T")


class Session:
    """Not thread-safe, but for ``abort``.

    Attributes:
        cluster_id: as given, or of the first controller that answered; None before. All are asked for it.
    """

    def __init__(
        self,
        controllers: Sequence[Address],
        settings: ProtocolSettings,
        failure: Failure,
        closing: threading.Event,
    ) -> None:
        """Ask nobody yet.

        Args:
            controllers: whom to ask first.
            settings: how; the cluster that is meant is by default that of the first that answers.
            failure: makes the errors.
            closing: when it is set nothing is waited for any more.
        """
        self.cluster_id = settings.cluster_id
        self._leadership = Leadership(controllers)
        self._settings = settings
        self._failure = failure
        self._closing = closing
        self._connection: Connection | None = None
        self._fetch_version = _FETCH_VERSIONS[0]
        self._random = random.Random()  # noqa: S311 - jitter

    @property
    def address(self) -> Address:
        """Of the one that is asked next, who led as far as is known."""
        return self._leadership.address

    @property
    def epoch(self) -> int:
        """In which the last `fetch` was answered, by its leader."""
        return self._leadership.epoch

    @property
    def hears_commits(self) -> bool:
        """Whether the leader answers when only the high watermark moves (KIP-1166)."""
        return self._connection is not None and self._fetch_version >= requests.FETCH_HEARS_COMMITS

    def reach(self) -> str:
        """The cluster's id, from any controller.

        Raises:
            LogError: as ``fetch``.
        """
        if self.cluster_id is None:
            silent: set[Address] = set()
            while self.cluster_id is None:
                address = self._leadership.address
                try:
                    described = self._connection_to(address).ask(
                        requests.describe_cluster(requests.CONTROLLERS), responses.DESCRIBE_CLUSTER
                    )
                    if described.error not in (NO_ERROR, NOT_ALLOWED):
                        raise self._failure.no_name_now(address, described.error)
                except LogUnreachableError:
                    self._give_up(address)
                    silent.add(address)
                    if self._leadership.address in silent:
                        raise
                else:
                    if described.error == NOT_ALLOWED:
                        # The right to follow is another one, and comes first.
                        self.fetch(0, 0, None, bytes_max=1)
                        raise self._failure.nameless(address)
                    self.cluster_id = described.cluster_id
                    self._leadership.know(described.controllers)
        return self.cluster_id

    def fetch(
        self,
        offset: int,
        last_epoch: int | None,
        high_watermark: int | None,
        *,
        wait_ms: int = 0,
        bytes_max: int = requests.FETCH_BYTES_MAX,
    ) -> Fetched:
        """The leader's answer; it waits for news as long as it may.

        ``last_epoch`` None: whatever the leader has before ``offset`` is right.

        Raises:
            LogUnreachableError: nobody answers, or no leader could be found in time.
            LogRefusedError: it does not let us in, or not do this.
            LogNotFoundError: it is of another cluster.
            LogError: it is no controller, or too old.
        """

        def ask(connection: Connection, epoch: int) -> Fetched:
            question = requests.FetchQuestion(
                cluster_id=self.cluster_id,
                leader_epoch=epoch,
                offset=offset,
                last_epoch=epoch if last_epoch is None else last_epoch,
                high_watermark=high_watermark,
                wait_ms=wait_ms,
                bytes_max=bytes_max,
            )
            request = requests.fetch(question, self._fetch_version)
            return connection.ask(request, responses.FETCH, wait_s=wait_ms / 1000)

        return self._ask_leader(ask)

    def snapshot_part(self, snapshot: SnapshotId, position: int) -> SnapshotPart:
        """The bytes of a snapshot from ``position`` on, some at least. Raises as ``fetch``."""

        def ask(connection: Connection, epoch: int) -> SnapshotPart:
            request = requests.fetch_snapshot(self.cluster_id, epoch, snapshot, position)
            return connection.ask(request, responses.FETCH_SNAPSHOT)

        return self._ask_leader(ask)

    def ask_once(self, request: Any, answering: Answering[_T], *, wait_s: float) -> _T:
        """The answer of the one that was asked last, which it may take ``wait_s`` for.

        Raises:
            LogUnreachableError: none came; it may have the request.
            LogError: as ``fetch``.
        """
        address = self._leadership.address
        try:
            return self._connection_to(address).ask(request, answering, wait_s=wait_s)
        except LogError:
            self._give_up(address)
            raise

    def abort(self) -> None:
        """End the connection. Idempotent, from any thread."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    def _ask_leader(self, ask: Callable[[Connection, int], _A]) -> _A:
        deadline_s = time.monotonic() + PATIENCE_S
        pause_s = _PAUSE_MIN_S
        silent: set[Address] = set()
        while True:
            address = self._leadership.address
            is_new = self._connection is None or self._connection.address != address
            trouble: LogError
            try:
                answer = ask(self._connection_to(address), self._leadership.epoch)
            except LogUnreachableError as error:
                self._give_up(address)
                if is_new:  # an old connection may have ended long ago
                    silent.add(address)
                if self._leadership.address in silent:
                    raise
                trouble, is_news = error, True
            except LogError:
                self._give_up(address)
                raise
            else:
                if answer.error == NO_ERROR:
                    self._leadership.answered(address)
                    return answer
                silent.clear()
                is_news = self._leadership.learn(answer.leader)
                trouble = self._trouble(answer.error, address)
                if self._leadership.address == address and not is_news:
                    self._leadership.failed(address)
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise trouble
            if not is_news:
                self._closing.wait(min(left_s, pause_s * self._random.uniform(0.5, 1)))
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _trouble(self, error: str, address: Address) -> LogError:
        """What to say if no leader is found in time; raises what will not get better by asking others."""
        if error in LEADER_ERRORS:
            return self._failure.no_leader(address, error)
        self._leadership.failed(address)
        if error == "inconsistent_cluster_id":
            raise self._failure.another_cluster(address, self.cluster_id)
        raise self._failure.of_error(error, address)

    def _connection_to(self, address: Address) -> Connection:
        if self._closing.is_set():
            raise self._failure.closed()
        if self._connection is not None and self._connection.address != address:
            self._drop()
        if self._connection is None:
            self._connection = Connection(address, self._settings, self._failure)
            self._fetch_version = self._agreed(self._connection)
            if self._closing.is_set():  # `abort` did not see it
                self._drop()
                raise self._failure.closed()
        return self._connection

    def _agreed(self, connection: Connection) -> int:
        """The version of Fetch that both speak."""
        ranges = connection.versions
        if requests.FETCH_KEY not in ranges or requests.FETCH_SNAPSHOT_KEY not in ranges:
            raise self._failure.not_a_controller(connection.address)
        low, high = ranges[requests.FETCH_KEY]
        common = [version for version in _FETCH_VERSIONS if low <= version <= high]
        if not common or ranges[requests.FETCH_SNAPSHOT_KEY][1] < _SNAPSHOT_VERSION:
            raise self._failure.too_old(connection.address)
        return common[-1]

    def _give_up(self, address: Address) -> None:
        """Ask the next one."""
        self._drop()
        if self._closing.is_set():
            raise self._failure.closed()
        self._leadership.failed(address)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
