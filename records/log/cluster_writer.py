"""ClusterWriter: protocol for changing the ACLs of a Kafka cluster by CreateAcls and DeleteAcls.

ACLs and filters have codes, in the order of the record's fields; None in a filter matches everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from records.entries import AclContent

#: As AclContent; None for name, principal or host: any.
AclFilterContent = tuple[int, str | None, int, str | None, str | None, int, int]


class Refusal(NamedTuple):
    """Kafka's error for one item: the name of its code, such as INVALID_REQUEST, and its message."""

    code: str
    message: str


class Removal(NamedTuple):
    """One ACL that a filter matched; ``refusal`` None: it was removed."""

    acl: AclContent
    refusal: Refusal | None = None


_T = TypeVar("_T")


class AclWriteResult(NamedTuple, Generic[_T]):
    """``end_offset``: of the cluster's log after the request, whose records are below it."""

    end_offset: int
    results: list[_T]


class ClusterWriter(Protocol):
    """Thread-safe."""

    def create(self, acls: Sequence[AclContent]) -> AclWriteResult[Refusal | None]:
        """Create ACLs by one request, whose records the controller writes as one batch.

        Returns one result for each ACL; None: it is in force, also if it was before.

        Raises:
            EncodeError: the protocol cannot encode it; nothing was written.
            LogRefusedError: a right is missing, which the text names; nothing was written.
            LogUnreachableError: nothing was written.
            LogOutcomeUnknownError: no answer to the request, or to the query of the log's end.
        """

    def delete(self, filters: Sequence[AclFilterContent]) -> AclWriteResult[Refusal | list[Removal]]:
        """Remove the matching ACLs; returns one result for each filter. Raises as ``create``."""
