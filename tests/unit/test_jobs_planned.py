"""Spark's offset log, as its files are."""

from __future__ import annotations

import json

import pytest

from snapshot.errors import SparkJobError
from snapshot.jobs.planning.planned_offsets import parse_ends
from snapshot.jobs.sources.log_ranges import OffsetAndEpoch


def offsets(*sources: object, version: str = "v1") -> str:
    """One file; a source is its JSON, or the mark of one without offsets."""
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1234, "conf": {"a.b": "c"}})
    lines = [source if isinstance(source, str) else json.dumps(source) for source in sources]
    return "\n".join([version, metadata, *lines])


def entry(offset: int, epoch: int | None = None) -> dict[str, object]:
    return {"topicId": "dHR0dHR0dHR0dHR0dHR0dA", "offset": offset, "epoch": epoch}


def test_all_logs_share_a_line() -> None:
    planned = parse_ends(offsets({"a": entry(5, 3), "b": entry(0)}))
    assert (planned.timestamp_ms, planned.ends) == (
        1234,
        {"a": OffsetAndEpoch(5, 3), "b": OffsetAndEpoch(0, None)},
    )


def test_a_source_without_offsets_has_no_ends() -> None:
    assert parse_ends(offsets("-")).ends == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (offsets({}, version="v2"), "version `v2`, and aclog reads v1"),
        (offsets(), "has 0 sources, the job has 1"),
        (offsets({}, {}), "has 2 sources, the job has 1"),
    ],
)
def test_the_offset_log_of_another_query_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SparkJobError, match=problem):
        parse_ends(text)
