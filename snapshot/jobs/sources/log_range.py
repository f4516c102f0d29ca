"""LogRange: a range of a log, planned on the driver and read by the task that folds it.

The records do not pass through the JVM, nor through a source of Spark, whose reading would need a second
Python process for each task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from records.columns.batches import to_log_batches
from records.errors import LogError, OffsetOutOfRangeError
from records.log.base import BatchPosition, LogIdentity
from records.log.client_keys import NamedSettings, keys_of
from records.log.url import TOPIC, kind_of
from records.log_batch import LogBatch
from snapshot.jobs.sources.log_ranges import ends_early, open_ranged, out_of_range

_PEM_FILES: Final = ("ssl.ca", "ssl.certificate", "ssl.key")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """A range to read; not empty.

    Attributes:
        url: of the log; of a directory with an absolute path, as tasks may have another working directory.
        identity: the expected one.
        client: client settings of the cluster that has the log; may hold secrets.
        end_epoch: of the record batch that ends at ``end``; None for a topic, which has messages.
        position_hint: position in the log's files from which to seek ``start``.
    """

    url: str
    identity: LogIdentity
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    start: int
    end: int
    end_epoch: int | None
    position_hint: BatchPosition | None = None


def settings_without_files(client: Mapping[str, str]) -> Mapping[str, str]:
    """Client settings for other hosts: texts of certificates and keys in place of PEM files."""
    found = dict(client)
    for name in _PEM_FILES:
        location = found.get(f"{name}.location")
        if location is None:
            continue
        try:
            text = Path(location).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            continue  # a directory, or no PEM: it must be there on all hosts
        if "-----BEGIN" in text:
            del found[f"{name}.location"]
            found[f"{name}.pem"] = text
    return NamedSettings(found, keys_of(client))


def read_ranges(ranges: Iterable[LogRange]) -> Iterator[tuple[str, Iterator[LogBatch]]]:
    """Cluster id and batches of each range, in any order. Take the batches before the next range.

    Topics of one cluster are read together, in groups.

    Args:
        ranges: each of another log.

    The iterator of a range raises:
        DecodeError: a damaged batch, or a record that cannot be decoded; with file or log, and offset.
        LogError: the log has changed since the range was planned, or cannot be read.
        SparkJobError: it was trimmed or truncated.

    Raises:
        LogUnreachableError: the cluster of topics does not answer.
    """
    topics: dict[tuple[str, frozenset[tuple[str, str]]], list[LogRange]] = {}
    for each in ranges:
        if kind_of(each.url) == TOPIC:
            # Loads the client library, which only topics need.
            from records.log.url import parse_topic_url  # noqa: PLC0415

            servers = parse_topic_url(each.url).bootstrap_servers
            topics.setdefault((servers, frozenset(each.client.items())), []).append(each)
        else:
            yield each.identity.cluster_id, _read(each)
    for (servers, _), of_cluster in topics.items():
        yield from _read_topics(servers, of_cluster)


def _read_topics(servers: str, ranges: Sequence[LogRange]) -> Iterator[tuple[str, Iterator[LogBatch]]]:
    from records.log.topic.range_reader import TopicRange, TopicRangeReader  # noqa: PLC0415 - as above

    cluster_ids = {each.url: each.identity.cluster_id for each in ranges}
    with closing(TopicRangeReader(servers, ranges[0].client)) as reader:
        for found, batches in reader.read([TopicRange(each.url, each.start, each.end) for each in ranges]):
            yield cluster_ids[found.url], _of_topic(found.url, batches)


def _of_topic(url: str, batches: Iterator[LogBatch]) -> Iterator[LogBatch]:
    try:
        yield from batches
    except OffsetOutOfRangeError as error:
        raise out_of_range(url, error) from error


def _read(wanted: LogRange) -> Iterator[LogBatch]:
    with closing(open_ranged(wanted.url, wanted.identity, wanted.client)) as log:
        if wanted.position_hint is not None:
            log.use_position_hint(wanted.position_hint)
        position, epoch = wanted.start, None
        while position < wanted.end:
            try:
                read = log.read_raw(position)
            except OffsetOutOfRangeError as error:
                raise out_of_range(wanted.url, error) from error
            if not read:
                raise ends_early(wanted.url, position, wanted.end)
            read = [batch for batch in read if batch.base_offset < wanted.end]
            batches, problem = to_log_batches(read, columns_from=0)
            yield from batches
            if problem is not None:
                raise problem.located(source=wanted.url)
            position, epoch = read[-1].end_offset, read[-1].epoch
        if (position, epoch) != (wanted.end, wanted.end_epoch):
            raise LogError(
                f"{wanted.url}: the log was truncated and rewritten: offset {wanted.end} was the end of a "
                f"batch of epoch {wanted.end_epoch}; now a batch of epoch {epoch} ends at {position}. Start "
                f"again with another checkpoint"
            )
