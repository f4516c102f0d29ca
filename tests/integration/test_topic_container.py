"""A topic log on Kafka's own image: the same harness, in a container."""

from __future__ import annotations

import pytest

from support.kafka_broker import container_broker
from support.node_acls import may, topic_acl
from support.nodes import SOON_S, create, running_node
from support.topic_nodes import raw_topic, unique_topic

pytestmark = pytest.mark.containers


def test_nodes_run_with_kafkas_image() -> None:
    """Two nodes agree on a topic of a broker in a container."""
    with container_broker() as broker:
        url = raw_topic(broker.bootstrap_servers, unique_topic("container"))
        with running_node(url) as writer, running_node(url, log_mode="read") as reader:
            create(writer, [topic_acl("t")])
            assert reader.wait_for(writer.status().end_offset, SOON_S)
            assert may(reader.authorizer, "t")
            assert reader.status().digest == writer.status().digest
