"""Values of the responses to Fetch, FetchSnapshot, DescribeAcls and DescribeCluster.

Errors have their names in Kafka's protocol, in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from records.entries import AclContent, SupportedLevels
from records.log.base import CheckpointId
from records.log.url import Address

NO_ERROR: Final = "none"
NOT_ALLOWED: Final = "cluster_authorization_failed"
#: The node does not lead, or the epochs differ; `leader` has what the node knows.
LEADER_ERRORS: Final = frozenset(
    {
        "not_leader_or_follower",
        "leader_not_available",
        "fenced_leader_epoch",
        "unknown_leader_epoch",
        "broker_not_available",
    }
)


@dataclass(frozen=True, slots=True)
class DescribedAcls:
    """Response to DescribeAcls; ``acls``: None: unchanged since the response with this digest."""

    digest: bytes
    acls: list[AclContent] | None


@dataclass(frozen=True, slots=True)
class ClusterLevels:
    """Level of metadata.version of a cluster, and the levels that the binaries of its brokers support.

    Attributes:
        metadata_version: None if the cluster has none, or does not report it.
        brokers: by broker id; empty unless they are known of all brokers.
    """

    metadata_version: int | None
    brokers: Mapping[int, SupportedLevels]


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader that a controller knows.

    Attributes:
        epoch: -1: not reported.
        node_id: None: it knows no leader of that epoch.
        address: None: not reported.
    """

    epoch: int
    node_id: int | None = None
    address: Address | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Response to Fetch.

    Attributes:
        error: `NO_ERROR`, or the error's name.
        leader: as the node knows it.
        high_watermark: None: the leader does not know it yet.
        diverges_at: the leader's log has another history from this offset on, at the latest.
        snapshot: fetch this first: the leader's log does not continue from the requested offset.
        records: batches; the last one may be truncated.
    """

    error: str = NO_ERROR
    leader: Leader
    high_watermark: int | None = None
    diverges_at: int | None = None
    snapshot: CheckpointId | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPart:
    """Response to FetchSnapshot: ``data`` starts at ``position`` of a snapshot of ``size_bytes``."""

    error: str = NO_ERROR
    leader: Leader
    size_bytes: int = 0
    position: int = 0
    data: bytes = b""


LeaderResponse = FetchResponse | SnapshotPart
