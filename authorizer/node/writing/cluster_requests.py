"""Many changes of a Kafka cluster's ACLs: by requests, one after the other, as its API has nothing atomic.

What may be seen on the way is bounded by the order:

    DENYs added, then ALLOWs      a new ALLOW meets all DENYs, those of before and those of after
    ALLOWs removed, then DENYs    a DENY goes when no ALLOW is there that it was needed against

so that nothing is allowed that is allowed neither before nor after, and what ACLs allow both before and after
is never denied. The ACLs are given in that order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from authorizer.api.errors import ApiError, kafka_error
from records.entries import AccessControlEntryRecord
from records.errors import LogOutcomeUnknownError, LogRefusedError, LogStorageError, LogUnreachableError
from records.ids import content_uuid
from records.log.cluster_writer import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.entries import AclContent
    from records.log.cluster_writer import ClusterWriter
    from records.log.protocol.cluster_acls import ClusterAcls

#: ACLs in one request: a controller takes 10,000 records, and goes through all its ACLs for each removal.
_ITEMS: Final = 1_000


class Requests(Protocol):
    """To one cluster.

    Each raises ApiError or LogError where an item was not carried out; LogRefusedError and
    LogUnreachableError, where nothing of the request was.
    """

    def create(self, acls: Sequence[AclContent]) -> None:
        """Create these; those that are there already stay."""

    def delete(self, acls: Sequence[AclContent]) -> None:
        """Remove exactly these; one that is not there is no error."""


class WriterRequests:
    """Implements Requests, to the cluster whose log is followed.

    Attributes:
        end_offset: of its log after the last request; None before the first.
    """

    def __init__(self, writer: ClusterWriter) -> None:
        self.end_offset: int | None = None
        self._writer = writer

    def create(self, acls: Sequence[AclContent]) -> None:
        """As Requests. The error names the first ACL that was refused."""
        answer = self._writer.create(acls)
        self.end_offset = answer.end_offset
        _require_accepted(acls, answer.results)

    def delete(self, acls: Sequence[AclContent]) -> None:
        """As ``create``."""
        answer = self._writer.delete(acls)
        self.end_offset = answer.end_offset
        _require_accepted(acls, answer.results)


class BrokerRequests:
    """Implements Requests, by the brokers of a cluster. Errors as WriterRequests."""

    def __init__(self, cluster: ClusterAcls) -> None:
        self._cluster = cluster

    def create(self, acls: Sequence[AclContent]) -> None:
        """As Requests."""
        _require_accepted(acls, self._cluster.create(acls))

    def delete(self, acls: Sequence[AclContent]) -> None:
        """As Requests."""
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
    """Create, then remove.

    Args:
        requests: to which cluster.
        to_add: DENYs first.
        to_remove: DENYs last.
        in_part: what to say where some of it may be in force.
        on_progress: called with how many are done.

    Raises:
        ApiError: the cluster refuses an ACL.
        LogRefusedError, LogUnreachableError: it does not let us, or takes none now; nothing was written.
        LogOutcomeUnknownError: anything else went wrong.
    """
    done = 0
    for items, ask in ((to_add, requests.create), (to_remove, requests.delete)):
        for start in range(0, len(items), _ITEMS):
            some = items[start : start + _ITEMS]
            try:
                ask(some)
            except LogStorageError as error:
                if not done and isinstance(error, LogRefusedError | LogUnreachableError):
                    raise
                raise LogOutcomeUnknownError(f"{error}; {in_part}") from error
            except ApiError as error:
                raise type(error)(f"{error}; {in_part}") from error
            done += len(some)
            if on_progress is not None:
                on_progress(done)
