"""QuorumWriter: sends ACL changes to the active controller, which is the leader of the quorum.

A fetch just before each request, on the same connection, checks that the controller still leads and that the
connection is alive. NOT_CONTROLLER has two meanings, by QuorumController: a new leader is not active yet and
has written nothing; or a leader lost the leadership when its records were appended, which the next one may
keep (`renounce`). It is the first if the fetch after it is answered in the same epoch: no epoch has two
leaders, and no controller that renounced becomes active in it again.

The writer waits for a leader that hangs with a request until another one leads. It sends a creation of
unknown outcome again, as an ACL that exists makes no second record. It does not resend a removal, as it could
then match newer ACLs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeVar

from records.entries import AclContent
from records.errors import LogError, LogUnreachableError
from records.log.cluster_writer import AclFilterContent, AclWriteResult, Refusal, Removal
from records.log.protocol import requests, responses
from records.log.protocol.cluster_errors import ClusterErrors
from records.log.protocol.responses import ResponseDecoder
from records.log.quorum.session import LEADER_TIMEOUT_S, Session

#: A controller may take this long for the largest request.
_RESPONSE_TIMEOUT_S: Final = 30.0
_RETRY_INTERVAL_S: Final = 0.05
_NOT_CONTROLLER: Final = "NOT_CONTROLLER"

_T = TypeVar("_T")


class _Outcome(Enum):
    """What a failed attempt did to the cluster."""

    NOT_SENT = auto()  # nothing was written: the controller is not active yet
    UNKNOWN = auto()  # it may be in force, or come into force later


class _FailedAttempt(NamedTuple):
    """An attempt without results."""

    outcome: _Outcome
    error: LogError


class QuorumWriter:
    """Implements ClusterWriter."""

    def __init__(self, session: Session, errors: ClusterErrors, closing: threading.Event) -> None:
        """Send nothing yet. ``session`` is for this writer alone."""
        self._session = session
        self._errors = errors
        self._closing = closing
        self._lock = threading.Lock()
        self._known_end = 0
        self._pending_epoch: int | None = None  # epoch of the leader that has a request

    def require_cluster(self, cluster_id: str | None) -> None:
        """Refuse controllers of another cluster."""
        self._session.cluster_id = cluster_id

    def end_offset(self) -> int:
        """One past the last committed offset, asked from the leader now. Raises LogError."""
        with self._lock:
            return self._end_offset()

    def create(self, acls: Sequence[AclContent]) -> AclWriteResult[Refusal | None]:
        return self._carry_out(
            requests.create_acls(acls), responses.CREATE_ACLS, len(acls), is_idempotent=True
        )

    def delete(self, filters: Sequence[AclFilterContent]) -> AclWriteResult[Refusal | list[Removal]]:
        return self._carry_out(
            requests.delete_acls(filters), responses.DELETE_ACLS, len(filters), is_idempotent=False
        )

    def confirm_leader(self, epoch: int) -> None:
        """Stop waiting for the response of an earlier leader: there is one in ``epoch``. From any thread."""
        pending_epoch = self._pending_epoch
        if pending_epoch is not None and pending_epoch < epoch:
            self._session.abort()

    def abort(self) -> None:
        """End the connection. Idempotent, from any thread."""
        self._session.abort()

    def _end_offset(self) -> int:
        give_up_s = time.monotonic() + LEADER_TIMEOUT_S
        while True:
            self._session.connect()
            # From the known end on there is little to send; the first batch of the log may have megabytes.
            end_offset = self._session.fetch(self._known_end, None, None, bytes_max=1).high_watermark
            if end_offset is not None:
                self._known_end = end_offset
                return end_offset
            if time.monotonic() > give_up_s or self._closing.wait(_RETRY_INTERVAL_S):
                raise self._errors.no_committed_end()

    def _carry_out(
        self, request: Any, decoder: ResponseDecoder[list[_T]], items: int, *, is_idempotent: bool
    ) -> AclWriteResult[_T]:
        with self._lock:
            deadline_s = time.monotonic() + LEADER_TIMEOUT_S
            # Of an earlier attempt, whose records may be in the log or still get there.
            outcome_unknown_error: LogError | None = None
            while True:
                try:
                    self._end_offset()
                    attempt = self._attempt(request, decoder, items)
                except LogError as error:
                    raise outcome_unknown_error or error from error
                if not isinstance(attempt, _FailedAttempt):
                    return AclWriteResult(self._end_after(decoder.name), attempt)
                if attempt.outcome is _Outcome.UNKNOWN:
                    if outcome_unknown_error is None:  # the attempt itself may have taken long
                        deadline_s = time.monotonic() + LEADER_TIMEOUT_S
                    outcome_unknown_error = attempt.error
                is_over = time.monotonic() > deadline_s or self._closing.wait(_RETRY_INTERVAL_S)
                if is_over or (outcome_unknown_error is not None and not is_idempotent):
                    raise outcome_unknown_error or attempt.error

    def _attempt(
        self, request: Any, decoder: ResponseDecoder[list[_T]], items: int
    ) -> list[_T] | _FailedAttempt:
        epoch = self._session.epoch
        try:
            results = self._answer(request, decoder)
        except LogUnreachableError as error:
            return _FailedAttempt(_Outcome.UNKNOWN, self._errors.outcome_unknown(error, decoder.name))
        address = self._session.address
        self._errors.check_results(results, items, address, decoder.name)
        if not any(isinstance(result, Refusal) and result.code == _NOT_CONTROLLER for result in results):
            return results
        not_active = self._errors.not_active_controller(address, decoder.name)
        if self._is_leader_in(epoch):
            return _FailedAttempt(_Outcome.NOT_SENT, not_active)
        return _FailedAttempt(_Outcome.UNKNOWN, self._errors.outcome_unknown(not_active, decoder.name))

    def _answer(self, request: Any, decoder: ResponseDecoder[_T]) -> _T:
        self._pending_epoch = self._session.epoch
        try:
            return self._session.send_once(request, decoder, wait_s=_RESPONSE_TIMEOUT_S)
        finally:
            self._pending_epoch = None

    def _is_leader_in(self, epoch: int) -> bool:
        try:
            self._end_offset()
        except LogError:
            return False
        return self._session.epoch == epoch

    def _end_after(self, doing: str) -> int:
        try:
            return self._end_offset()
        except LogUnreachableError as error:
            raise self._errors.end_offset_unknown(error, doing) from error
