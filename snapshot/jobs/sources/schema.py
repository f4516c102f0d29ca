"""Schema of the rows of a job's source, as Spark's DDL."""

from __future__ import annotations

from typing import Final

#: One row for each log with new records in a batch of the query: the range [start, end) of its offsets.
SOURCE: Final = "cluster_id string, start_offset long, end_offset long"
