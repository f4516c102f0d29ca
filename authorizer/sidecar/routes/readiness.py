"""Readiness: whether decisions may be asked for, as ``/readyz`` answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from authorizer.node.fleet import Member
    from authorizer.node.node import NodeStatus


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one node.

    Attributes:
        ready: whether it is.
        offset: the end of what it has applied.
        lag_records: what of the log is still to come; None before the first look at it.
        reason: why it is not ready.
    """

    ready: bool
    offset: int
    lag_records: int | None
    reason: str | None = None

    @classmethod
    def of(cls, status: NodeStatus) -> Self:
        """A node's."""
        return cls(status.ready, status.end_offset, status.lag_records, status.not_ready_reason)

    @classmethod
    def of_member(cls, member: Member) -> Self:
        """A cluster's of a fleet, whether it has a node or not."""
        node = member.node
        return cls(False, 0, None, member.reason) if node is None else cls.of(node.status())
