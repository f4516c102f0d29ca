"""What is answered to Fetch, FetchSnapshot and DescribeAcls, in this project's terms.

Errors are named as in Kafka's protocol, in small letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from records.entries import AclContent, SupportedLevels
from records.log.bootstrap_servers import Address

NO_ERROR: Final = "none"
NOT_ALLOWED: Final = "cluster_authorization_failed"
#: The asked one does not lead, or we and it do not agree on the epoch: `leader` says what it knows.
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
    """Answer to DescribeAcls.

    Attributes:
        digest: of its bytes.
        acls: None: those of the answer before, which had this digest.
    """

    digest: bytes
    acls: list[AclContent] | None


@dataclass(frozen=True, slots=True)
class ClusterLevels:
    """Which metadata.version a cluster has, and which ones the binaries of its brokers support.

    Attributes:
        metadata_version: None if the cluster has none, or does not say.
        brokers: by broker id; empty if that is not known of all brokers.
    """

    metadata_version: int | None
    brokers: Mapping[int, SupportedLevels]


@dataclass(frozen=True, slots=True)
class Leader:
    """Whom a controller knows as leader.

    Attributes:
        epoch: -1 where it does not say.
        node_id: None: it knows of none in that epoch.
        address: None where it does not say.
    """

    epoch: int
    node_id: int | None = None
    address: Address | None = None


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """All below ``end_offset``, the last of it written in ``epoch``."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Answer to Fetch.

    Attributes:
        error: `NO_ERROR`, or which.
        leader: as the asked one knows it.
        high_watermark: None: a leader that does not know it yet.
        diverges_at: the asked one's log has another history from this offset on, at the latest.
        snapshot: what is to be fetched instead: its log does not lead on from there.
        records: batches, the last of which may be cut short.
    """

    error: str = NO_ERROR
    leader: Leader
    high_watermark: int | None = None
    diverges_at: int | None = None
    snapshot: SnapshotId | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPart:
    """Answer to FetchSnapshot: ``data`` are the bytes from ``position`` on, of ``size_bytes`` in all."""

    error: str = NO_ERROR
    leader: Leader
    size_bytes: int = 0
    position: int = 0
    data: bytes = b""


Answer = Fetched | SnapshotPart
