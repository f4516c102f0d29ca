"""TopicRangeReader: reads ranges of many topics of one cluster, by one consumer for each group of them.

A range ends at or below the last stable offset, as it was when the range was planned. All committed messages
in it are returned, and no others. A range is complete when a message at or beyond its last offset arrives, or
the end of the partition: its last offsets may hold transaction markers or nothing.

    ranges         groups of small ranges                    a large range
    are read       all at a time, each buffered until        alone, and its messages are returned as they
                   it is complete                            arrive
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from records.errors import LogError, OffsetOutOfRangeError
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.codec import decode_messages
from records.log.topic.topic_errors import TopicErrors
from records.log.url import TOPIC_SCHEME, TopicUrl, parse_topic_url
from records.log_batch import LogBatch

#: Offsets of the ranges that are read and buffered at a time.
GROUP_OFFSETS_MAX: Final = 20_000
#: Maximum number of messages of one call of the client.
_MESSAGES_MAX: Final = 10_000
#: Timeout of a read without messages.
_ANSWER_TIMEOUT_S: Final = 10.0
_POLL_INTERVAL_S: Final = 0.1
#: Time without messages after which the reader asks whether the topics still exist.
_CHECK_INTERVAL_S: Final = 1.0
_OUT_OF_RANGE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The offsets [start, end) of the topic with this URL; not empty."""

    url: str
    start: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


@dataclass(slots=True)
class _Reading:
    """A range while it is read; ``messages``: those that were not returned."""

    wanted: TopicRange
    where: TopicUrl
    topic_errors: TopicErrors
    position: int
    messages: list[Any] = field(default_factory=list)
    is_complete: bool = False
    error: LogError | None = None

    @property
    def has_ended(self) -> bool:
        return self.is_complete or self.error is not None

    def add(self, message: Any) -> None:
        offset = message.offset()
        if offset < self.wanted.end:
            self.messages.append(message)
        self.position = offset + 1
        self.is_complete = self.position >= self.wanted.end


