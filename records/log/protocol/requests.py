"""Requests to controllers and brokers, encoded by kio.

Fetch 17 (Kafka 3.9) or 18 (KIP-1166: it carries our high watermark, and the leader responds when that moves),
FetchSnapshot 1, DescribeCluster 1, CreateAcls 3, DeleteAcls 3, DescribeAcls 3, DescribeQuorum 2,
ApiVersions 3, SaslHandshake 1, SaslAuthenticate 2. The log is partition 0 of the metadata topic. We are
replica -1, without a directory id, of which the quorum stores nothing.
"""

from __future__ import annotations

import datetime as dt
import io
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.create_acls.v3 import request as create_request
from kio.schema.delete_acls.v3 import request as delete_request
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_quorum.v2 import request as quorum_request
from kio.schema.fetch.v17 import request as fetch_request_17
from kio.schema.fetch.v18 import request as fetch_request_18
from kio.schema.fetch_snapshot.v1 import request as snapshot_request
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i32, i32Timedelta, i64

from records.ids import METADATA_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.entries import AclContent
    from records.log.base import CheckpointId
    from records.log.cluster_writer import AclFilterContent

CLIENT_ID: Final = "aclog"
CLIENT_VERSION: Final = "0.1"

FETCH_KEY: Final = 1
FETCH_SNAPSHOT_KEY: Final = 59

#: From this version of Fetch on a leader also responds when only the high watermark moves.
FETCH_COMMIT_NOTICE_VERSION: Final = 18

#: Above the size of any batch (KafkaRaftClient.MAX_BATCH_SIZE_BYTES), so that each fits into a response.
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024 + 1024
_TOPIC: Final = "__cluster_metadata"
_TOPIC_UUID: Final = uuid.UUID(bytes=bytes(METADATA_TOPIC_ID))
_ANY: Final = i8(1)  # resource type, pattern type, operation and permission type of a filter

#: DescribeCluster's endpoint types.
BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParameters:
    """Parameters of a Fetch (KIP-595); ``high_watermark`` None: unknown."""

    cluster_id: str | None
    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int | None
    wait_ms: int = 0
    bytes_max: int = FETCH_BYTES_MAX


def request_bytes(request: Any, correlation_id: int) -> bytes:
    """Encode a request with its header, without the length before it."""
    header_schema = request.__header_schema__
    header = header_schema(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(correlation_id),
        client_id=CLIENT_ID,
    )
    out = io.BytesIO()
    entity_writer(header_schema)(out, header)
    entity_writer(type(request))(out, request)
    return out.getvalue()


def api_versions() -> ApiVersionsRequest:
    """The first request of each connection."""
    return ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=CLIENT_VERSION)


def describe_cluster(endpoint_type: int) -> DescribeClusterRequest:
    """Cluster id and nodes, for `BROKER_ENDPOINTS` or `CONTROLLER_ENDPOINTS` (KIP-919)."""
    return DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(endpoint_type)
    )


def describe_acls() -> DescribeAclsRequest:
    """All ACLs."""
    return DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def describe_quorum() -> quorum_request.DescribeQuorumRequest:
    """Epoch and high watermark of the metadata log (KIP-595); a broker asks the quorum's leader."""
    partition = quorum_request.PartitionData(partition_index=i32(0))
    topic = quorum_request.TopicData(topic_name=TopicName(_TOPIC), partitions=(partition,))
    return quorum_request.DescribeQuorumRequest(topics=(topic,))


def fetch(parameters: FetchParameters, version: int) -> Any:
    """Fetch of version 17 or 18."""
    reports_commits = version >= FETCH_COMMIT_NOTICE_VERSION
    schema: Any = fetch_request_18 if reports_commits else fetch_request_17
    known = -1 if parameters.high_watermark is None else parameters.high_watermark
    partition = schema.FetchPartition(
        partition=i32(0),
        current_leader_epoch=i32(parameters.leader_epoch),
        fetch_offset=i64(parameters.offset),
        last_fetched_epoch=i32(parameters.last_epoch),
        partition_max_bytes=i32(parameters.bytes_max),
        **({"high_watermark": i64(known)} if reports_commits else {}),
    )
    return schema.FetchRequest(
        cluster_id=parameters.cluster_id,
        max_wait=i32Timedelta.parse(dt.timedelta(milliseconds=parameters.wait_ms)),
        min_bytes=i32(1 if parameters.wait_ms else 0),
        max_bytes=i32(parameters.bytes_max),
        topics=(schema.FetchTopic(topic_id=_TOPIC_UUID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def fetch_snapshot(cluster_id: str | None, leader_epoch: int, snapshot: CheckpointId, position: int) -> Any:
    """Part of a snapshot, from ``position`` on."""
    partition = snapshot_request.PartitionSnapshot(
        partition=i32(0),
        current_leader_epoch=i32(leader_epoch),
        snapshot_id=snapshot_request.SnapshotId(
            end_offset=i64(snapshot.end_offset), epoch=i32(snapshot.epoch)
        ),
        position=i64(position),
    )
    return snapshot_request.FetchSnapshotRequest(
        cluster_id=cluster_id,
        max_bytes=i32(FETCH_BYTES_MAX),
        topics=(snapshot_request.TopicSnapshot(name=TopicName(_TOPIC), partitions=(partition,)),),
    )


def create_acls(acls: Sequence[AclContent]) -> create_request.CreateAclsRequest:
    """Create these ACLs."""
    return create_request.CreateAclsRequest(
        creations=tuple(
            create_request.AclCreation(
                resource_type=i8(resource_type),
                resource_name=name,
                resource_pattern_type=i8(pattern_type),
                principal=principal,
                host=host,
                operation=i8(operation),
                permission_type=i8(permission_type),
            )
            for resource_type, name, pattern_type, principal, host, operation, permission_type in acls
        )
    )


def delete_acls(filters: Sequence[AclFilterContent]) -> delete_request.DeleteAclsRequest:
    """Delete the ACLs that match one of the filters."""
    return delete_request.DeleteAclsRequest(
        filters=tuple(
            delete_request.DeleteAclsFilter(
                resource_type_filter=i8(resource_type),
                resource_name_filter=name,
                pattern_type_filter=i8(pattern_type),
                principal_filter=principal,
                host_filter=host,
                operation=i8(operation),
                permission_type=i8(permission_type),
            )
            for resource_type, name, pattern_type, principal, host, operation, permission_type in filters
        )
    )


def sasl_handshake(mechanism: str) -> SaslHandshakeRequest:
    """Choose the SASL mechanism."""
    return SaslHandshakeRequest(mechanism=mechanism)


def sasl_authenticate(token: bytes) -> SaslAuthenticateRequest:
    """One message of the mechanism's exchange."""
    return SaslAuthenticateRequest(auth_bytes=token)
