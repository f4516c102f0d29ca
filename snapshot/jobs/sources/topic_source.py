"""Logs in topics as rows of sources.schema, by Spark's own Kafka connector.

Only committed messages become rows: no transaction markers, no aborted messages. One task gets all rows of a
log, in offset order.

Missing offsets fail the query. But Spark identifies a topic by its name: it does not notice one that was
deleted and created again once that is as long as the old one was. So a batch checks the topic's id before
and after its rows are read (FollowedLog.open).

Spark gets the names of all topics: patterns are resolved by running/fleet.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from records.ids import uuid_to_string
from snapshot.jobs.sources.kafka_options import connector_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from snapshot.jobs.sources.logs import FollowedLog

_FORMAT: Final = "kafka"
#: Prefix of the consumer groups, for the operator's ACLs on groups.
_GROUP_PREFIX: Final = "aclog-spark"
_PARTITION: Final = "0"
#: Settings of the connector's clients, one for each topic, which the user may change.
_DEFAULTS: Final[Mapping[str, str]] = {
    # Spark asks for the topic's end after each read. The answer comes after that of a fetch at the end, which
    # the client has sent ahead, and which a broker delays by this time.
    "fetch.max.wait.ms": "1",
    # To register a client's metrics, which nobody reads, takes as long as to read a small topic.
    "auto.include.jmx.reporter": "false",
    "enable.metrics.push": "false",
}


def read_topics_stream(
    spark: SparkSession,
    logs: Sequence[FollowedLog],
    *,
    max_offsets: int | None = None,
    starting_offsets: Mapping[str, int],
    kafka_options: Mapping[str, str],
) -> DataFrame:
    """One streaming source of topics of one cluster, with the same bootstrap servers.

    ``max_offsets`` of one micro-batch over all topics; some hold no row. A topic that joins later starts at
    0.

    Raises:
        LogError: a setting that the connector does not have.
    """
    options = source_options(logs, kafka_options)
    topics = [_topic(log) for log in logs]
    options["subscribe"] = ",".join(topics)
    options["startingOffsets"] = _offsets({topic: starting_offsets[topic] for topic in topics})
    if max_offsets is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets)
    return _rows(spark.readStream.format(_FORMAT).options(**options).load(), logs)


def read_topic(
    spark: SparkSession, log: FollowedLog, start: int, end: int, kafka_options: Mapping[str, str]
) -> DataFrame:
    """The rows of one topic with offsets in [start, end), read when an action runs.

    ``kafka_options`` and errors: see read_topics_stream.
    """
    topic = _topic(log)
    options = source_options([log], kafka_options) | {
        "subscribe": topic,
        "startingOffsets": _offsets({topic: start}),
        "endingOffsets": _offsets({topic: end}),
    }
    return _rows(spark.read.format(_FORMAT).options(**options).load(), [log])


def source_options(logs: Sequence[FollowedLog], kafka_options: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's source for topics with the same bootstrap servers, without their names.

    ``kafka_options`` and errors: see read_topics_stream.
    """
    servers = logs[0].bootstrap_servers
    if servers is None or any(log.bootstrap_servers != servers for log in logs):
        raise ValueError("the topics of one source have the same bootstrap servers")
    settings = {**_DEFAULTS, **connector_options(logs[0].kafka, kafka_options)}
    return {f"kafka.{name}": value for name, value in settings.items()} | {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        # Java's default is true: a task would create a topic again that was deleted after planning.
        "kafka.allow.auto.create.topics": "false",
        "failOnDataLoss": "true",
        "groupIdPrefix": _GROUP_PREFIX,
    }


def _rows(messages: DataFrame, logs: Sequence[FollowedLog]) -> DataFrame:
    """Kafka's columns -> SOURCE."""
    topic = F.col("topic")
    cluster_ids = _by_topic({_topic(log): log.identity.cluster_id for log in logs})
    topic_ids = _by_topic({_topic(log): uuid_to_string(log.identity.topic_id) for log in logs})
    return messages.select(
        cluster_ids[topic].alias("cluster_id"),
        F.coalesce(topic_ids[topic], topic).alias("topic_id"),
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
    )


def _by_topic(values: Mapping[str, str]) -> Column:
    return F.create_map(*(F.lit(text) for item in values.items() for text in item))


def _offsets(by_topic: Mapping[str, int]) -> str:
    return json.dumps({topic: {_PARTITION: offset} for topic, offset in by_topic.items()})


def _topic(log: FollowedLog) -> str:
    topic = log.topic
    if topic is None:
        raise ValueError(f"{log.url} is not a topic")
    return topic
