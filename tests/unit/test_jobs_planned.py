"""Spark's offset log, as its files are."""

from __future__ import annotations

import json

import pytest

from records.ids import Uuid
from records.log.base import LogIdentity
from snapshot.errors import SparkJobError
from snapshot.jobs.planning.planned_offsets import parse_ends
from snapshot.jobs.sources.logs import FollowedLog


def log(url: str, cluster_id: str) -> FollowedLog:
    return FollowedLog(url=url, identity=LogIdentity(cluster_id, Uuid(b"t" * 16)))


DIRECTORY = log("file:/logs/a", "a")
OTHER_DIRECTORY = log("file:/logs/b", "b")
TOPIC = log("kafka://one:9092/acls", "one")
ITS_NEIGHBOUR = log("kafka://one:9092/acls-of-two", "two")
NAMESAKE = log("kafka://three:9092/acls", "three")


def offsets(*sources: object, version: str = "v1") -> str:
    """One file; a source is its JSON, or the mark of one that said nothing yet."""
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1234, "conf": {"a.b": "c"}})
    lines = [source if isinstance(source, str) else json.dumps(source) for source in sources]
    return "\n".join([version, metadata, *lines])


def directory(cluster_id: str, offset: int) -> dict[str, object]:
    return {"clusterId": cluster_id, "topicId": "dHR0dHR0dHR0dHR0dHR0dA", "offset": offset, "epoch": 1}


def test_directories_have_a_line_each() -> None:
    """In the order of the logs; and the time of the plan."""
    planned = parse_ends(offsets(directory("a", 5), directory("b", 0)), [DIRECTORY, OTHER_DIRECTORY])
    assert (planned.timestamp_ms, planned.ends) == (1234, {"a": 5, "b": 0})


def test_topics_of_one_bootstrap_share_a_line() -> None:
    """Wherever they stand among the logs; and one name at two bootstraps is two logs."""
    text = offsets({"acls": {"0": 7}, "acls-of-two": {"0": 8}}, directory("a", 5), {"acls": {"0": 9}})
    planned = parse_ends(text, [TOPIC, DIRECTORY, NAMESAKE, ITS_NEIGHBOUR])
    assert planned.ends == {"one": 7, "two": 8, "a": 5, "three": 9}


def test_what_a_source_does_not_know_yet_has_no_end() -> None:
    """A topic that joined later, and a source without a word."""
    assert parse_ends(offsets({"acls": {"0": 7}}, "-"), [TOPIC, ITS_NEIGHBOUR, DIRECTORY]).ends == {"one": 7}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (offsets(directory("a", 5), version="v2"), "version `v2`, and aclog reads v1"),
        (offsets(), "has 0 sources, the job has 1"),
        (offsets(directory("a", 5), directory("b", 5)), "has 2 sources, the job has 1"),
        (offsets(directory("b", 5)), "has cluster b where the job has a"),
    ],
)
def test_the_offset_log_of_another_query_is_refused(text: str, problem: str) -> None:
    """Never taken for these logs'."""
    with pytest.raises(SparkJobError, match=problem):
        parse_ends(text, [DIRECTORY])


def test_a_topic_that_appeared_later_stops_the_job() -> None:
    """A batch with its rows alone would be committed unseen."""
    text = offsets({"acls": {"0": 7}, "acls-of-three": {"0": 1}})
    with pytest.raises(
        SparkJobError, match=r"created after the job's start: acls-of-three\. Start the job again"
    ):
        parse_ends(text, [TOPIC, ITS_NEIGHBOUR])
