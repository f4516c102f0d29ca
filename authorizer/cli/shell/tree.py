"""The root directory: the contents of an image, and ``/image`` in the form of kafka-metadata-shell."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from authorizer.cli.shell.acl_nodes import AclsById, acl_node
from authorizer.cli.shell.nodes import Children, Leaf, UniformDirectory, leaf
from records.entries import METADATA_VERSION_FEATURE, SCRAM_MECHANISMS
from records.ids import uuid_to_string
from records.metadata_version import metadata_version_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from authorizer.cli.shell.nodes import Directory, Node
    from records.entries import SupportedLevels
    from snapshot.image import AclsImage, Provenance
    from snapshot.metadata_image import TopicsImage


def tree_of(image: AclsImage) -> Directory:
    """The root directory of an image."""
    image = image.merged()  # rows are looked up by column
    brokers, features = image.metadata.brokers, image.metadata.features
    topics = image.metadata.topics.by_name
    return Children(
        {
            "acl": lambda: acl_node(image.columns),
            "cluster": lambda: Children({"brokers": lambda: _brokers(brokers)}),
            "features": lambda: UniformDirectory(features, lambda name: leaf(features[name])),
            "image": lambda: kafka_node(image),
            "topics": lambda: UniformDirectory(topics, lambda name: leaf(uuid_to_string(topics[name]))),
        }
    )


def _brokers(brokers: Mapping[int, SupportedLevels]) -> Directory:
    def broker(name: str) -> Leaf:
        lowest, highest = brokers[int(name)]
        return Leaf(
            f"metadata.version {metadata_version_name(lowest)} to {metadata_version_name(highest)}",
            {"metadataVersion": {"lowest": lowest, "highest": highest}},
        )

    return UniformDirectory(map(str, brokers), broker)


_FINALIZED: Final = "finalized_"
# As Kafka's MetadataNodeRedactionCriteria.
_CREDENTIAL: Final = (
    "ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], iterations=[redacted])"
)


def kafka_node(image: AclsImage) -> Directory:
    """``/image``; the image is merged."""
    metadata = image.metadata
    owners = metadata.delegation_tokens
    return Children(
        {
            "acls": lambda: Children({"byId": lambda: AclsById(image.columns)}),
            "cluster": lambda: Children({"brokers": lambda: _registrations(metadata.brokers)}),
            "delegationToken": lambda: UniformDirectory(owners, lambda token_id: _token(owners[token_id])),
            "features": lambda: _features(metadata.features),
            "provenance": lambda: _provenance(image.provenance),
            "scram": lambda: _scram(metadata.scram),
            "topics": lambda: _topics(metadata.topics),
        }
    )


def _registrations(brokers: Mapping[int, SupportedLevels]) -> Directory:
    def broker(name: str) -> Leaf:
        lowest, highest = brokers[int(name)]
        return Leaf(
            f"BrokerRegistration(id={name}, ..., "
            f"supportedFeatures={{..., {METADATA_VERSION_FEATURE}: {lowest}-{highest}, ...}}, ...)",
            {"id": int(name), "supportedFeatures": {METADATA_VERSION_FEATURE: [lowest, highest]}},
        )

    return UniformDirectory(map(str, brokers), broker)


def _token(owner: str) -> Leaf:
    # The brackets are Kafka's.
    return Leaf(f"DelegationTokenDatatokenId=...(owner={owner}(...", {"owner": owner})


def _features(features: Mapping[str, int]) -> Directory:
    levels = dict(features)
    version = levels.pop(METADATA_VERSION_FEATURE, None)
    # Kafka 4.x prints Java's Optional.
    text = "Optional.empty" if version is None else f"Optional[{metadata_version_name(version)}]"
    children: dict[str, Callable[[], Node]] = {"metadataVersion": lambda: leaf(text)}
    children |= {_FINALIZED + name: partial(leaf, level) for name, level in levels.items()}
    return Children(children)


def _provenance(provenance: Provenance) -> Leaf:
    offset, epoch = provenance.end_offset - 1, provenance.epoch
    time = datetime.fromtimestamp(provenance.timestamp_ms / 1000, UTC)
    # DateTimeFormatter.ISO_ZONED_DATE_TIME omits trailing zeros of a second.
    fraction = f".{provenance.timestamp_ms % 1000:03d}".rstrip("0").rstrip(".")
    text = f"offset {offset}, epoch {epoch}, time {time:%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"
    return Leaf(text, {"offset": offset, "epoch": epoch, "timestamp": provenance.timestamp_ms})


def _scram(users: Mapping[str, tuple[int, ...]]) -> Directory:
    def mechanism(code: int) -> Directory:
        return UniformDirectory(
            (user for user, codes in users.items() if code in codes), lambda _: leaf(_CREDENTIAL)
        )

    return Children({name: partial(mechanism, code) for code, name in SCRAM_MECHANISMS.items()})


def _topics(topics: TopicsImage) -> Directory:
    ids = {uuid_to_string(topic_id): name for topic_id, name in topics.by_id.items()}
    return Children(
        {
            "byId": lambda: UniformDirectory(ids, lambda topic_id: _topic(ids[topic_id], topic_id)),
            "byName": lambda: UniformDirectory(
                topics.by_name, lambda name: _topic(name, uuid_to_string(topics.by_name[name]))
            ),
        }
    )


def _topic(name: str, topic_id: str) -> Directory:
    return Children({"id": lambda: leaf(topic_id), "name": lambda: leaf(name)})
