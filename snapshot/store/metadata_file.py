"""The metadata file of a stored snapshot: the log's metadata other than ACLs (snapshot.metadata_image).

One JSON object; features and brokers are in the manifest itself:

    topics            ids by name, as Kafka's 22 characters
    scram             by user the codes of the mechanisms that it has a credential for
    delegationTokens  owners by token id
    unread            API key, version and number of records that this build could not read
    isWhole           MetadataImage.is_complete

A manifest without such a file belongs to a log without such metadata, or was written by an older aclog.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated

import msgspec

from records.errors import DecodeError
from records.ids import uuid_from_string, uuid_to_string
from snapshot.errors import SnapshotCorruptError
from snapshot.metadata_image import MetadataImage, TopicsImage
from snapshot.persistent_map import PersistentMap
from snapshot.store.layout import SnapshotRef, metadata_name
from snapshot.store.manifest import MetadataFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.entries import SupportedLevels
    from snapshot.store.storage import Storage


_Count = Annotated[int, msgspec.Meta(ge=1)]


class _Stored(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    topics: dict[str, str]
    scram: dict[str, tuple[int, ...]]
    delegation_tokens: dict[str, str]
    unread: list[tuple[int, int, _Count]]
    is_complete: bool = msgspec.field(name="isWhole")


def put_metadata(
    storage: Storage, ref: SnapshotRef, metadata: MetadataImage, *, attempt: str
) -> MetadataFile | None:
    """Write the file into the directory of a new snapshot; None if there is no such metadata."""
    if metadata == MetadataImage.EMPTY:
        return None
    stored = _Stored(
        {name: uuid_to_string(topic_id) for name, topic_id in metadata.topics.by_name.items()},
        dict(metadata.scram),
        dict(metadata.delegation_tokens),
        [(*kind, count) for kind, count in sorted(metadata.unread.items())],
        metadata.is_complete,
    )
    data = msgspec.json.encode(stored, order="sorted")
    file = MetadataFile(metadata_name(attempt), len(data), hashlib.sha256(data).hexdigest())
    storage.put(ref.file(file.name), data)
    return file


def decode_metadata(
    data: bytes, features: Mapping[str, int], brokers: Mapping[int, SupportedLevels], *, source: str
) -> MetadataImage:
    """The file's content together with the manifest's; ``source`` names the file in errors.

    SnapshotCorruptError: not what ``put_metadata`` writes.
    """
    try:
        stored = msgspec.json.decode(data, type=_Stored)
        topics = TopicsImage.of({name: uuid_from_string(text) for name, text in stored.topics.items()})
    except (msgspec.MsgspecError, DecodeError) as error:
        raise SnapshotCorruptError(f"{source} is not a snapshot's metadata file: {error}") from error
    return MetadataImage(
        features,
        brokers,
        topics,
        PersistentMap(stored.scram),
        PersistentMap(stored.delegation_tokens),
        PersistentMap({(api_key, version): count for api_key, version, count in stored.unread}),
        stored.is_complete,
    )
