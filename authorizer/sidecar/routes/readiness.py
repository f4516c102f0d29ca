"""Readiness of a node or of a fleet's cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.http.answers import Readiness

if TYPE_CHECKING:
    from authorizer.node.fleet import Member
    from authorizer.node.node import NodeStatus


def node_readiness(status: NodeStatus) -> Readiness:
    """Readiness of a node."""
    return Readiness(status.ready, status.end_offset, status.lag_records, status.not_ready_reason)


def member_readiness(member: Member) -> Readiness:
    """Readiness of a fleet's cluster, which may have no node."""
    node = member.node
    return Readiness(False, 0, None, member.reason) if node is None else node_readiness(node.status())
