"""Session: requests to the quorum's current leader, on one connection that follows the leader.

A response that names a new leader is followed without a pause, any other after one: two controllers that name
each other make no busy loop (KAFKA-19605). Pauses grow, with jitter, within `LEADER_TIMEOUT_S` for one
request; the caller decides when to retry. If no controller answers, the error is raised without a pause.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from records.errors import LogError, LogUnreachableError
from records.log.protocol import requests, responses
from records.log.protocol.connection import Connection
from records.log.protocol.response_values import (
    LEADER_ERRORS,
    NO_ERROR,
    NOT_ALLOWED,
    FetchResponse,
    LeaderResponse,
    SnapshotPart,
)
from records.log.quorum.leadership import Leadership

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from records.log.base import CheckpointId
    from records.log.protocol.cluster_errors import ClusterErrors
    from records.log.protocol.responses import ResponseDecoder
    from records.log.protocol.settings import ProtocolSettings
    from records.log.url import Address

#: How long one request looks for a leader; an election takes one or two seconds.
LEADER_TIMEOUT_S: Final = 5.0
_PAUSE_MIN_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

_FETCH_VERSIONS: Final = (17, 18)
_SNAPSHOT_VERSION: Final = 1

_A = TypeVar("_A", bound=LeaderResponse)
_T = TypeVar("_T")


class Session:
    """Not thread-safe, except ``abort``.

    ``cluster_id``: as given, or of the first controller that answered; None before. Each is checked.
    """

    def __init__(
        self,
        controllers: Sequence[Address],
        settings: ProtocolSettings,
        errors: ClusterErrors,
        closing: threading.Event,
    ) -> None:
        """Send nothing yet; once ``closing`` is set, all waits end.

        By default the first controller that answers determines the cluster.
        """
        self.cluster_id = settings.cluster_id
        self._leadership = Leadership(controllers)
        self._settings = settings
        self._errors = errors
        self._closing = closing
        self._connection: Connection | None = None
        self._fetch_version = _FETCH_VERSIONS[0]
        self._random = random.Random()  # noqa: S311 - jitter

    @property
    def address(self) -> Address:
        """Of the controller that is asked next, the last known leader."""
        return self._leadership.address

    @property
    def epoch(self) -> int:
        """Of the leader that answered the last `fetch`."""
        return self._leadership.epoch

    @property
    def notifies_commits(self) -> bool:
        """Whether the leader responds when only the high watermark moves (KIP-1166)."""
        return self._connection is not None and self._fetch_version >= requests.FETCH_COMMIT_NOTICE_VERSION

    def connect(self) -> str:
        """The cluster's id, from any controller. Raises LogError: as ``fetch``."""
        if self.cluster_id is None:
            unreachable: set[Address] = set()
            while self.cluster_id is None:
                address = self._leadership.address
                try:
                    error, described = self._connection_to(address).send(
                        requests.describe_cluster(requests.CONTROLLER_ENDPOINTS), responses.DESCRIBE_CLUSTER
                    )
                    if error not in (NO_ERROR, NOT_ALLOWED):
                        raise self._errors.cluster_id_unavailable(address, error)
                except LogUnreachableError:
                    self._try_next(address)
                    unreachable.add(address)
                    if self._leadership.address in unreachable:
                        raise
                else:
                    if error == NOT_ALLOWED:
                        # To follow the log takes another right, which is checked first.
                        self.fetch(0, 0, None, bytes_max=1)
                        raise self._errors.cluster_id_not_allowed(address)
                    self.cluster_id = described.cluster_id
                    self._leadership.add_controllers(described.nodes.values())
        return self.cluster_id

    def fetch(
        self,
        offset: int,
        last_epoch: int | None,
        high_watermark: int | None,
        *,
        wait_ms: int = 0,
        bytes_max: int = requests.FETCH_BYTES_MAX,
    ) -> FetchResponse:
        """The leader's response, for which it may wait up to ``wait_ms``.

        ``last_epoch`` None: do not compare the history before ``offset``.

        Raises:
            LogUnreachableError: no controller answers, or no leader was found in time.
            LogRefusedError: authentication failed, or a right is missing.
            LogNotFoundError: the controller belongs to another cluster.
            LogError: no controller, or one that is too old.
        """

        def ask(connection: Connection, epoch: int) -> FetchResponse:
            parameters = requests.FetchParameters(
                cluster_id=self.cluster_id,
                leader_epoch=epoch,
                offset=offset,
                last_epoch=epoch if last_epoch is None else last_epoch,
                high_watermark=high_watermark,
                wait_ms=wait_ms,
                bytes_max=bytes_max,
            )
            request = requests.fetch(parameters, self._fetch_version)
            return connection.send(request, responses.FETCH, wait_s=wait_ms / 1000)

        return self._send_to_leader(ask)

    def snapshot_part(self, snapshot: CheckpointId, position: int) -> SnapshotPart:
        """The next bytes of a snapshot from ``position`` on, at least one. Raises as ``fetch``."""

        def ask(connection: Connection, epoch: int) -> SnapshotPart:
            request = requests.fetch_snapshot(self.cluster_id, epoch, snapshot, position)
            return connection.send(request, responses.FETCH_SNAPSHOT)

        return self._send_to_leader(ask)

    def send_once(self, request: Any, decoder: ResponseDecoder[_T], *, wait_s: float) -> _T:
        """Send a request to the controller that was asked last, without a retry.

        Raises:
            LogUnreachableError: no response; the controller may have the request.
            LogError: as ``fetch``.
        """
        address = self._leadership.address
        try:
            return self._connection_to(address).send(request, decoder, wait_s=wait_s)
        except LogError:
            self._try_next(address)
            raise

    def abort(self) -> None:
        """Close the connection. Idempotent, from any thread."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    def _send_to_leader(self, ask: Callable[[Connection, int], _A]) -> _A:
        deadline_s = time.monotonic() + LEADER_TIMEOUT_S
        pause_s = _PAUSE_MIN_S
        unreachable: set[Address] = set()
        while True:
            address = self._leadership.address
            is_new = self._connection is None or self._connection.address != address
            last_error: LogError
            try:
                answer = ask(self._connection_to(address), self._leadership.epoch)
            except LogUnreachableError as error:
                self._try_next(address)
                if is_new:  # an old connection may have been closed long ago
                    unreachable.add(address)
                if self._leadership.address in unreachable:
                    raise
                last_error, is_new_leader = error, True
            except LogError:
                self._try_next(address)
                raise
            else:
                if answer.error == NO_ERROR:
                    self._leadership.confirm(address)
                    return answer
                unreachable.clear()
                is_new_leader = self._leadership.update(answer.leader)
                last_error = self._leader_error(answer.error, address)
                if self._leadership.address == address and not is_new_leader:
                    self._leadership.mark_failed(address)
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise last_error
            if not is_new_leader:
                self._closing.wait(min(left_s, pause_s * self._random.uniform(0.5, 1)))
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _leader_error(self, error: str, address: Address) -> LogError:
        """The error if no leader is found in time. Raises an error that other controllers would repeat."""
        if error in LEADER_ERRORS:
            return self._errors.no_leader(address, error)
        self._leadership.mark_failed(address)
        if error == "inconsistent_cluster_id":
            raise self._errors.another_cluster(address, self.cluster_id)
        raise self._errors.controller_error(error, address)

    def _connection_to(self, address: Address) -> Connection:
        if self._closing.is_set():
            raise self._errors.log_closed()
        if self._connection is not None and self._connection.address != address:
            self._drop()
        if self._connection is None:
            self._connection = Connection(address, self._settings, self._errors)
            self._fetch_version = self._agreed(self._connection)
            if self._closing.is_set():  # `abort` did not see it
                self._drop()
                raise self._errors.log_closed()
        return self._connection

    def _agreed(self, connection: Connection) -> int:
        """The newest version of Fetch that both sides support."""
        ranges = connection.versions
        if requests.FETCH_KEY not in ranges or requests.FETCH_SNAPSHOT_KEY not in ranges:
            raise self._errors.not_a_controller(connection.address)
        low, high = ranges[requests.FETCH_KEY]
        common = [version for version in _FETCH_VERSIONS if low <= version <= high]
        if not common or ranges[requests.FETCH_SNAPSHOT_KEY][1] < _SNAPSHOT_VERSION:
            raise self._errors.too_old(connection.address)
        return common[-1]

    def _try_next(self, address: Address) -> None:
        self._drop()
        if self._closing.is_set():
            raise self._errors.log_closed()
        self._leadership.mark_failed(address)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
