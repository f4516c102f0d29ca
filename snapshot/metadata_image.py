"""MetadataImage: the log's metadata other than ACLs, at one offset. Pure.

Decisions depend only on the Kafka release that brokers and metadata.version imply.

Source: org.apache.kafka.image.{FeaturesImage, ClusterImage, TopicsImage, ScramImage, DelegationTokenImage}.
Only names are stored; the records (kraft_cluster_records) hold no secrets. Removing something unknown has
no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from records.codecs.kraft_cluster_records import is_unread
from records.entries import (
    METADATA_VERSION_FEATURE,
    REMOVE_TOPIC_API_KEY,
    TOPIC_API_KEY,
    BrokerRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    OtherRecord,
    ScramCredentialRecord,
    SupportedLevels,
    TopicRecord,
)
from records.ids import Uuid
from snapshot.persistent_map import PersistentMap, with_item, without_item


class TopicsImage(msgspec.Struct, frozen=True, gc=False):
    """The topics, by name and by id."""

    by_name: PersistentMap[str, Uuid] = PersistentMap()
    by_id: PersistentMap[Uuid, str] = PersistentMap()

    @classmethod
    def of(cls, ids: Mapping[str, Uuid]) -> TopicsImage:
        """Build from ids by name."""
        return cls(PersistentMap(ids), PersistentMap({topic_id: name for name, topic_id in ids.items()}))

    def __len__(self) -> int:
        return len(self.by_name)

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def with_record(self, record: TopicRecord) -> TopicsImage:
        by_name, by_id = self.by_name, self.by_id
        before = by_id.get(record.topic_id)
        if before is not None:
            by_id = without_item(by_id, record.topic_id)
            if by_name.get(before) == record.topic_id:
                by_name = without_item(by_name, before)
        if record.name is not None:
            by_name, by_id = (
                with_item(by_name, record.name, record.topic_id),
                with_item(by_id, record.topic_id, record.name),
            )
        return TopicsImage(by_name, by_id)


class MetadataImage(msgspec.Struct, frozen=True, gc=False):
    """The log's metadata other than ACLs.

    Attributes:
        features: levels by name, including metadata.version (FeaturesImage).
        brokers: feature levels that the registered brokers' binaries support, by broker id (ClusterImage).
        topics: all topics (TopicsImage).
        scram: by user the codes of the mechanisms that it has a credential for, ascending (ScramImage).
        delegation_tokens: owners by token id (DelegationTokenImage).
        unread: number of records that this build cannot read (newer or damaged), by API key and version.
        is_complete: False if the state was continued from a snapshot in an older format without this
            metadata: then topics, credentials and tokens have only what was logged since.
    """

    features: Mapping[str, int] = {}
    brokers: Mapping[int, SupportedLevels] = {}
    topics: TopicsImage = TopicsImage()
    scram: PersistentMap[str, tuple[int, ...]] = PersistentMap()
    delegation_tokens: PersistentMap[str, str] = PersistentMap()
    unread: PersistentMap[tuple[int, int], int] = PersistentMap()
    is_complete: bool = True

    EMPTY: ClassVar[MetadataImage]

    @property
    def metadata_version(self) -> int | None:
        """The level of metadata.version, if the log has one."""
        return self.features.get(METADATA_VERSION_FEATURE)

    @property
    def known_topics(self) -> Mapping[str, Uuid] | None:
        """Ids by name; None if they may be incomplete, or the log has no topics."""
        is_unread = any(api_key in (TOPIC_API_KEY, REMOVE_TOPIC_API_KEY) for api_key, _ in self.unread)
        return self.topics.by_name if self.is_complete and not is_unread and len(self.topics) else None

    @property
    def known_principals(self) -> set[str]:
        """Users with SCRAM credentials and owners of delegation tokens, as ACLs name principals."""
        return {*(f"User:{user}" for user in self.scram), *self.delegation_tokens.values()}

    def with_record(self, record: OtherRecord | FeatureLevelRecord) -> MetadataImage:
        """The metadata after a record other than of ACLs and transactions; itself if nothing changes."""
        match record:
            case FeatureLevelRecord(name=name, level=level):
                features = {**self.features, name: level}
                if level == 0:
                    del features[name]
                return msgspec.structs.replace(self, features=features)
            case BrokerRecord():
                return self._with_broker(record)
            case TopicRecord():
                return msgspec.structs.replace(self, topics=self.topics.with_record(record))
            case ScramCredentialRecord():
                return self._with_credential(record)
            case DelegationTokenRecord(token_id=token_id, owner=owner):
                tokens = self.delegation_tokens
                if owner is not None:
                    tokens = with_item(tokens, token_id, owner)
                elif token_id in tokens:
                    tokens = without_item(tokens, token_id)
                return msgspec.structs.replace(self, delegation_tokens=tokens)
        if not is_unread(record):
            return self
        kind = record.api_key, record.version
        unread = with_item(self.unread, kind, self.unread.get(kind, 0) + 1)
        return msgspec.structs.replace(self, unread=unread)

    def _with_broker(self, record: BrokerRecord) -> MetadataImage:
        brokers = self.brokers
        if brokers.get(record.broker_id) == record.levels:
            return self
        updated = {
            broker_id: levels for broker_id, levels in brokers.items() if broker_id != record.broker_id
        }
        if record.levels is not None:
            updated[record.broker_id] = record.levels
        return msgspec.structs.replace(self, brokers=updated)

    def _with_credential(self, record: ScramCredentialRecord) -> MetadataImage:
        mechanisms = {*self.scram.get(record.user, ())}
        if record.is_removal:
            mechanisms.discard(record.mechanism)
        else:
            mechanisms.add(record.mechanism)
        if mechanisms:
            scram = with_item(self.scram, record.user, tuple(sorted(mechanisms)))
        else:
            scram = without_item(self.scram, record.user) if record.user in self.scram else self.scram
        return msgspec.structs.replace(self, scram=scram)


MetadataImage.EMPTY = MetadataImage()
