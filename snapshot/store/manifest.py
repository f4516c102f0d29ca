"""The manifest of a stored snapshot: its content, log and offset. Writing it commits the snapshot.

JSON, one object, format version 1, or 2 where a part has changes:

    formatVersion        1 or 2; anything newer is SnapshotUnsupportedError
    clusterId, topicId   the log (I9); topicId as Kafka's 22 characters
    endOffset            last contained offset + 1
    epoch, timestampMs   leader epoch of the last contained batch; time of the last contained record
    emptyTail            only if not 0: number of offsets just below endOffset that hold no record
    logEndTimeMs         last time at which endOffset was the log's end (I10)
    gapUntil             only if beyond endOffset: gaps before endOffset may hide records that count (I6);
                         continued to gapUntil, the state is one that the log had
    count                ACLs; countByResourceType the same by type: Kafka's names, or the code as text
    digest               32 hexadecimal digits (I12)
    features             feature levels of the log, including metadata.version
    brokers              only if there are some: by broker id the lowest and the highest metadata.version
                         that its binary supports
    parts                name, rows, bytes and SHA-256 of each Parquet file; in version 2 optionally
                         ``changes``: the same of the part's changes file (parquet.py), and ``count``, the
                         ACLs of both together
    metadata             name, bytes and SHA-256 of the metadata file (metadata_file.py), if there is one
    checksum             SHA-256 of all fields above, as compact JSON with sorted keys in ASCII

The checksum protects fields that nothing else does: a flipped bit in the metadata.version would change how
hosts are matched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import msgspec

from records.acl import ResourceType, code_from_name, code_to_name
from records.entries import SupportedLevels
from records.errors import DecodeError
from records.ids import uuid_from_string, uuid_to_string
from records.log.base import LogIdentity
from snapshot.digest import digest_from_string, digest_to_string
from snapshot.errors import SnapshotCorruptError, SnapshotUnsupportedError
from snapshot.image import Provenance
from snapshot.store.layout import SnapshotRef, is_part_name

FORMAT_VERSION: Final = 2
# Older versions of aclog read and continue snapshots without changes.
_WITHOUT_CHANGES: Final = 1


@dataclass(frozen=True, slots=True)
class ChangePart:
    """The changes file of a part; ``count``: ACLs of the part with its changes."""

    name: str
    rows: int
    bytes: int
    sha256: str
    count: int


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """The metadata file (metadata_file.py)."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One Parquet file of a snapshot, optionally with a changes file in the same directory."""

    name: str
    rows: int
    bytes: int
    sha256: str
    changes: ChangePart | None = None

    @property
    def count(self) -> int:
        """Number of ACLs, changes applied."""
        return self.rows if self.changes is None else self.changes.count

    @property
    def files(self) -> tuple[SnapshotPart | ChangePart, ...]:
        return (self,) if self.changes is None else (self, self.changes)


SnapshotFile = SnapshotPart | ChangePart | MetadataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest:
    """The manifest's fields; see the module."""

    identity: LogIdentity
    provenance: Provenance
    log_end_time_ms: int
    count: int
    count_by_resource_type: Mapping[int, int]
    digest: int
    features: Mapping[str, int]
    parts: tuple[SnapshotPart, ...]
    brokers: Mapping[int, SupportedLevels] = field(default_factory=dict)
    metadata: MetadataFile | None = None
    gap_until: int = 0

    @property
    def ref(self) -> SnapshotRef:
        """Its name in the store."""
        return SnapshotRef(
            cluster_id=self.identity.cluster_id,
            epoch=self.provenance.epoch,
            end_offset=self.provenance.end_offset,
        )

    @property
    def files(self) -> tuple[SnapshotFile, ...]:
        """All of its files except the manifest."""
        parts: tuple[SnapshotFile, ...] = tuple(file for part in self.parts for file in part.files)
        return parts if self.metadata is None else (*parts, self.metadata)

    @property
    def is_exact(self) -> bool:
        """Whether the log is known to have had this state at its end offset (I6)."""
        return self.gap_until <= self.provenance.end_offset

    def to_json(self) -> bytes:
        has_changes = any(part.changes is not None for part in self.parts)
        fields: dict[str, Any] = {
            "formatVersion": FORMAT_VERSION if has_changes else _WITHOUT_CHANGES,
            "clusterId": self.identity.cluster_id,
            "topicId": uuid_to_string(self.identity.topic_id),
            "endOffset": self.provenance.end_offset,
            "epoch": self.provenance.epoch,
            "timestampMs": self.provenance.timestamp_ms,
            "logEndTimeMs": self.log_end_time_ms,
            "count": self.count,
            "countByResourceType": {
                code_to_name(ResourceType, code): count
                for code, count in sorted(self.count_by_resource_type.items())
            },
            "digest": digest_to_string(self.digest),
            "features": dict(sorted(self.features.items())),
            "parts": [
                {name: value for name, value in asdict(part).items() if value is not None}
                for part in self.parts
            ],
        }
        if self.brokers:
            fields["brokers"] = {str(each): levels for each, levels in sorted(self.brokers.items())}
        if self.metadata is not None:
            fields["metadata"] = asdict(self.metadata)
        if not self.is_exact:
            fields["gapUntil"] = self.gap_until
        if self.provenance.empty_tail:
            fields["emptyTail"] = self.provenance.empty_tail
        return json.dumps(fields | {"checksum": _checksum(fields)}, indent=2).encode("ascii") + b"\n"

    @classmethod
    def from_json(cls, data: bytes, *, source: str) -> SnapshotManifest:
        """Parse and check the text of ``manifest.json``; ``source`` names it in errors.

        SnapshotCorruptError: not a manifest, or a damaged one. SnapshotUnsupportedError: a newer format
        version.
        """
        try:
            fields = json.loads(data)
            _require(isinstance(fields, dict), "not a JSON object")
            # The version first: a newer format may have other fields.
            _check_version(fields.get("formatVersion"), source)
            stored = msgspec.convert(fields, _Fields)
            checksum = fields.pop("checksum")
            _require(checksum == _checksum(fields), "its checksum does not match its fields")
            return stored.manifest()
        except (ValueError, DecodeError, RecursionError) as error:
            # ValueError includes json.JSONDecodeError, UnicodeDecodeError and msgspec.ValidationError.
            raise SnapshotCorruptError(f"{source} is not a snapshot manifest: {error}") from error


