"""Logs in topics as rows of sources.schema, by Spark's own Kafka connector.

Only committed messages are rows: neither transaction markers nor what was aborted. The rows of one log are
one task's, in offset order.

Offsets that are gone fail the query. But Spark follows a topic by its name: one that was deleted and created
again goes unnoticed here once it is as long as the old one was, and its records count as the old one's.
The plan of a batch asks for the topic's id, before and after its rows were read (FollowedLog.open).

A topic that appears under a followed pattern after the job has started is not one of its logs. Its rows come
with a null ``cluster_id`` and the topic's name for ``topic_id``: decoding refuses them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody who writes Spark calls it

from records.errors import LogError
from records.ids import uuid_to_string
from snapshot.jobs.sources.kafka_options import connector_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from snapshot.jobs.sources.logs import FollowedLog

_FORMAT: Final = "kafka"
#: Of the consumer groups' names: what an operator allows, where groups are guarded.
_GROUP_PREFIX: Final = "aclog-spark"
_PARTITION: Final = "0"


def read_topics_stream(
    spark: SparkSession,
    logs: Sequence[FollowedLog],
    *,
    topics_pattern: str | None = None,
    max_offsets: int | None = None,
    starting_offsets: Mapping[str, int],
    kafka_options: Mapping[str, str],
) -> DataFrame:
    """One streaming source of all these topics, which are on one cluster.

    Args:
        spark: the session.
        logs: one or more, with the same bootstrap servers.
        topics_pattern: the regular expression that found them; topics that it matches later are noticed.
        max_offsets: of one micro-batch, in all topics together; offsets, of which some hold no row.
        starting_offsets: of each topic, for a checkpoint that is fresh; a topic that joins later starts at 0.
        kafka_options: the user's own settings of the connector; see connector_options.

    Raises:
        LogError: a setting that the connector does not have, or Java understands the pattern in another way.
    """
    options = _options(logs, kafka_options)
    topics = [_topic(log) for log in logs]
    if topics_pattern is None:
        options["subscribe"] = ",".join(topics)
    else:
        _check_pattern(spark, topics_pattern, topics)
        # Spark takes a topic for one where the pattern is found anywhere in the name.
        options["subscribePattern"] = f"^(?:{topics_pattern})$"
    options["startingOffsets"] = _offsets({topic: starting_offsets[topic] for topic in topics})
    if max_offsets is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets)
    return _rows(spark.readStream.format(_FORMAT).options(**options).load(), logs)


def read_topic(
    spark: SparkSession, log: FollowedLog, start: int, end: int, kafka_options: Mapping[str, str]
) -> DataFrame:
    """The rows of one topic with offsets in [start, end), as they are when an action asks for them.

    ``kafka_options`` and errors as those of read_topics_stream.
    """
    topic = _topic(log)
    options = _options([log], kafka_options) | {
        "subscribe": topic,
        "startingOffsets": _offsets({topic: start}),
        "endingOffsets": _offsets({topic: end}),
    }
    return _rows(spark.read.format(_FORMAT).options(**options).load(), [log])


def _options(logs: Sequence[FollowedLog], kafka_options: Mapping[str, str]) -> dict[str, str]:
    servers = logs[0].bootstrap_servers
    if servers is None or any(log.bootstrap_servers != servers for log in logs):
        raise ValueError("the topics of one source have the same bootstrap servers")
    settings = connector_options(logs[0].kafka, kafka_options)
    return {f"kafka.{name}": value for name, value in settings.items()} | {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        # Java's default is true: a task would bring back a topic that was deleted after it was planned.
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


def _check_pattern(spark: SparkSession, regex: str, topics: Sequence[str]) -> None:
    """RE2 found the topics (records.java_pattern), and Java will follow them: both must mean the same."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way to call Java
    try:
        pattern = jvm.java.util.regex.Pattern.compile(regex)
    except Exception as error:
        raise LogError(f"the topics pattern `{regex}` is not a regular expression to Java") from error
    missed = [topic for topic in topics if not pattern.matcher(topic).matches()]
    if missed:
        raise LogError(
            f"the topics pattern `{regex}` matches `{missed[0]}` here and not in Java: write it in "
            "another form"
        )
