"""QuorumWriter: asks the active controller to change ACLs, which is the leader of the quorum.

Whether it still leads is seen by a fetch just before each request, on the same connection, which is then not
one that ended long ago. NOT_CONTROLLER has two meanings, by QuorumController: a new leader that is not active
yet, which has written nothing; or one that ceased to lead when its records were appended, which the next
leader may keep (`renounce`). It is the first where the fetch after it is answered in the same epoch, as no
epoch has two leaders, and none that renounced is active in it again.

A leader that hangs with a request is waited for until another one is seen to lead. A creation of unknown
outcome is sent again, as an ACL that is there already is no second record; a removal is not, as what it would
find then may be newer.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from records.errors import LogError, LogUnreachableError
from records.log.cluster_writer import Answered, Refusal
from records.log.protocol import requests, responses
from records.log.protocol.answers import NOT_ALLOWED
from records.log.quorum.session import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.entries import AclContent
    from records.log.cluster_writer import AclFilterContent, Removal
    from records.log.protocol.failure import Failure
    from records.log.protocol.responses import Answering
    from records.log.quorum.session import Session

#: A controller may take this long for the largest request.
_ANSWER_S: Final = 30.0
_PAUSE_S: Final = 0.05
_NOT_CONTROLLER: Final = "NOT_CONTROLLER"

_T = TypeVar("_T")


class QuorumWriter:
    """Implements ClusterWriter."""

    def __init__(self, session: Session, failure: Failure, closing: threading.Event) -> None:
        """Ask nobody yet; ``session`` is used by this alone."""
        self._session = session
        self._failure = failure
        self._closing = closing
        self._asking = threading.Lock()
        self._known_end = 0
        self._waits_in: int | None = None  # the epoch of the leader that has a request

    def expect(self, cluster_id: str | None) -> None:
        """Controllers of another cluster are refused."""
        self._session.cluster_id = cluster_id

    def end_offset(self) -> int:
        """One past the last committed offset, as the leader says now. LogError: it cannot be asked."""
        with self._asking:
            return self._end_offset()

    def create(self, acls: Sequence[AclContent]) -> Answered[Refusal | None]:
        return self._carry_out(requests.create_acls(acls), responses.CREATE_ACLS, len(acls), again=True)

    def delete(self, filters: Sequence[AclFilterContent]) -> Answered[Refusal | list[Removal]]:
        return self._carry_out(
            requests.delete_acls(filters), responses.DELETE_ACLS, len(filters), again=False
        )

    def seen_to_lead(self, epoch: int) -> None:
        """There is a leader in ``epoch``: an earlier one's answer is not waited for. From any thread."""
        waits_in = self._waits_in
        if waits_in is not None and waits_in < epoch:
            self._session.abort()

    def abort(self) -> None:
        """End the connection. Idempotent, from any thread."""
        self._session.abort()

    def _end_offset(self) -> int:
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            self._session.reach()
            # Behind what is known there is little to send; the first batch may have megabytes.
            end_offset = self._session.fetch(self._known_end, None, None, bytes_max=1).high_watermark
            if end_offset is not None:
                self._known_end = end_offset
                return end_offset
            if time.monotonic() > give_up_s or self._closing.wait(_PAUSE_S):
                raise self._failure.uncommitted()

    def _carry_out(
        self, request: Any, answering: Answering[list[_T]], items: int, *, again: bool
    ) -> Answered[_T]:
        with self._asking:
            give_up_s = time.monotonic() + PATIENCE_S
            doubt: LogError | None = None  # of an earlier try, which may be in force or come to be
            while True:
                trouble: LogError
                try:
                    self._end_offset()
                except LogError as error:
                    raise doubt or error from error
                epoch = self._session.epoch
                try:
                    results = self._answer(request, answering)
                except LogUnreachableError as error:
                    if doubt is None:  # so long nobody looked for a leader
                        give_up_s = time.monotonic() + PATIENCE_S
                    trouble = doubt = self._failure.unanswered(error, answering.name)
                else:
                    if len(results) != items:
                        why = f"{len(results)} results for {items} items"
                        raise self._failure.unanswered(
                            self._failure.not_kafka(self._session.address, why), answering.name
                        )
                    codes = {result.code for result in results if isinstance(result, Refusal)}
                    if NOT_ALLOWED.upper() in codes:
                        raise doubt or self._failure.may_not_write(self._session.address)
                    if _NOT_CONTROLLER not in codes:
                        return Answered(self._end_after(answering.name), results)
                    moving = self._failure.moving(self._session.address, answering.name)
                    if not self._leads_still(epoch):
                        doubt = self._failure.unanswered(moving, answering.name)
                    trouble = doubt or moving
                is_over = time.monotonic() > give_up_s or self._closing.wait(_PAUSE_S)
                if is_over or (doubt is not None and not again):
                    raise trouble

    def _answer(self, request: Any, answering: Answering[_T]) -> _T:
        self._waits_in = self._session.epoch
        try:
            return self._session.ask_once(request, answering, wait_s=_ANSWER_S)
        finally:
            self._waits_in = None

    def _leads_still(self, epoch: int) -> bool:
        """Whether who led in this epoch does so now."""
        try:
            self._end_offset()
        except LogError:
            return False
        return self._session.epoch == epoch

    def _end_after(self, doing: str) -> int:
        try:
            return self._end_offset()
        except LogUnreachableError as error:
            raise self._failure.unseen(error, doing) from error
