"""Many changes of a Kafka cluster's ACLs, by consecutive requests: Kafka has no atomic request for them.

The order of the requests bounds the intermediate states:

    DENYs added, then ALLOWs      when a new ALLOW is added, all old and new DENYs are in force
    ALLOWs removed, then DENYs    when a DENY is removed, no ALLOW is left that it was needed against

So no request is allowed in between that is allowed neither before nor after, and a request that ACLs allow
both before and after is never denied. Callers pass the ACLs in that order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from authorizer.api.errors import ApiError, kafka_error
from records.entries import AccessControlEntryRecord, AclContent
from records.errors import LogOutcomeUnknownError, LogRefusedError, LogStorageError, LogUnreachableError
from records.ids import content_uuid
from records.log.cluster_writer import ClusterWriter, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.log.protocol.cluster_acls import ClusterAcls

#: ACLs in one request: a controller accepts 10,000 records, and scans all its ACLs for each removal.
_ACLS_PER_REQUEST: Final = 1_000


class Requests(Protocol):
    """Requests to one cluster.

    Each method raises ApiError or LogError if an item failed; LogRefusedError and LogUnreachableError only if
    nothing was written.
    """

    def create(self, acls: Sequence[AclContent]) -> None:
        """Create these ACLs; existing ones are no error."""

    def delete(self, acls: Sequence[AclContent]) -> None:
        """Remove exactly these ACLs; missing ones are no error."""


class WriterRequests:
    """Implements Requests to the cluster whose log is followed.

    ``end_offset``: end of the log after the last request; None before the first.
    """

    def __init__(self, writer: ClusterWriter) -> None:
        self.end_offset: int | None = None
        self._writer = writer

    def create(self, acls: Sequence[AclContent]) -> None:
        """As in Requests. The error names the first refused ACL."""
        answer = self._writer.create(acls)
        self.end_offset = answer.end_offset
        _require_accepted(acls, answer.results)

    def delete(self, acls: Sequence[AclContent]) -> None:
        answer = self._writer.delete(acls)
        self.end_offset = answer.end_offset
        _require_accepted(acls, answer.results)


class BrokerRequests:
    """Implements Requests to the brokers of a cluster. Errors as in WriterRequests."""

    def __init__(self, cluster: ClusterAcls) -> None:
        self._cluster = cluster

    def create(self, acls: Sequence[AclContent]) -> None:
        _require_accepted(acls, self._cluster.create(acls))

    def delete(self, acls: Sequence[AclContent]) -> None:
        _require_accepted(acls, self._cluster.delete(acls))


def _require_accepted(acls: Sequence[AclContent], results: Sequence[object]) -> None:
    for acl, result in zip(acls, results, strict=True):
        if isinstance(result, Refusal):
            shown = AccessControlEntryRecord(content_uuid(acl), *acl).standard_acl()
            raise kafka_error(result.code, f"{result.message} ({shown})")


def carry_out(
    requests: Requests,
    to_add: Sequence[AclContent],
    to_remove: Sequence[AclContent],
    *,
    in_part: str,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Create, DENYs first, then remove, DENYs last.

    ``in_part``: note for the error if some changes may be in force. ``on_progress`` gets the number of
    finished changes.

    Raises:
        ApiError: the cluster refuses an ACL.
        LogRefusedError, LogUnreachableError: the cluster refuses all changes or is unreachable; nothing was
            written.
        LogOutcomeUnknownError: any other failure.
    """
    done = 0
    for acls, send in ((to_add, requests.create), (to_remove, requests.delete)):
        for start in range(0, len(acls), _ACLS_PER_REQUEST):
            batch = acls[start : start + _ACLS_PER_REQUEST]
            try:
                send(batch)
            except LogStorageError as error:
                if not done and isinstance(error, LogRefusedError | LogUnreachableError):
                    raise
                raise LogOutcomeUnknownError(f"{error}; {in_part}") from error
            except ApiError as error:
                raise type(error)(f"{error}; {in_part}") from error
            done += len(batch)
            if on_progress is not None:
                on_progress(done)
