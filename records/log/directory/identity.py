"""Identity of a directory log (I9), and whether it is aclog-managed.

- An aclog-managed log: ``aclog.properties`` has ``version``, ``cluster.id`` and ``topic.id``. It is the first
  file of a new log, so aclog writes to no directory without it. ``partition.metadata`` repeats the topic id
  for Kafka's tools. Both ids are random for each new log (a cluster id may be given), so a log that was
  deleted and created again has another identity.
- A broker's log: ``cluster.id`` from ``meta.properties`` in the parent directory (the broker's log.dir),
  topic id from ``partition.metadata``.
- A copy of a broker's log without ``meta.properties``: its cluster id is ``unknown-`` and the CRC of its
  first batch. Copies of one log have equal ids, and different logs do not share snapshots. A log whose start
  has moved gets another identity, which costs a full replay and never a wrong answer.

Source: org.apache.kafka.metadata.properties.MetaProperties, PartitionMetadataFile, Uuid.randomUuid.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from records.batch import HEADER_BYTES
from records.errors import DecodeError, LogCorruptError, LogError
from records.ids import METADATA_TOPIC_ID, Uuid, uuid_from_string, uuid_to_string
from records.log.base import LogIdentity
from records.log.directory.files import (
    META_PROPERTIES_FILE,
    OWNER_FILE,
    PARTITION_METADATA_FILE,
    list_directory,
    segment_name,
    write_file,
)
from records.log.directory.segments import parse_header
from records.properties import escape_property, parse_properties

#: Version of the directory format of an aclog-managed log.
_FORMAT_VERSION: Final = "1"
_PARTITION_METADATA_VERSION: Final = "0"


@dataclass(frozen=True, slots=True)
class IdentityStamp:
    """State of ``partition.metadata``: it changes if the log is deleted and created again.

    The content alone does not suffice, as it is the same for all brokers' logs.
    """

    inode: int
    modified_ns: int
    content: bytes


def random_id() -> Uuid:
    """A random id as Kafka's: none begins with a dash, which a command line would parse as an option."""
    while True:
        value = Uuid(uuid.uuid4().bytes)
        if not uuid_to_string(value).startswith("-"):
            return value


def is_managed(directory: Path) -> bool:
    """Whether aclog created the log. Raises OSError."""
    try:
        (directory / OWNER_FILE).stat()
    except FileNotFoundError:
        return False
    return True


def write_owner(directory: Path, identity: LogIdentity) -> None:
    """Mark ``directory`` as an aclog-managed log of that identity, durably. Raises OSError."""
    lines = [
        "# A metadata log that aclog writes; do not edit. Kafka's tools can read its .log files.",
        f"version={_FORMAT_VERSION}",
        f"cluster.id={escape_property(identity.cluster_id)}",
        f"topic.id={uuid_to_string(identity.topic_id)}",
    ]
    write_file(directory / OWNER_FILE, "\n".join(lines) + "\n")


def write_partition_metadata(directory: Path, topic_id: Uuid) -> None:
    """Write Kafka's file with the topic id. Raises OSError."""
    text = f"version: {_PARTITION_METADATA_VERSION}\ntopic_id: {uuid_to_string(topic_id)}"
    write_file(directory / PARTITION_METADATA_FILE, text)


def read_identity(directory: Path, *, expected_cluster_id: str | None = None) -> LogIdentity:
    """Read the identity. ``expected_cluster_id`` is used if the log has no cluster id.

    Raises:
        LogCorruptError: a file with an id is invalid.
        LogError: the log belongs to another cluster than the expected one.
        OSError: a file cannot be read.
    """
    if is_managed(directory):
        identity = _read_owner(directory / OWNER_FILE)
    else:
        topic_id = _read_topic_id(directory / PARTITION_METADATA_FILE)
        cluster_id = _broker_cluster_id(directory) or expected_cluster_id or _fingerprint(directory)
        identity = LogIdentity(cluster_id, topic_id)
    if expected_cluster_id not in (None, identity.cluster_id):
        raise LogError(
            f"{directory}: this log belongs to cluster {identity.cluster_id}, not to {expected_cluster_id}"
        )
    return identity


def identity_stamp(directory: Path) -> IdentityStamp | None:
    """A cheap check whether ``read_identity`` may return another value. Raises OSError."""
    try:
        with (directory / PARTITION_METADATA_FILE).open("rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            return IdentityStamp(stat.st_ino, stat.st_mtime_ns, file.read())
    except FileNotFoundError:
        return None


def _read_owner(path: Path) -> LogIdentity:
    properties = _read_properties(path) or {}
    version = properties.get("version")
    if version != _FORMAT_VERSION:
        raise LogCorruptError(
            f"{path}: version={version}; this build of aclog knows version {_FORMAT_VERSION}"
        )
    if not properties.get("cluster.id"):
        raise LogCorruptError(f"{path}: cluster.id is missing")
    try:
        topic_id = uuid_from_string(properties.get("topic.id", ""))
    except DecodeError as error:
        raise LogCorruptError(f"{path}: topic.id: {error}") from error
    return LogIdentity(properties["cluster.id"], topic_id)


def _broker_cluster_id(directory: Path) -> str | None:
    # If the directory is a symbolic link into a broker's log.dir, the parent of the target counts.
    for home in (directory.resolve().parent, directory):
        properties = _read_properties(home / META_PROPERTIES_FILE) or {}
        if properties.get("cluster.id"):
            return properties["cluster.id"]
    return None


def _read_properties(path: Path) -> dict[str, str] | None:
    try:
        # Java's Properties.store writes Latin-1 with \\uXXXX escapes.
        text = path.read_text(encoding="latin-1")
    except FileNotFoundError:
        return None
    try:
        return parse_properties(text)
    except ValueError as error:
        raise LogCorruptError(f"{path}: not a properties file: {error}") from error


def _read_topic_id(path: Path) -> Uuid:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return METADATA_TOPIC_ID  # the topic of every KRaft metadata log
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if values.get("version") != _PARTITION_METADATA_VERSION:
        raise LogCorruptError(f"{path}: version {values.get('version')} is not known")
    try:
        return uuid_from_string(values.get("topic_id", ""))
    except DecodeError as error:
        raise LogCorruptError(f"{path}: {error}") from error


def _fingerprint(directory: Path) -> str:
    for segment in list_directory(directory).segments:
        try:
            with (directory / segment_name(segment.base_offset)).open("rb") as file:
                header = file.read(HEADER_BYTES)
        except FileNotFoundError:
            continue  # trimmed after the listing: the log begins with the next one
        if len(header) == HEADER_BYTES:
            return f"unknown-{parse_header(header).crc:08x}"
        break
    return "unknown-empty"
