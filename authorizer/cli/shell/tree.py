"""The root: what an image holds, by names of ours, and ``/image`` as kafka-metadata-shell shows it.

/acl          by id, by principal, by resource (acl_nodes)
/features     levels by name
/cluster      brokers: which levels of metadata.version the binaries support
/topics       ids by name
/image        Kafka's own paths, as far as the image has what is in them (kafka_nodes)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.cli.shell.acl_nodes import acl_node
from authorizer.cli.shell.kafka_nodes import kafka_node
from authorizer.cli.shell.nodes import Alike, Children, Leaf, leaf
from records.ids import uuid_to_string
from records.metadata_version import metadata_version_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.cli.shell.nodes import Directory
    from records.entries import SupportedLevels
    from snapshot.image import AclsImage


def tree_of(image: AclsImage) -> Directory:
    """Everything."""
    image = image.merged()  # rows are found by columns
    brokers, features = image.metadata.brokers, image.metadata.features
    topics = image.metadata.topics.by_name
    return Children(
        {
            "acl": lambda: acl_node(image.columns),
            "cluster": lambda: Children({"brokers": lambda: _brokers(brokers)}),
            "features": lambda: Alike(features, lambda name: leaf(features[name])),
            "image": lambda: kafka_node(image),
            "topics": lambda: Alike(topics, lambda name: leaf(uuid_to_string(topics[name]))),
        }
    )


def _brokers(brokers: Mapping[int, SupportedLevels]) -> Directory:
    def broker(name: str) -> Leaf:
        lowest, highest = brokers[int(name)]
        return Leaf(
            f"metadata.version {metadata_version_name(lowest)} to {metadata_version_name(highest)}",
            {"metadataVersion": {"lowest": lowest, "highest": highest}},
        )

    return Alike(map(str, brokers), broker)
