"""MetadataImage: what the log knows besides ACLs; folded, stored, read from checkpoints, without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from records.codecs.kraft import decode_frame
from records.entries import (
    BrokerRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    ScramCredentialRecord,
    SupportedLevels,
    TopicRecord,
)
from snapshot.errors import SnapshotCorruptError
from snapshot.files.kraft_checkpoint import read_checkpoint
from snapshot.metadata_image import MetadataImage, TopicsImage
from snapshot.persistent_map import PersistentMap
from snapshot.store.snapshot_store import SnapshotStore
from support.checkpoints import checkpoint_of
from support.other_frames import SECRETS, other_frame
from support.snapshots import IDENTITY, acl, acl_id, replayed
from support.strategies import OTHER_RECORDS

LEVELS = SupportedLevels(7, 31)
KNOWN: list[MetadataRecord] = [
    FeatureLevelRecord("metadata.version", 30),
    BrokerRecord(0, 4, 1, LEVELS),
    TopicRecord(2, 0, acl_id(1), "orders"),
    TopicRecord(2, 0, acl_id(2), "payments"),
    ScramCredentialRecord(11, 0, "alice", 2),
    ScramCredentialRecord(11, 0, "alice", 1),
    DelegationTokenRecord(10, 0, "token-1", "User:owner"),
    acl(1),
    OtherRecord(99, 1),
    OtherRecord(99, 1),
    OtherRecord(2, 0),
    OtherRecord(20, 0),
]


def test_metadata_of_the_log_is_stored() -> None:
    """And gone with its removal; what cannot be read is counted by type and version."""
    image = replayed(KNOWN)
    known = image.metadata
    assert known.topics.by_name == PersistentMap({"orders": acl_id(1), "payments": acl_id(2)})
    assert known.topics.by_id == PersistentMap({acl_id(1): "orders", acl_id(2): "payments"})
    assert ("orders" in known.topics, "gone" in known.topics, len(known.topics)) == (True, False, 2)
    assert (known.features, known.brokers) == ({"metadata.version": 30}, {1: LEVELS})
    assert known.metadata_version == 30
    assert known.scram == PersistentMap({"alice": (1, 2)})
    assert known.delegation_tokens == PersistentMap({"token-1": "User:owner"})
    assert dict(known.unread) == {(99, 1): 2, (2, 0): 1}
    assert known.is_complete
    removals: list[MetadataRecord] = [
        TopicRecord(9, 0, acl_id(1), None),
        TopicRecord(9, 0, acl_id(7), None),
        ScramCredentialRecord(22, 0, "alice", 1),
        ScramCredentialRecord(22, 0, "nobody", 1),
        DelegationTokenRecord(26, 0, "token-1", None),
        DelegationTokenRecord(26, 0, "token-2", None),
        BrokerRecord(1, 0, 1, None),
        FeatureLevelRecord("metadata.version", 0),
    ]
    after = replayed(removals, image).metadata
    assert after == MetadataImage(
        topics=TopicsImage.of({"payments": acl_id(2)}), scram=after.scram, unread=known.unread
    )
    assert after.scram == PersistentMap({"alice": (2,)})
    assert replayed([ScramCredentialRecord(22, 0, "alice", 2)], image).metadata.scram == PersistentMap(
        {"alice": (1,)}
    )
    assert image.metadata is known


@pytest.mark.parametrize("api_key", [2, 9])
def test_topics_are_unknown_after_a_record_of_topics_that_cannot_be_read(api_key: int) -> None:
    """Of a newer release, or damaged: the topic may exist, or not."""
    image = replayed([TopicRecord(2, 0, acl_id(1), "orders"), OtherRecord(99, 1)])
    assert image.metadata.known_topics == PersistentMap({"orders": acl_id(1)})
    assert replayed([OtherRecord(api_key, 7)], image).metadata.known_topics is None


def test_a_topic_that_is_made_again_has_its_new_id() -> None:
    """Also where the removal of the old one comes late, and where a topic gets another name."""
    again = replayed(
        [
            TopicRecord(2, 0, acl_id(1), "t"),
            TopicRecord(2, 0, acl_id(2), "t"),
            TopicRecord(9, 0, acl_id(1), None),
            TopicRecord(2, 0, acl_id(3), "before"),
            TopicRecord(2, 0, acl_id(3), "after"),
        ]
    ).metadata.topics
    assert again.by_name == PersistentMap({"t": acl_id(2), "after": acl_id(3)})
    assert again.by_id == PersistentMap({acl_id(2): "t", acl_id(3): "after"})


def test_it_is_stored_with_the_acls(tmp_path: Path) -> None:
    """In a file of its own; without its like the snapshot is damaged."""
    store = SnapshotStore(tmp_path)
    image = replayed(KNOWN)
    ref = store.write(image, IDENTITY, log_end_time_ms=0)
    stored = store.read(ref, IDENTITY)
    assert stored.image.metadata == image.metadata
    (file,) = (tmp_path / ref.directory).glob("metadata-*.json")
    assert stored.manifest.metadata is not None
    assert stored.manifest.metadata.name == file.name
    assert store.verify(ref, IDENTITY) == ()
    whole = file.read_bytes()
    for damage in (b"", whole[:-1] + b" ", b"{}"):
        file.write_bytes(damage)
        with pytest.raises(SnapshotCorruptError, match=r"metadata-.*\.json"):
            store.read(ref, IDENTITY)
    file.unlink()
    with pytest.raises(SnapshotCorruptError, match=r"metadata-.*\.json is missing"):
        store.read(ref, IDENTITY)


def test_a_log_that_knows_nothing_else_needs_no_file(tmp_path: Path) -> None:
    """Its snapshots are as they always were."""
    store = SnapshotStore(tmp_path)
    ref = store.write(replayed([acl(1)]), IDENTITY, log_end_time_ms=0)
    assert not [*(tmp_path / ref.directory).glob("metadata-*")]
    assert store.read(ref, IDENTITY).image.metadata == MetadataImage.EMPTY


def test_a_store_from_before_is_not_whole(tmp_path: Path) -> None:
    """A manifest with features and without the file: what else there was is not known, and stays so."""
    store = SnapshotStore(tmp_path)
    before = replayed([FeatureLevelRecord("metadata.version", 30), acl(1)])
    ref = store.write(before, IDENTITY, log_end_time_ms=0)
    stored = store.read(ref, IDENTITY)
    assert stored.manifest.metadata is not None
    old = replace(stored.manifest, metadata=None).to_json()
    (tmp_path / ref.directory / "manifest.json").write_bytes(old)
    image = store.read(ref, IDENTITY).image
    assert image.metadata == MetadataImage({"metadata.version": 30}, is_complete=False)
    later = replayed([TopicRecord(2, 0, acl_id(1), "t")], image)
    again = store.read(store.write(later, IDENTITY, log_end_time_ms=0), IDENTITY).image.metadata
    assert (again.is_complete, again.topics.by_name) == (False, PersistentMap({"t": acl_id(1)}))


def test_a_checkpoint_has_it_too(tmp_path: Path) -> None:
    image = read_checkpoint(checkpoint_of(tmp_path, KNOWN))
    assert image.metadata == replayed(KNOWN).metadata
    assert len(image) == 1


def test_no_secret_is_kept(tmp_path: Path) -> None:
    """Salt, stored key and server key of a credential: not in the record, the image or the store."""
    frames = [other_frame(record) for record in OTHER_RECORDS]
    assert all(any(secret in frame for frame in frames) for secret in SECRETS)
    records = [decode_frame(frame) for frame in frames]
    image = read_checkpoint(checkpoint_of(tmp_path, [acl(1), *OTHER_RECORDS]))
    store = SnapshotStore(tmp_path / "store")
    store.write(image, IDENTITY, log_end_time_ms=0)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    for secret in SECRETS:
        for place in (stored, repr(records).encode(), repr(image.metadata).encode()):
            assert secret not in place
            assert secret.hex().encode() not in place
