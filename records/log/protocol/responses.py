"""Responses of controllers and brokers, decoded from bytes: each in the one version that is requested.

The fields come from kio's schemas (``entity_reader``). DescribeAcls alone is read field by field: a cluster
with 100,000 ACLs is read in 0.4 s of CPU so, and in 1.0 s by its schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.create_acls.v3.response import CreateAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsResponse
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.describe_cluster.v1.response import DescribeClusterResponse
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.response import FetchResponse as KafkaFetchResponse
from kio.schema.fetch_snapshot.v1.response import FetchSnapshotResponse
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from records.entries import METADATA_VERSION_FEATURE, AclContent, SupportedLevels
from records.errors import DecodeError
from records.flexible import MessageReader
from records.log.base import CheckpointId
from records.log.cluster_writer import Refusal, Removal
from records.log.protocol.entity_reader import entity_reader, error_code
from records.log.protocol.response_values import (
    NO_ERROR,
    DescribedAcls,
    FetchResponse,
    Leader,
    SnapshotPart,
)
from records.log.url import Address

_T = TypeVar("_T")

_UNKNOWN: Final = Leader(-1)


class MalformedResponseError(Exception):
    """Bytes that are no response to the request."""


@dataclass(frozen=True, slots=True)
class ResponseDecoder(Generic[_T]):
    """How a response is decoded."""

    schema: type[Any]
    read: Callable[[MessageReader], _T]

    @property
    def name(self) -> str:
        """Kafka's name of the request, for errors."""
        return self.schema.__name__.removesuffix("Response")


def decode_response(data: bytes, decoder: ResponseDecoder[_T], correlation_id: int) -> _T:
    """Decode the response in a frame's bytes.

    Raises:
        MalformedResponseError: they are none, or not that to this request.
    """
    reader = MessageReader(data)
    try:
        header = entity_reader(decoder.schema.__header_schema__)(reader)
        if header.correlation_id != correlation_id:
            raise MalformedResponseError(
                f"a response to request {header.correlation_id}, not {correlation_id}"
            )
        decoded = decoder.read(reader)
        reader.finish()
    except DecodeError as error:
        raise MalformedResponseError(f"no response to {decoder.name}: {error}") from error
    return decoded


def schema_decoder(schema: type[Any], convert: Callable[[Any], _T]) -> ResponseDecoder[_T]:
    """A decoder that reads the response by its schema and converts it."""
    return ResponseDecoder(schema, lambda reader: convert(entity_reader(schema)(reader)))


def error_name(code: ErrorCode | int) -> str:
    """Kafka's name of an error, in lower case."""
    return code.name if isinstance(code, ErrorCode) else f"error {code}"


# --- ApiVersions, DescribeCluster, DescribeQuorum --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """Response to ApiVersions.

    Attributes:
        supported: the levels of metadata.version that the binary supports; None if it does not say.
        metadata_version: the level that the cluster has; None if it has none yet, or does not say.
    """

    ranges: dict[int, tuple[int, int]]
    supported: SupportedLevels | None = None
    metadata_version: int | None = None


def _api_versions(found: ApiVersionsResponse) -> tuple[str, ApiVersions]:
    """(error, versions)."""
    ranges = {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in found.api_keys}
    supported = level = None
    for feature in found.supported_features:
        if feature.name == METADATA_VERSION_FEATURE:
            supported = SupportedLevels(feature.min_version, feature.max_version)
    for finalized in found.finalized_features:
        if finalized.name == METADATA_VERSION_FEATURE:
            level = int(finalized.max_version_level)
    return error_name(found.error_code), ApiVersions(ranges, supported, level)


class DescribedCluster(NamedTuple):
    """Response to DescribeCluster; ``nodes`` by id: all controllers, or of a broker all brokers."""

    cluster_id: str
    nodes: dict[int, Address]


def _described_cluster(found: DescribeClusterResponse) -> tuple[str, DescribedCluster]:
    """(error, cluster)."""
    nodes = {
        int(node.broker_id): Address(node.host, node.port) for node in found.brokers if _is_reachable(node)
    }
    return error_name(found.error_code), DescribedCluster(found.cluster_id, nodes)


def _is_reachable(endpoint: Any) -> bool:
    return bool(endpoint.host) and 0 < endpoint.port <= 0xFFFF


class DescribedQuorum(NamedTuple):
    """The quorum of the metadata log; -1: not known.

    ``controllers``: listeners of the voters (KIP-853); empty if the voters are configured statically.
    """

    leader_epoch: int
    high_watermark: int
    controllers: tuple[Address, ...]


def _described_quorum(found: DescribeQuorumResponse) -> tuple[str, DescribedQuorum]:
    """(error, quorum)."""
    error = error_name(found.error_code)
    if error != NO_ERROR:
        return error, DescribedQuorum(-1, -1, ())
    partition = _only(found.topics)
    controllers = tuple(
        Address(listener.host, listener.port) for node in found.nodes for listener in node.listeners
    )
    quorum = DescribedQuorum(partition.leader_epoch, partition.high_watermark, controllers)
    return error_name(partition.error_code), quorum


def _only(topics: tuple[Any, ...]) -> Any:
    """The one partition that was requested."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    if len(partitions) != 1:
        raise MalformedResponseError(f"a response about {len(partitions)} partitions, not one")
    return partitions[0]


# --- DescribeAcls ---------------------------------------------------------------------------------------


