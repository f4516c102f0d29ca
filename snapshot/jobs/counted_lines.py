"""Counts request lines with Spark: each task reads and counts lines, and Spark sums up the counts.

Lines are read by the same code as in the command (`records.request_traffic`), so that the results are equal.
A task returns one row for each distinct request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from records.acl import AclOperation, ResourceType
from records.request_line import Logged, Request
from records.request_traffic import Coverage, Span, Traffic, TrafficReader, Window

_COUNTED: Final = "origin string, what string, text string, times long, first_ms long, last_ms long"
#: Separates a cluster's id from a file's URL; occurs in neither.
_CLUSTER_END: Final = "\0"
#: Distinct requests and lines that a task buffers before it returns them.
_BUFFERED_MAX: Final = 200_000


class LineSource(NamedTuple):
    """The source of request lines.

    Attributes:
        paths: files, directories or patterns, in Hadoop's notation; files that end in .gz are unpacked.
        format: ``text``, or that of a table: ``parquet``, ``json``, ``orc``, ``delta``.
        line_column: the table's column of lines.
        cluster_column: the column of a table, or of directories COLUMN=VALUE, with the lines' cluster.
        cluster_pattern: or a regular expression whose group is the cluster in a file's URL.
    """

    paths: Sequence[str]
    format: str = "text"
    line_column: str = "value"
    cluster_column: str | None = None
    cluster_pattern: str | None = None


class CountedLines(NamedTuple):
    """A count of equal lines of a cluster; ``cluster`` is empty if clusters are not distinguished.

    Attributes:
        what: ``request``: decisions on one request; ``coverage``: batches of lines with equal coverage.
        text: the Logged or the Coverage as JSON.
        times: the count.
        first_ms: of the decisions, since the epoch; None if their lines have no time.
        last_ms: the same for the last one.
    """

    cluster: str
    what: Literal["request", "coverage"]
    text: str
    times: int
    first_ms: int | None
    last_ms: int | None


def counted_lines(spark: SparkSession, source: LineSource, window: Window) -> Iterator[CountedLines]:
    """Count the lines; clusters follow one another."""
    by_file = source.cluster_pattern is not None

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return count_batches(batches, window, by_file=by_file)

    counted = _lines(spark, source).mapInArrow(count, _COUNTED)
    cluster = F.col("origin")
    if source.cluster_pattern is not None:
        cluster = F.regexp_extract(cluster, source.cluster_pattern, 1)
    counted = counted.groupBy(cluster.alias("cluster"), "what", "text").agg(
        F.sum("times"), F.min("first_ms"), F.max("last_ms")
    )
    if source.cluster_column is not None or source.cluster_pattern is not None:
        counted = counted.repartition("cluster").sortWithinPartitions("cluster")
    for row in counted.toLocalIterator(prefetchPartitions=True):
        yield CountedLines(*row)


def traffic_of(rows: Iterable[CountedLines]) -> Traffic:
    """Sum up the counted lines of a cluster."""
    traffic = Traffic()
    for row in rows:
        if row.what == "request":
            span = None
            if row.first_ms is not None and row.last_ms is not None:
                span = Span(row.first_ms, row.last_ms)
            traffic.count(_logged(row.text), row.times, span)
        else:
            traffic.coverage.add(msgspec.json.decode(row.text, type=Coverage), row.times)
    return traffic


def count_batches(
    batches: Iterable[pa.RecordBatch], window: Window, *, by_file: bool
) -> Iterator[pa.RecordBatch]:
    """The work of one task: count rows of ``line`` and ``place`` by cluster or file."""
    readers: dict[str, TrafficReader] = {}
    for batch in batches:
        # A line may be invalid UTF-8, although Spark's type is string.
        lines = batch.column("line").cast(pa.binary()).fill_null(b"").to_pylist()
        places = pc.run_end_encode(batch.column("place"))
        begin = 0
        for place, end in zip(places.values.to_pylist(), places.run_ends.to_pylist(), strict=True):
            cluster, _, file = place.partition(_CLUSTER_END)
            origin = file if by_file else cluster
            reader = readers.get(origin)
            if reader is None:
                reader = readers[origin] = TrafficReader(window)
            reader.read(lines[begin:end], file)
            begin = end
        if sum(map(len, readers.values())) > _BUFFERED_MAX:
            yield _rows(readers)
            readers = {}
    yield _rows(readers)


def _lines(spark: SparkSession, source: LineSource) -> DataFrame:
    """Rows of ``place`` (cluster and file) and ``line``."""
    reader = spark.read.format(source.format)
    if source.format == "text":
        reader = reader.option("lineSep", "\n")
    rows = reader.load(list(source.paths))
    cluster: Column = F.lit("")
    if source.cluster_column is not None:
        cluster = F.coalesce(F.col(source.cluster_column).cast("string"), cluster)
    place = F.concat(cluster, F.lit(_CLUSTER_END), F.col("_metadata.file_path"))
    return rows.select(place.alias("place"), F.col(source.line_column).cast("string").alias("line"))


def _rows(readers: dict[str, TrafficReader]) -> pa.RecordBatch:
    rows: list[tuple[str, str, str, int, int | None, int | None]] = []
    for origin, reader in readers.items():
        traffic = reader.settle()
        # json.dumps escapes to ASCII: a name may have half a surrogate pair.
        for each, times in traffic.counts.items():
            span = traffic.spans.get(each, (None, None))
            rows.append((origin, "request", json.dumps(each), times, *span))
        rows.append((origin, "coverage", msgspec.json.encode(traffic.coverage).decode(), 1, None, None))
    names = [column.partition(" ")[0] for column in _COUNTED.split(", ")]
    types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return pa.RecordBatch.from_arrays([*map(pa.array, columns, types)], names=names)


def _logged(text: str) -> Logged:
    (principal, host, operation, resource_type, name), *rest = json.loads(text)
    return Logged(Request(principal, host, AclOperation(operation), ResourceType(resource_type), name), *rest)
