"""Paths in a snapshot store.

    <store>/<cluster id>/<end offset>-<epoch>/part-*.parquet
    <store>/<cluster id>/<end offset>-<epoch>/metadata-*.json
    <store>/<cluster id>/<end offset>-<epoch>/manifest.json

A snapshot is named as in Kafka (org.apache.kafka.snapshot.Snapshots): the end offset in 20 digits, the epoch
in 10. A cluster id is any text, so its directory is the id percent-encoded: all but letters, digits, ``_``,
``-`` and ``.`` become ``%XX`` of their UTF-8 bytes, and so does a leading ``.``: no id can escape the store.
Kafka's own ids of 22 characters are unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from snapshot.errors import SnapshotError

_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})")


def snapshot_name(end_offset: int, epoch: int) -> str:
    """``00000000000000000266-0000000001``."""
    return f"{end_offset:020d}-{epoch:010d}"


def parse_snapshot_name(name: str) -> tuple[int, int] | None:
    """(end offset, epoch), or None for any other text."""
    found = _SNAPSHOT_NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


MANIFEST_NAME: Final = "manifest.json"
_PART_NAME: Final = re.compile(r"part-[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")
_SHARD_PART_NAME: Final = re.compile(r"part-([0-9]{5})-of-([0-9]{5})-([A-Za-z0-9._-]+)\.parquet")
_METADATA_NAME: Final = re.compile(r"metadata-([A-Za-z0-9][A-Za-z0-9._-]*)\.json")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class SnapshotRef:
    """Identifies a snapshot: cluster, epoch and end offset.

    Ordered as in Kafka (OffsetAndEpoch): by epoch, then by end offset. Within one history both grow together;
    after a truncation a snapshot of the older epoch is never the newest.
    """

    cluster_id: str
    epoch: int
    end_offset: int

    def __str__(self) -> str:
        return f"{self.cluster_id}/{self.name}"

    @property
    def name(self) -> str:
        return snapshot_name(self.end_offset, self.epoch)

    @property
    def directory(self) -> str:
        return f"{cluster_directory(self.cluster_id)}/{self.name}"

    def file(self, name: str) -> str:
        """The path of one of its files in the store."""
        return f"{self.directory}/{name}"


def cluster_directory(cluster_id: str) -> str:
    """The name of a cluster's directory. Raises SnapshotError: the id is empty."""
    if not cluster_id:
        raise SnapshotError("a log without a cluster id cannot be in a snapshot store")
    encoded = quote(cluster_id, safe="", errors="surrogatepass").replace("~", "%7E")
    return f"%2E{encoded[1:]}" if encoded.startswith(".") else encoded


def parse_cluster_directory(name: str) -> str | None:
    """The inverse of ``cluster_directory``; None for any other name."""
    cluster_id = unquote(name, errors="surrogatepass")
    return cluster_id if cluster_id and cluster_directory(cluster_id) == name else None


def part_name(index: int, attempt: str) -> str:
    """A part's name, unique to one attempt: two nodes may write the same snapshot concurrently."""
    return f"part-{index:05d}-{attempt}.parquet"


def shard_part_name(shard: int, shards: int, attempt: str) -> str:
    """The name of a part that holds exactly the ACLs of one shard (jobs.folding.stored_state)."""
    return f"part-{shard:05d}-of-{shards:05d}-{attempt}.parquet"


def shard_changes_name(shard: int, shards: int, attempt: str) -> str:
    """The name of the changes file of a shard's part."""
    return shard_part_name(shard, shards, f"{attempt}.changes")


def parse_shard_part_name(name: str) -> tuple[int, int, str] | None:
    """(shard, shards, attempt), or None for any other name."""
    found = _SHARD_PART_NAME.fullmatch(name)
    return (int(found[1]), int(found[2]), found[3]) if found else None


def metadata_name(attempt: str) -> str:
    """The name of a metadata file (metadata_file.py)."""
    return f"metadata-{attempt}.json"


def attempt_of(name: str) -> str | None:
    """The attempt in the name of a shard's part or a metadata file; else None."""
    found = _METADATA_NAME.fullmatch(name)
    if found is not None:
        return found[1]
    shard = parse_shard_part_name(name)
    return None if shard is None else shard[2]


def is_part_name(name: str) -> bool:
    """Whether a manifest may name this file; a path never matches."""
    return _PART_NAME.fullmatch(name) is not None or _METADATA_NAME.fullmatch(name) is not None
