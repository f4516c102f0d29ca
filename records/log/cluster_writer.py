"""ClusterWriter: how a Kafka cluster is asked to change its ACLs, by Kafka's own CreateAcls and DeleteAcls.

ACLs and filters are by their codes, in the order of the record's fields; what a filter does not name is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from records.entries import AclContent

if TYPE_CHECKING:
    from collections.abc import Sequence

#: As AclContent; None for name, principal or host: any.
AclFilterContent = tuple[int, str | None, int, str | None, str | None, int, int]


class Refusal(NamedTuple):
    """Kafka's error for one item: the name of its code, such as INVALID_REQUEST, and its message."""

    code: str
    message: str


class Removal(NamedTuple):
    """One ACL that a filter matched; ``refusal`` None: it is gone."""

    acl: AclContent
    refusal: Refusal | None = None


_T = TypeVar("_T")


class AclWriteResult(NamedTuple, Generic[_T]):
    """``end_offset``: of the cluster's log once the request was carried out: its records are below it."""

    end_offset: int
    results: list[_T]


class ClusterWriter(Protocol):
    """Thread-safe."""

    def create(self, acls: Sequence[AclContent]) -> AclWriteResult[Refusal | None]:
        """One result for each ACL; None where it is in force, also where it was before.

        One request, whose records the controller writes as one batch.

        Raises:
            EncodeError: the protocol cannot carry it; nothing was written.
            LogRefusedError: the cluster does not let us; nothing was written. The text names the right.
            LogUnreachableError: nothing was written.
            LogOutcomeUnknownError: it was sent, and no answer came, or none to where the log ends.
        """

    def delete(self, filters: Sequence[AclFilterContent]) -> AclWriteResult[Refusal | list[Removal]]:
        """One result for each filter. Raises as ``create``."""
