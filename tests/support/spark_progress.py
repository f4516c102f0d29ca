"""Spark's progress of a query, as its listener gets it."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql.streaming.listener import SinkProgress, SourceProgress, StreamingQueryProgress

RUN = uuid.UUID(int=1)


def progress(
    ends: tuple[str | None, ...],
    latest: tuple[str | None, ...],
    *,
    run_id: uuid.UUID = RUN,
    durations_ms: dict[str, int] | None = None,
) -> StreamingQueryProgress:
    """As Spark 4.2 says it: ``addBatch`` is there if a batch was done."""
    fields: dict[str, Any] = {
        "id": uuid.UUID(int=9),
        "runId": run_id,
        "name": None,
        "timestamp": "2026-11-21T01:00:00.500Z",
        "batchId": 0,
        "batchDuration": 0,
        "durationMs": durations_ms or {"latestOffset": 3, "triggerExecution": 4},
        "eventTime": {},
        "stateOperators": [],
        "sources": [
            SourceProgress(
                description="a log",
                startOffset="",
                endOffset=end,  # type: ignore[arg-type] # None is null in Java
                latestOffset=late,  # type: ignore[arg-type]
                numInputRows=0,
                inputRowsPerSecond=0.0,
                processedRowsPerSecond=0.0,
                metrics={},
            )
            for end, late in zip(ends, latest, strict=True)
        ],
        "sink": SinkProgress(description="", numOutputRows=-1, metrics={}),
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "observedMetrics": {},
    }
    return StreamingQueryProgress(**fields)