class TopicRangeReader:
    """Reads ranges of topics with the same bootstrap servers. Not thread-safe.

    Args:
        bootstrap_servers: ``HOST:PORT[,HOST:PORT...]``.
        client: settings, ``aclog.kafka.*`` without that prefix.

    Raises:
        LogError: a setting is invalid.
    """

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str]) -> None:
        self._errors = ClientErrors(client)
        where = TopicUrl(f"{TOPIC_SCHEME}{bootstrap_servers}", bootstrap_servers, "")
        self._settings = ClientSettings(where, client, self._errors).drainer()
        self._topic_errors = TopicErrors(where, self._errors)
        self._consumer = self._new_consumer()

    def read(self, ranges: Sequence[TopicRange]) -> Iterator[tuple[TopicRange, Iterator[LogBatch]]]:
        """Each range, with its batches of one or more messages. Take these before the next range.

        The ranges are of different topics. The iterator of a range raises its errors:
            OffsetOutOfRangeError: its topic no longer has all its offsets.
            DecodeError: a message that cannot be decoded, with URL and offset.
            LogError: its topic cannot be read.

        Raises:
            LogUnreachableError: the cluster does not answer.
        """
        for number, group in enumerate(_groups(ranges)):
            if number:
                # A client that is connected queries the topics of a new assignment only once a second.
                self._consumer.close()
                self._consumer = self._new_consumer()
            readings = [self._reading(wanted) for wanted in group]
            by_topic = {each.where.topic: each for each in readings}
            self._assign(readings)
            if len(readings) == 1:
                yield readings[0].wanted, self._streamed(by_topic)
                continue
            for each in self._buffered(by_topic):
                yield each.wanted, _batches(each)

    def close(self) -> None:
        self._consumer.close()

    def _new_consumer(self) -> Consumer:
        with self._topic_errors.translated("making a consumer"):
            return Consumer(self._settings)

    def _reading(self, wanted: TopicRange) -> _Reading:
        where = parse_topic_url(wanted.url)
        return _Reading(wanted, where, TopicErrors(where, self._errors), wanted.start)

    def _assign(self, readings: Sequence[_Reading]) -> None:
        partitions = [TopicPartition(each.where.topic, 0, each.position) for each in readings]
        with readings[0].topic_errors.translated("reading"):
            self._consumer.assign(partitions)

    def _streamed(self, by_topic: Mapping[str, _Reading]) -> Iterator[LogBatch]:
        """The batches of a single range, as they arrive."""
        (reading,) = by_topic.values()
        for _ in self._polls(by_topic):
            yield from _batches(reading)
            reading.messages = []
        yield from _batches(reading)

    def _buffered(self, by_topic: Mapping[str, _Reading]) -> Iterator[_Reading]:
        """Each range of a group when it has ended."""
        returned = set[str]()
        for _ in self._polls(by_topic):
            for topic, reading in by_topic.items():
                if reading.has_ended and topic not in returned:
                    returned.add(topic)
                    yield reading
                    reading.messages = []

    def _polls(self, by_topic: Mapping[str, _Reading]) -> Iterator[None]:
        """Add the messages of the client to the ranges; one item for each time, until all have ended."""
        answer_by_s, check_at_s = _from_now(_ANSWER_TIMEOUT_S), _from_now(_CHECK_INTERVAL_S)
        while not all(each.has_ended for each in by_topic.values()):
            messages = self._consumer.consume(_MESSAGES_MAX, 0) or self._consumer.consume(1, _POLL_INTERVAL_S)
            if not messages:
                late = [each for each in by_topic.values() if not each.has_ended]
                if time.monotonic() > answer_by_s:
                    raise late[0].topic_errors.no_answer("reading", _ANSWER_TIMEOUT_S)
                if time.monotonic() > check_at_s:
                    self._check_existence(late)
                    check_at_s = _from_now(_CHECK_INTERVAL_S)
                    yield
                continue
            ended = [topic for topic in self._add(messages, by_topic) if by_topic[topic].has_ended]
            if ended:
                # Else the client would fetch what follows the ranges.
                self._consumer.pause([TopicPartition(topic, 0) for topic in ended])
            yield
            answer_by_s, check_at_s = _from_now(_ANSWER_TIMEOUT_S), _from_now(_CHECK_INTERVAL_S)

    def _check_existence(self, readings: Sequence[_Reading]) -> None:
        """Set the error of topics that were deleted, for which the client sends no error of the partition."""
        for reading in readings:
            topic = reading.where.topic
            with suppress(KafkaException):
                found = self._consumer.list_topics(topic, timeout=_CHECK_INTERVAL_S).topics[topic]
                if found.error is not None:
                    reading.error = reading.topic_errors.translate(found.error, "reading")

    def _add(self, messages: Sequence[Any], by_topic: Mapping[str, _Reading]) -> set[str]:
        """Add messages and errors to the ranges; returns the topics of those that changed."""
        changed = set[str]()
        for message in messages:
            error, topic = message.error(), message.topic()
            reading = by_topic.get(topic)
            if reading is None:
                if error is not None and topic is None:
                    self._errors(error)  # of no topic; the reason if no answer follows
                continue
            if reading.has_ended:
                continue
            if error is None:
                reading.add(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._end(reading, message.offset())
            else:
                reading.error = self._read_error(reading, error)
            changed.add(topic)
        return changed

    def _end(self, reading: _Reading, offset: int) -> None:
        """Take the end of a partition that a fetch has reached."""
        if offset >= reading.wanted.end:
            reading.is_complete = True
            return
        # A new leader may not know yet what is committed; the query waits for that.
        try:
            start, end = self._offsets(reading)
        except LogError as error:
            reading.error = error
            return
        if end < reading.wanted.end:
            reading.error = OffsetOutOfRangeError(reading.wanted.end, start=start, end=end)

    def _read_error(self, reading: _Reading, error: KafkaError) -> LogError:
        if error.code() not in _OUT_OF_RANGE:
            return reading.topic_errors.translate(error, "reading")
        try:
            start, end = self._offsets(reading)
        except LogError as failure:
            return failure
        return OffsetOutOfRangeError(reading.position, start=start, end=end)

    def _offsets(self, reading: _Reading) -> tuple[int, int]:
        """The first offset of a topic, and its last stable offset."""
        partition = TopicPartition(reading.where.topic, 0)
        try:
            found = self._consumer.get_watermark_offsets(partition, timeout=_ANSWER_TIMEOUT_S)
        except KafkaException as exception:
            raise reading.topic_errors.translate(exception.args[0], "asking for the offsets") from exception
        if found is None:
            raise reading.topic_errors.no_answer("asking for the offsets", _ANSWER_TIMEOUT_S)
        return found


def _from_now(seconds: float) -> float:
    return time.monotonic() + seconds


def _groups(ranges: Iterable[TopicRange]) -> Iterator[list[TopicRange]]:
    """The ranges in groups that are read at a time; the largest ones first, each alone."""
    group: list[TopicRange] = []
    size = 0
    for each in sorted(ranges, key=lambda wanted: -wanted.offsets):
        if group and size + each.offsets > GROUP_OFFSETS_MAX:
            yield group
            group, size = [], 0
        group.append(each)
        size += each.offsets
    if group:
        yield group


def _batches(reading: _Reading) -> Iterator[LogBatch]:
    """The buffered messages of a range as one batch, then its error."""
    messages = reading.messages
    if messages:
        offsets = [message.offset() for message in messages]
        keys = [message.key() for message in messages]
        values = [message.value() for message in messages]
        timestamps_ms = [message.timestamp()[1] for message in messages]
        records, problem = decode_messages(keys, values, offsets, timestamps_ms, columns_from=1)
        if records:
            last = len(records) - 1
            yield LogBatch(
                offsets[0],
                offsets[last] + 1,
                messages[last].leader_epoch() or 0,
                timestamps_ms[last],
                sum(len(key or b"") + len(value or b"") for key, value in zip(keys, values, strict=True)),
                records,
            )
        if problem is not None:
            raise problem.located(source=reading.wanted.url)
    if reading.error is not None:
        raise reading.error