_Count = Annotated[int, msgspec.Meta(ge=0)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    rows: _Count
    bytes: _Count
    sha256: _Sha256


class _Changes(_File):
    count: _Count


class _Part(_File):
    changes: _Changes | None = None

    def part(self) -> SnapshotPart:
        changes = None if self.changes is None else ChangePart(*msgspec.structs.astuple(self.changes))
        return SnapshotPart(self.name, self.rows, self.bytes, self.sha256, changes)


class _Metadata(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    bytes: _Count
    sha256: _Sha256


class _Fields(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The JSON object with its types; ``manifest`` checks the consistency of the fields."""

    format_version: int
    cluster_id: str
    topic_id: str
    end_offset: _Count
    epoch: _Count
    timestamp_ms: int
    log_end_time_ms: int
    count: _Count
    count_by_resource_type: dict[str, _Count]
    digest: str
    features: dict[str, int]
    parts: list[_Part]
    checksum: _Sha256
    brokers: dict[str, SupportedLevels] = {}
    metadata: _Metadata | None = None
    gap_until: _Count = 0
    empty_tail: _Count = 0

    def manifest(self) -> SnapshotManifest:
        parts = tuple(part.part() for part in self.parts)
        files = [file for part in parts for file in part.files]
        names = {file.name for file in files}
        metadata = None if self.metadata is None else MetadataFile(*msgspec.structs.astuple(self.metadata))
        _require(len(names) == len(files), "a part is named twice")
        _require(
            self.format_version > _WITHOUT_CHANGES or len(files) == len(parts),
            f"format version {self.format_version} has no changes",
        )
        _require(
            not 0 < self.gap_until <= self.end_offset, f"gap until {self.gap_until} and end {self.end_offset}"
        )
        _require(
            self.empty_tail <= self.end_offset, f"empty tail {self.empty_tail} and end {self.end_offset}"
        )
        for name in names if metadata is None else {*names, metadata.name}:
            _require(is_part_name(name), f"`{name}` cannot be a part's name")
        count = sum(part.count for part in parts)
        _require(count == self.count, f"its parts have {count} ACLs, its count is {self.count}")
        by_type = {
            code_from_name(ResourceType, name): count for name, count in self.count_by_resource_type.items()
        }
        _require(
            sum(by_type.values()) == self.count,
            f"its counts by resource type are {sum(by_type.values())} in all, its count is {self.count}",
        )
        return SnapshotManifest(
            identity=LogIdentity(self.cluster_id, uuid_from_string(self.topic_id)),
            provenance=Provenance(self.end_offset, self.epoch, self.timestamp_ms, self.empty_tail),
            log_end_time_ms=self.log_end_time_ms,
            count=self.count,
            count_by_resource_type=by_type,
            digest=digest_from_string(self.digest),
            features=self.features,
            parts=parts,
            brokers={int(each): levels for each, levels in self.brokers.items()},
            metadata=metadata,
            gap_until=self.gap_until,
        )


def _check_version(version: object, source: str) -> None:
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise SnapshotUnsupportedError(
            f"{source} has format version {version}; this aclog reads up to {FORMAT_VERSION}. Upgrade aclog"
        )
    is_known = isinstance(version, int) and not isinstance(version, bool) and version >= _WITHOUT_CHANGES
    _require(is_known, f"format version {version!r} does not exist")


def _checksum(fields: Mapping[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
