"""Request lines by the billion, counted: each task reads its own, and Spark adds up what they say.

The same code as the command's reads the lines (`records.request_traffic`), by some thousand at once, so that
the answer is the command's own. What comes out of a task is a row for each different request.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from records.acl import AclOperation, ResourceType
from records.request_line import Logged, Request
from records.request_traffic import Coverage, Traffic, TrafficReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from records.request_traffic import Window

_COUNTED: Final = "origin string, what string, text string, times long"
#: Between a cluster's id and a file's URL, which have none.
_BEHIND_CLUSTER: Final = "\0"
#: Different requests and lines that a task remembers; it hands on what it has, and begins anew.
_REMEMBERED_MAX: Final = 200_000


class LineSource(NamedTuple):
    """Where lines are.

    Attributes:
        paths: files, directories or patterns of them, as Hadoop has them; those that end in .gz are unpacked.
        format: ``text``, or a table's: ``parquet``, ``json``, ``orc``, ``delta``.
        line_column: of a table, the one that has a line in each row.
        cluster_column: of a table, or of directories that are named COLUMN=VALUE: whose lines they are.
        cluster_pattern: or a regular expression, whose group is that in a file's URL.
    """

    paths: Sequence[str]
    format: str = "text"
    line_column: str = "value"
    cluster_column: str | None = None
    cluster_pattern: str | None = None


class CountedLines(NamedTuple):
    """Equal ones of a cluster; ``""`` where clusters are not told apart.

    Attributes:
        what: ``request``: decisions on one request; ``coverage``: parts that say the same of their lines.
        text: of a Logged, or of a Coverage.
        times: how many.
    """

    cluster: str
    what: Literal["request", "coverage"]
    text: str
    times: int


def counted_lines(spark: SparkSession, source: LineSource, window: Window) -> Iterator[CountedLines]:
    """Of each cluster, one cluster after the other."""
    by_file = source.cluster_pattern is not None

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return count_batches(batches, window, by_file=by_file)

    counted = _lines(spark, source).mapInArrow(count, _COUNTED)
    cluster = F.col("origin")
    if source.cluster_pattern is not None:
        cluster = F.regexp_extract(cluster, source.cluster_pattern, 1)
    counted = counted.groupBy(cluster.alias("cluster"), "what", "text").agg(F.sum("times"))
    if source.cluster_column is not None or source.cluster_pattern is not None:
        counted = counted.repartition("cluster").sortWithinPartitions("cluster")
    for row in counted.toLocalIterator(prefetchPartitions=True):
        yield CountedLines(*row)


def traffic_of(rows: Iterable[CountedLines]) -> Traffic:
    """What the lines of a cluster say together."""
    traffic = Traffic()
    for row in rows:
        if row.what == "request":
            traffic.count(_logged(row.text), row.times)
        else:
            traffic.coverage.add(msgspec.json.decode(row.text, type=Coverage), row.times)
    return traffic


def count_batches(
    batches: Iterable[pa.RecordBatch], window: Window, *, by_file: bool
) -> Iterator[pa.RecordBatch]:
    """What one task does: of rows with ``line`` and ``place``, what they say of each cluster or file."""
    readers: dict[str, TrafficReader] = {}
    for batch in batches:
        # A line need not be UTF-8, whatever Spark calls it.
        lines = batch.column("line").cast(pa.binary()).fill_null(b"").to_pylist()
        places = pc.run_end_encode(batch.column("place"))
        begin = 0
        for place, end in zip(places.values.to_pylist(), places.run_ends.to_pylist(), strict=True):
            cluster, _, file = place.partition(_BEHIND_CLUSTER)
            origin = file if by_file else cluster
            reader = readers.get(origin)
            if reader is None:
                reader = readers[origin] = TrafficReader(window)
            reader.read(lines[begin:end], file)
            begin = end
        if sum(map(len, readers.values())) > _REMEMBERED_MAX:
            yield _rows(readers)
            readers = {}
    yield _rows(readers)


def _lines(spark: SparkSession, source: LineSource) -> DataFrame:
    """``place``, a cluster and a file, and ``line``."""
    reader = spark.read.format(source.format)
    if source.format == "text":
        reader = reader.option("lineSep", "\n")
    rows = reader.load(list(source.paths))
    cluster: Column = F.lit("")
    if source.cluster_column is not None:
        cluster = F.coalesce(F.col(source.cluster_column).cast("string"), cluster)
    place = F.concat(cluster, F.lit(_BEHIND_CLUSTER), F.col("_metadata.file_path"))
    return rows.select(place.alias("place"), F.col(source.line_column).cast("string").alias("line"))


def _rows(readers: dict[str, TrafficReader]) -> pa.RecordBatch:
    """What was read, as rows of _COUNTED."""
    rows: list[tuple[str, str, str, int]] = []
    for origin, reader in readers.items():
        traffic = reader.settle()
        # ASCII: a name may have half a surrogate pair.
        rows += ((origin, "request", json.dumps(each), times) for each, times in traffic.counts.items())
        rows.append((origin, "coverage", msgspec.json.encode(traffic.coverage).decode(), 1))
    names = [column.partition(" ")[0] for column in _COUNTED.split(", ")]
    types = (pa.string(), pa.string(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return pa.RecordBatch.from_arrays([*map(pa.array, columns, types)], names=names)


def _logged(text: str) -> Logged:
    (principal, host, operation, resource_type, name), *rest = json.loads(text)
    return Logged(Request(principal, host, AclOperation(operation), ResourceType(resource_type), name), *rest)
