"""What controllers and brokers answer, from bytes: each answer that is asked for, in the one version that is.

kio's reader is not used here: it reserves memory for as many elements as an array claims to have, and ends
the process where that is too much. Here nothing is reserved before it has come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final, Generic, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from records.entries import METADATA_VERSION_FEATURE, AclContent, SupportedLevels
from records.errors import DecodeError
from records.flexible import MessageReader
from records.log.bootstrap_servers import Address
from records.log.cluster_writer import Refusal, Removal
from records.log.protocol.response_values import (
    NO_ERROR,
    DescribedAcls,
    FetchResponse,
    Leader,
    SnapshotId,
    SnapshotPart,
)

_T = TypeVar("_T")


class MalformedResponseError(Exception):
    """Bytes that are no answer to what was asked."""


@dataclass(frozen=True, slots=True)
class ResponseDecoder(Generic[_T]):
    """How an answer is read.

    Attributes:
        name: of the request, for errors.
        has_tagged_header: whether its header is that of a flexible message.
        read: its body.
    """

    name: str
    has_tagged_header: bool
    read: Callable[[MessageReader], _T]


@dataclass(frozen=True, slots=True)
class Authenticated:
    """LeaderResponse to SaslHandshake and SaslAuthenticate."""

    error: str
    message: str
    token: bytes = b""


def decode_response(data: bytes, decoder: ResponseDecoder[_T], correlation_id: int) -> _T:
    """The answer in a frame's bytes.

    Raises:
        MalformedResponseError: they are not one, or not that to this request.
    """
    reader = MessageReader(data)
    try:
        found_id = reader.signed(4, "correlation id")
        if found_id != correlation_id:
            raise MalformedResponseError(f"an answer to request {found_id}, not {correlation_id}")
        if decoder.has_tagged_header:
            reader.skip_tagged_fields()
        answer = decoder.read(reader)
        reader.finish()
    except DecodeError as error:
        raise MalformedResponseError(f"no answer to {decoder.name}: {error}") from error
    return answer


def _error(reader: MessageReader) -> str:
    code = reader.signed(2, "error code")
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """LeaderResponse to ApiVersions.

    Attributes:
        ranges: first and last version by API key.
        supported: the levels of metadata.version that the binary supports; None if it does not say.
        metadata_version: the level that the cluster has; None if it has none yet, or does not say.
    """

    ranges: dict[int, tuple[int, int]]
    supported: SupportedLevels | None = None
    metadata_version: int | None = None


# Tags of ApiVersionsResponse.
_SUPPORTED_FEATURES: Final = 0
_FINALIZED_FEATURES: Final = 2


def _api_versions(reader: MessageReader) -> ApiVersions:
    error = _error(reader)
    ranges = {}
    for _ in reader.array("APIs"):
        key = reader.signed(2, "API key")
        ranges[key] = (reader.signed(2, "first version"), reader.signed(2, "last version"))
        reader.skip_tagged_fields()
    reader.signed(4, "throttle time")
    supported = level = None
    for tag, field in reader.tagged_fields():
        if tag == _SUPPORTED_FEATURES and (found := _metadata_version_in(field)) is not None:
            supported = SupportedLevels(*found)
        elif tag == _FINALIZED_FEATURES and (found := _metadata_version_in(field)) is not None:
            level, _ = found  # the highest comes first here
    if error != NO_ERROR:
        raise MalformedResponseError(f"ApiVersions: {error.upper()}")
    return ApiVersions(ranges, supported, level)


def _metadata_version_in(reader: MessageReader) -> tuple[int, int] | None:
    """Both levels of metadata.version in a list of features; None if it is not there."""
    levels = None
    for _ in reader.array("features"):
        name = reader.string("feature name")
        found = reader.signed(2, "first level"), reader.signed(2, "second level")
        reader.skip_tagged_fields()
        if name == METADATA_VERSION_FEATURE:
            levels = found
    return levels


def _api_versions_again(reader: MessageReader) -> tuple[str, ApiVersions]:
    return NO_ERROR, _api_versions(reader)


@dataclass(frozen=True, slots=True)
class DescribedCluster:
    """LeaderResponse to DescribeCluster; ``nodes`` by id: all controllers, or of a broker all brokers."""

    error: str
    cluster_id: str
    nodes: dict[int, Address]

    @property
    def controllers(self) -> tuple[Address, ...]:
        """The addresses."""
        return tuple(self.nodes.values())


def _described_brokers(reader: MessageReader) -> tuple[str, tuple[str, dict[int, Address]]]:
    """(error, (cluster id, brokers))."""
    described = _described_cluster(reader)
    return described.error, (described.cluster_id, described.nodes)


def _described_cluster(reader: MessageReader) -> DescribedCluster:
    reader.signed(4, "throttle time")
    error = _error(reader)
    reader.nullable_string("error message")
    reader.signed(1, "endpoint type")
    cluster_id = reader.string("cluster id")
    reader.signed(4, "controller id")
    nodes = {}
    for _ in reader.array("nodes"):
        node_id = reader.signed(4, "node id")
        host, port = reader.string("host"), reader.signed(4, "port")
        reader.nullable_string("rack")
        reader.skip_tagged_fields()
        if host and 0 < port <= 0xFFFF:
            nodes[node_id] = Address(host, port)
    reader.signed(4, "authorized operations")
    reader.skip_tagged_fields()
    return DescribedCluster(error, cluster_id, nodes)


def _described_acls(known: bytes, reader: MessageReader) -> tuple[str, DescribedAcls]:
    """(error, ACLs); codes as they come, also those that nothing here has a name for."""
    reader.signed(4, "throttle time")
    digest = blake2b(memoryview(reader.data)[reader.at :], digest_size=16).digest()
    if digest == known:
        reader.at = len(reader.data)
        return NO_ERROR, DescribedAcls(digest, None)
    error = _error(reader)
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
    return error, DescribedAcls(digest, acls)


class DescribedQuorum(NamedTuple):
    """The quorum of the metadata log; -1: not known.

    Attributes:
        leader_epoch: of the leader.
        high_watermark: as the leader knows it.
        controllers: listeners of the voters (KIP-853); empty if the voters are configured statically.
    """

    leader_epoch: int
    high_watermark: int
    controllers: tuple[Address, ...]


def _described_quorum(reader: MessageReader) -> tuple[str, DescribedQuorum]:
    """An error and the quorum."""
    error = _error(reader)
    reader.nullable_string("error message")
    found: list[tuple[str, tuple[int, int]]] = []
    for _ in reader.array("topics"):
        reader.string("topic")
        found += [_described_partition(reader) for _ in reader.array("partitions")]
        reader.skip_tagged_fields()
    controllers: list[Address] = []
    for _ in reader.array("nodes"):
        reader.signed(4, "node id")
        for _ in reader.array("listeners"):
            reader.string("name")
            controllers.append(Address(reader.string("host"), reader.uint16("port")))
            reader.skip_tagged_fields()
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    if error == NO_ERROR:
        error, (epoch, high_watermark) = _only(found)
        return error, DescribedQuorum(epoch, high_watermark, tuple(controllers))
    return error, DescribedQuorum(-1, -1, ())


def _described_partition(reader: MessageReader) -> tuple[str, tuple[int, int]]:
    reader.signed(4, "partition")
    error = _error(reader)
    reader.nullable_string("error message")
    reader.signed(4, "leader id")
    epoch, high_watermark = reader.signed(4, "leader epoch"), reader.signed(8, "high watermark")
    for replicas in ("voters", "observers"):
        for _ in reader.array(replicas):
            reader.signed(4, "replica id")
            reader.uuid("replica directory id")
            for what in ("log end offset", "last fetch", "last caught up"):
                reader.signed(8, what)
            reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return error, (epoch, high_watermark)


# --- Fetch and FetchSnapshot ----------------------------------------------------------------------------

_UNKNOWN: Final = Leader(-1)


@dataclass(slots=True)
class _Known:
    """What an answer says of the leader, in two places."""

    epoch: int = -1
    node_id: int = -1
    addresses: tuple[tuple[int, Address], ...] = ()

    @property
    def leader(self) -> Leader:
        if self.node_id < 0:
            return Leader(self.epoch)
        address = next((at for node_id, at in self.addresses if node_id == self.node_id), None)
        return Leader(self.epoch, self.node_id, address)

    def read_leader(self, reader: MessageReader) -> None:
        self.node_id = reader.signed(4, "leader id")
        self.epoch = reader.signed(4, "leader epoch")
        reader.skip_tagged_fields()

    def read_addresses(self, reader: MessageReader, *, of_fetch: bool) -> None:
        found = []
        for _ in reader.array("endpoints"):
            node_id, host = reader.signed(4, "node id"), reader.string("host")
            port = reader.signed(4, "port") if of_fetch else reader.uint16("port")
            if of_fetch:
                reader.nullable_string("rack")
            reader.skip_tagged_fields()
            if host and 0 < port <= 0xFFFF:
                found.append((node_id, Address(host, port)))
        self.addresses = tuple(found)


def _nullable_bytes(reader: MessageReader, what: str) -> bytes:
    size = reader.unsigned_varint() - 1
    return b"" if size < 0 else reader.take(size, what)


def _snapshot_id(reader: MessageReader) -> SnapshotId | None:
    end_offset, epoch = reader.signed(8, "end offset"), reader.signed(4, "epoch")
    reader.skip_tagged_fields()
    return None if end_offset < 0 or epoch < 0 else SnapshotId(end_offset, epoch)


def _fetched(reader: MessageReader) -> FetchResponse:
    """Of version 17 or 18, which are the same."""
    reader.signed(4, "throttle time")
    error = _error(reader)
    reader.signed(4, "session id")
    known = _Known()
    found: list[FetchResponse] = []
    for _ in reader.array("topics"):
        reader.uuid("topic id")
        found += [_fetched_partition(reader, known) for _ in reader.array("partitions")]
        reader.skip_tagged_fields()
    for tag, field in reader.tagged_fields():
        if tag == 0:
            known.read_addresses(field, of_fetch=True)
    if error != NO_ERROR:
        return FetchResponse(error=error, leader=_UNKNOWN)
    fetched = _only(found)
    return FetchResponse(
        error=fetched.error,
        leader=known.leader,
        high_watermark=fetched.high_watermark,
        diverges_at=fetched.diverges_at,
        snapshot=fetched.snapshot,
        records=fetched.records,
    )


def _fetched_partition(reader: MessageReader, known: _Known) -> FetchResponse:
    reader.signed(4, "partition")
    error = _error(reader)
    high_watermark = reader.signed(8, "high watermark")
    reader.signed(8, "last stable offset")
    reader.signed(8, "log start offset")
    for _ in range(reader.unsigned_varint() - 1):
        reader.signed(8, "producer id")
        reader.signed(8, "first offset")
        reader.skip_tagged_fields()
    reader.signed(4, "preferred read replica")
    records = _nullable_bytes(reader, "records")
    diverges_at = snapshot = None
    for tag, field in reader.tagged_fields():
        if tag == 0:
            epoch, end_offset = field.signed(4, "epoch"), field.signed(8, "end offset")
            diverges_at = None if epoch < 0 or end_offset < 0 else end_offset
        elif tag == 1:
            known.read_leader(field)
        elif tag == 2:
            snapshot = _snapshot_id(field)
    return FetchResponse(
        error=error,
        leader=_UNKNOWN,
        high_watermark=None if high_watermark < 0 else high_watermark,
        diverges_at=diverges_at,
        snapshot=snapshot,
        records=records,
    )


def _snapshot_part(reader: MessageReader) -> SnapshotPart:
    reader.signed(4, "throttle time")
    error = _error(reader)
    known = _Known()
    found: list[tuple[str, int, int, bytes]] = []
    for _ in reader.array("topics"):
        reader.string("topic")
        found += [_snapshot_partition(reader, known) for _ in reader.array("partitions")]
        reader.skip_tagged_fields()
    for tag, field in reader.tagged_fields():
        if tag == 0:
            known.read_addresses(field, of_fetch=False)
    if error != NO_ERROR:
        return SnapshotPart(error=error, leader=_UNKNOWN)
    error, size_bytes, position, data = _only(found)
    return SnapshotPart(error=error, leader=known.leader, size_bytes=size_bytes, position=position, data=data)


def _snapshot_partition(reader: MessageReader, known: _Known) -> tuple[str, int, int, bytes]:
    reader.signed(4, "partition")
    error = _error(reader)
    _snapshot_id(reader)
    size_bytes, position = reader.signed(8, "size"), reader.signed(8, "position")
    data = _nullable_bytes(reader, "records")
    for tag, field in reader.tagged_fields():
        if tag == 0:
            known.read_leader(field)
    return error, size_bytes, position, data


def _only(partitions: list[_T]) -> _T:
    if len(partitions) != 1:
        raise MalformedResponseError(f"an answer about {len(partitions)} partitions, not one")
    return partitions[0]


# --- CreateAcls and DeleteAcls --------------------------------------------------------------------------


def _refusal(reader: MessageReader) -> Refusal | None:
    error, message = _error(reader), reader.nullable_string("error message")
    return None if error == NO_ERROR else Refusal(error.upper(), message or error.upper())


def _created(reader: MessageReader) -> list[Refusal | None]:
    reader.signed(4, "throttle time")
    results = []
    for _ in reader.array("results"):
        results.append(_refusal(reader))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return results


def _deleted(reader: MessageReader) -> list[Refusal | list[Removal]]:
    reader.signed(4, "throttle time")
    results: list[Refusal | list[Removal]] = []
    for _ in reader.array("results"):
        refusal = _refusal(reader)
        removals = [_removal(reader) for _ in reader.array("ACLs")]
        reader.skip_tagged_fields()
        results.append(removals if refusal is None else refusal)
    reader.skip_tagged_fields()
    return results


def _removal(reader: MessageReader) -> Removal:
    refusal = _refusal(reader)
    acl = (
        reader.signed(1, "resource type"),
        reader.string("resource name"),
        reader.signed(1, "pattern type"),
        reader.string("principal"),
        reader.string("host"),
        reader.signed(1, "operation"),
        reader.signed(1, "permission type"),
    )
    reader.skip_tagged_fields()
    return Removal(acl, refusal)


# --- SASL -----------------------------------------------------------------------------------------------


def _sasl_handshake(reader: MessageReader) -> Authenticated:
    """Not a flexible message: sizes are int32 and int16."""
    error = _error(reader)
    takes = [
        reader.take(reader.uint16("mechanism"), "mechanism").decode("utf-8", "replace")
        for _ in range(reader.signed(4, "mechanisms"))
    ]
    return Authenticated(error, ", ".join(takes) or "none")


def _sasl_authenticate(reader: MessageReader) -> Authenticated:
    error = _error(reader)
    message = reader.nullable_string("error message") or error
    token = _nullable_bytes(reader, "token")
    reader.signed(8, "session lifetime")
    reader.skip_tagged_fields()
    return Authenticated(error, message, token)


# ApiVersions' header is never flexible, so that any version of it can be answered (KIP-511).
API_VERSIONS: Final = ResponseDecoder("ApiVersions", has_tagged_header=False, read=_api_versions)
DESCRIBE_CLUSTER: Final = ResponseDecoder("DescribeCluster", has_tagged_header=True, read=_described_cluster)
DESCRIBE_BROKERS: Final = ResponseDecoder("DescribeCluster", has_tagged_header=True, read=_described_brokers)
API_VERSIONS_AGAIN: Final = ResponseDecoder("ApiVersions", has_tagged_header=False, read=_api_versions_again)
DESCRIBE_QUORUM: Final = ResponseDecoder("DescribeQuorum", has_tagged_header=True, read=_described_quorum)
CREATE_ACLS: Final = ResponseDecoder("CreateAcls", has_tagged_header=True, read=_created)
DELETE_ACLS: Final = ResponseDecoder("DeleteAcls", has_tagged_header=True, read=_deleted)
FETCH: Final = ResponseDecoder("Fetch", has_tagged_header=True, read=_fetched)
FETCH_SNAPSHOT: Final = ResponseDecoder("FetchSnapshot", has_tagged_header=True, read=_snapshot_part)
SASL_HANDSHAKE: Final = ResponseDecoder("SaslHandshake", has_tagged_header=False, read=_sasl_handshake)
SASL_AUTHENTICATE: Final = ResponseDecoder(
    "SaslAuthenticate", has_tagged_header=True, read=_sasl_authenticate
)


def describe_acls(known: bytes = b"") -> ResponseDecoder[tuple[str, DescribedAcls]]:
    """DescribeAcls; an answer of this digest is not read, for it was before."""
    return ResponseDecoder("DescribeAcls", has_tagged_header=True, read=partial(_described_acls, known))