def describe_acls(known: bytes = b"") -> ResponseDecoder[tuple[str, DescribedAcls]]:
    """DescribeAcls; a response with this digest is not decoded again."""
    return ResponseDecoder(DescribeAclsResponse, partial(_described_acls, known))


def _described_acls(known: bytes, reader: MessageReader) -> tuple[str, DescribedAcls]:
    """(error, ACLs); codes are not checked: they may be newer than this build."""
    reader.signed(4, "throttle time")
    digest = blake2b(memoryview(reader.data)[reader.at :], digest_size=16).digest()
    if digest == known:
        reader.at = len(reader.data)
        return NO_ERROR, DescribedAcls(digest, None)
    code = reader.signed(2, "error code")
    reader.nullable_string("error message")
    acls: list[AclContent] = []
    for _ in reader.array("resources"):
        resource_type, name = reader.signed(1, "resource type"), reader.string("resource name")
        pattern_type = reader.signed(1, "pattern type")
        for _ in reader.array("ACLs"):
            principal, host = reader.string("principal"), reader.string("host")
            operation, permission_type = reader.signed(1, "operation"), reader.signed(1, "permission type")
            reader.skip_tagged_fields()
            acls.append((resource_type, name, pattern_type, principal, host, operation, permission_type))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return error_name(error_code(code)), DescribedAcls(digest, acls)


# --- Fetch and FetchSnapshot ----------------------------------------------------------------------------


def _leader(current: Any, endpoints: tuple[Any, ...]) -> Leader:
    """The leader that a partition names, with its address if the response has it."""
    if current is None:
        return _UNKNOWN
    if current.leader_id < 0:
        return Leader(current.leader_epoch)
    reachable = (node for node in endpoints if node.node_id == current.leader_id and _is_reachable(node))
    address = next((Address(node.host, node.port) for node in reachable), None)
    return Leader(current.leader_epoch, current.leader_id, address)


def _fetched(found: KafkaFetchResponse) -> FetchResponse:
    """Of version 17 or 18, which are the same."""
    error = error_name(found.error_code)
    if error != NO_ERROR:
        return FetchResponse(error=error, leader=_UNKNOWN)
    partition = _only(found.responses)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    has_snapshot = snapshot.end_offset >= 0 and snapshot.epoch >= 0
    return FetchResponse(
        error=error_name(partition.error_code),
        leader=_leader(partition.current_leader, found.node_endpoints),
        high_watermark=None if partition.high_watermark < 0 else partition.high_watermark,
        diverges_at=None if diverging.epoch < 0 or diverging.end_offset < 0 else diverging.end_offset,
        snapshot=CheckpointId(snapshot.end_offset, snapshot.epoch) if has_snapshot else None,
        records=partition.records or b"",
    )


def _snapshot_part(found: FetchSnapshotResponse) -> SnapshotPart:
    error = error_name(found.error_code)
    if error != NO_ERROR:
        return SnapshotPart(error=error, leader=_UNKNOWN)
    partition = _only(found.topics)
    return SnapshotPart(
        error=error_name(partition.error_code),
        leader=_leader(partition.current_leader, found.node_endpoints),
        size_bytes=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )


# --- CreateAcls and DeleteAcls --------------------------------------------------------------------------


def _refusal(result: Any) -> Refusal | None:
    error = error_name(result.error_code)
    return None if error == NO_ERROR else Refusal(error.upper(), result.error_message or error.upper())


def _created(found: CreateAclsResponse) -> list[Refusal | None]:
    return [_refusal(result) for result in found.results]


def _deleted(found: DeleteAclsResponse) -> list[Refusal | list[Removal]]:
    return [
        _refusal(result) or [_removal(acl) for acl in result.matching_acls] for result in found.filter_results
    ]


def _removal(found: Any) -> Removal:
    content = (
        found.resource_type, found.resource_name, found.pattern_type, found.principal, found.host,
        found.operation, found.permission_type,
    )  # fmt: skip
    return Removal(content, _refusal(found))


# --- SASL -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Response to SaslHandshake or SaslAuthenticate."""

    error: str
    message: str
    token: bytes = b""


def _sasl_handshake(found: SaslHandshakeResponse) -> Authenticated:
    return Authenticated(error_name(found.error_code), ", ".join(found.mechanisms) or "none")


def _sasl_authenticate(found: SaslAuthenticateResponse) -> Authenticated:
    error = error_name(found.error_code)
    return Authenticated(error, found.error_message or error, found.auth_bytes)


API_VERSIONS: Final = schema_decoder(ApiVersionsResponse, _api_versions)
DESCRIBE_CLUSTER: Final = schema_decoder(DescribeClusterResponse, _described_cluster)
DESCRIBE_QUORUM: Final = schema_decoder(DescribeQuorumResponse, _described_quorum)
CREATE_ACLS: Final = schema_decoder(CreateAclsResponse, _created)
DELETE_ACLS: Final = schema_decoder(DeleteAclsResponse, _deleted)
FETCH: Final = schema_decoder(KafkaFetchResponse, _fetched)
FETCH_SNAPSHOT: Final = schema_decoder(FetchSnapshotResponse, _snapshot_part)
SASL_HANDSHAKE: Final = schema_decoder(SaslHandshakeResponse, _sasl_handshake)
SASL_AUTHENTICATE: Final = schema_decoder(SaslAuthenticateResponse, _sasl_authenticate)
