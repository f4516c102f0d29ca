"""TopicReader: reads complete batches in offset order, by consumers without a group.

Two consumers are needed: only the answer to a fetch *at* the log's end marks the end, and a broker delays the
answer to such a fetch.

    drainer   is assigned for one burst, from the last message to the end, which it detects within
    milliseconds by
              its short waits; then it is unassigned and sends no fetches
    waker     has one long fetch at the end, and drops its messages: they show that there are more

A burst begins with the epoch of the last message, and the broker checks whether the log still has that epoch
there (KIP-320). It begins at the end of that message, not at the position: transaction markers between the
two may have a later epoch than the message.

    offset        12   13   14       15
                  m    m    marker   (end, LSO)      position 15, anchor (14, epoch of 13)
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from records.errors import DecodeError, LogError, OffsetOutOfRangeError
from records.log.topic.client import ClientSettings
from records.log.topic.codec import decode_messages
from records.log.topic.topic_admin import LogEnd, TopicAdmin
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.transaction_assembler import HEADER, FetchedRecords, TransactionAssembler
from records.log.url import TopicUrl
from records.log_batch import LogBatch

#: Maximum number of messages of one call of the client.
_MESSAGES_MAX: Final = 10_000
#: Timeout of a burst without messages.
_ANSWER_TIMEOUT_S: Final = 10.0
#: Interval of checks whether the log was closed.
_CLOSE_CHECK_INTERVAL_S: Final = 0.1
#: The waker is assigned again if it would have to drop more messages than this.
_WAKER_BEHIND_MAX: Final = 1000

_OUT_OF_RANGE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}
)
# librdkafka distinguishes these two from an offset out of range by their texts only.
_DIVERGED: Final = re.compile(r"truncation|[Nn]o epoch found")
_BROKER_END: Final = re.compile(r"broker end offset is (\d+)")


@dataclass(frozen=True, slots=True)
class _Anchor:
    """An offset, and the epoch of the last message below it, or an earlier one."""

    offset: int
    epoch: int
    #: Whether the broker can check this epoch.
    is_known: bool = True


_NOWHERE: Final = _Anchor(0, 0, is_known=False)


class TopicReader:
    """Reads partition 0 of a topic. Not thread-safe.

    Attributes:
        compared_epoch: of the leader whose log contains all records read so far; None: no read has reached
            the end. Thread-safe.
    """

    #: The end that the last burst reached; None: there is more to read.
    _end: int | None
    #: Whether that end was not returned yet.
    _is_new_end: bool
    #: Whether the waker has found more messages.
    _has_more: bool
    #: The error of the next message, which cannot be decoded.
    _problem: DecodeError | None

    def __init__(
        self,
        where: TopicUrl,
        settings: ClientSettings,
        admin: TopicAdmin,
        topic_errors: TopicErrors,
        is_closed: Callable[[], bool],
    ) -> None:
        self._where = where
        self._settings = settings
        self._admin = admin
        self._topic_errors = topic_errors
        self._is_closed = is_closed
        self._drainer: Consumer | None = None
        # Of the leader, when the drainer was created.
        self._drainer_epoch = -1
        self._is_draining = False
        self._waker: Consumer | None = None
        # Next offset of the waker; None: it is not assigned.
        self._waker_at: int | None = None
        # Offset and anchor of the last check of the history.
        self._verified: tuple[int, _Anchor] | None = None
        # The same for the end of the last returned batch.
        self._returned: tuple[int, _Anchor] | None = None
        # Of the leader before the last burst.
        self._leader_epoch = -1
        self.compared_epoch: int | None = None
        # Offset at which the assembler's records continue; None: the next read starts again.
        self._next: int | None = None
        self._begin(_NOWHERE, 0)

    # --- reading -----------------------------------------------------------------------------------------

    def high_watermark(self) -> int:
        """The last stable offset; directly after a read that reached it, the one of that read."""
        if self._end is not None and self._is_new_end:
            # Else continuous writes would always move it, and a gap before it would never close.
            self._is_new_end = False
            return self._end
        return self._admin.end().offset

    @property
    def held_back_at(self) -> int | None:
        """The last stable offset if a transaction below it may be incomplete; None: none is."""
        return self._end if self._assembler.blocks_readers else None

    def read(self, offset: int, max_bytes: int) -> list[LogBatch]:
        """As MetadataLog.read. After an error the next read starts again at its offset."""
        try:
            if offset != self._next:
                self._seek(offset)
            if self._problem is None and self._may_have_more():
                self._drain(max_bytes)
                if self._end is not None:
                    self.compared_epoch = self._drainer_epoch
            batches = self._take()
        except BaseException:
            self._forget()
            self._close_drainer()  # its next burst would not check the history
            raise
        if batches:
            self._next = batches[-1].end_offset
            for batch in reversed(batches):
                if batch.record_offsets is not None:
                    self._returned_anchor = _Anchor(batch.record_offsets[1] + 1, batch.epoch)
                    break
            self._returned = self._next, self._returned_anchor
        return batches

    def _take(self) -> list[LogBatch]:
        batches = self._assembler.take(self._end)
        if not batches and self._problem is not None:
            raise self._problem
        return batches

    def rewind(self) -> None:
        """Read the batches of the last read again, as the caller dropped them."""
        self._forget()

    def reset(self) -> None:
        """Clear all state, as another topic may have the name now."""
        self._forget()
        self._returned = self._verified = self.compared_epoch = None

    def _forget(self) -> None:
        """Clear the position, but not the verified history."""
        self._stop_draining()
        self._next = None
        self._begin(_NOWHERE, 0)

    def _begin(self, anchor: _Anchor, offset: int) -> None:
        self._assembler = TransactionAssembler(offset, anchor.epoch, self._uncommitted_end)
        # Start of the next burst; and the end of what was read.
        self._anchor = self._returned_anchor = anchor
        self._read_to = offset
        self._end = None
        self._is_new_end = self._has_more = False
        self._problem = None

    def _seek(self, offset: int) -> None:
        self._forget()
        log_end = self._admin.end()
        self._leader_epoch = log_end.leader_epoch
        if offset > log_end.offset:
            raise OffsetOutOfRangeError(offset, start=self._admin.start(), end=log_end.offset)
        anchor = _Anchor(offset, 0, is_known=False)
        if self._returned is not None and self._returned[0] == offset:
            anchor = self._returned[1]
        elif self._verified is not None and self._verified[0] == offset:
            anchor = self._verified[1]
        self._begin(anchor, offset)
        self._next = offset

    def _may_have_more(self) -> bool:
        if self._end is None or self._has_more:
            return True
        log_end = self._admin.end()
        # A new leader may have another history that ends at the same offset.
        is_same = log_end == LogEnd(self._end, self._leader_epoch)
        self._leader_epoch = log_end.leader_epoch
        return not is_same

    # --- a burst -----------------------------------------------------------------------------------------

    def _drain(self, max_bytes: int) -> None:
        """Read up to the end, to ``max_bytes`` or to a message that cannot be decoded, into the assembler."""
        consume = self._start_draining().consume
        answer_by_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while self._end is None and self._problem is None and self._assembler.ready_bytes < max_bytes:
            messages = consume(_MESSAGES_MAX, 0) or consume(1, _CLOSE_CHECK_INTERVAL_S)
            if messages:
                self._add_until_end(messages)
                if not self._is_draining:
                    consume = self._start_draining().consume
                answer_by_s = time.monotonic() + _ANSWER_TIMEOUT_S
            elif self._is_closed():
                raise LogError(f"{self._where.text}: the log is closed")
            elif time.monotonic() > answer_by_s:
                raise self._topic_errors.no_answer("reading", _ANSWER_TIMEOUT_S)
        if self._end is not None or self._problem is not None:
            self._stop_draining()

    def _add_until_end(self, messages: list[Any]) -> None:
        """Add messages up to the end, or to the first that cannot be decoded.

        The client's types are optional for values that every consumed message has, so they are Any here.
        """
        first = 0
        for index in [index for index, message in enumerate(messages) if message.error() is not None]:
            if not self._add(messages[first:index]):
                return
            first, error = index + 1, messages[index].error()
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._read_error(error)
            if self._is_end(messages[index].offset()):
                return
        self._add(messages[first:])

    def _add(self, messages: list[Any]) -> bool:
        """Add messages to the assembler; False: do not add later ones."""
        # A burst begins at the last message, which may be read already.
        messages = messages[bisect_left(messages, self._read_to, key=lambda message: message.offset()) :]
        epochs = self._epochs_of_known_leader(messages)
        fetched, problem = _decode(messages[: len(epochs)], epochs)
        added, tag_problem = self._assembler.add(fetched)
        if tag_problem is not None:
            problem = tag_problem.located(offset=fetched.offsets[added])
        if added:
            self._read_to = fetched.offsets[added - 1] + 1
            self._anchor = _Anchor(self._read_to, fetched.epochs[added - 1])
        if problem is not None:
            self._problem = problem.located(source=self._where.text)
        return len(epochs) == len(messages) and problem is None

    def _epochs_of_known_leader(self, messages: list[Any]) -> list[int]:
        """Epochs of the messages, up to the first of a new leader, whose history is not checked yet."""
        epochs = [message.leader_epoch() or 0 for message in messages]
        if not -1 < self._drainer_epoch < max(epochs, default=0):
            return epochs
        self._stop_draining()
        return epochs[: next(at for at, epoch in enumerate(epochs) if epoch > self._drainer_epoch)]

    def _is_end(self, offset: int) -> bool:
        """Accept the end that a fetch reports, unless it contradicts earlier reads."""
        if offset < self._read_to:
            # A new leader may not know the progress of its followers yet; the query waits for that.
            end = self._admin.end().offset
            if end < self._read_to:
                raise OffsetOutOfRangeError(self._next or 0, start=self._admin.start(), end=end)
            return False
        self._end = self._read_to = offset
        self._is_new_end = True
        return True

    def _read_error(self, error: KafkaError) -> LogError:
        if error.code() not in _OUT_OF_RANGE:
            return self._topic_errors.translate(error, "reading")
        offset = self._next or 0
        start, end = self._admin.start(), self._admin.end().offset
        if _DIVERGED.search(error.str()):
            broker_end = _BROKER_END.search(error.str())
            # The end of the common history, or less.
            common_end = min(int(broker_end[1]), end) if broker_end else start
            return OffsetOutOfRangeError(offset, start=start, end=common_end)
        if self._anchor.offset < start <= offset:
            # Only markers between the two were trimmed; the history there cannot be checked any more.
            self._returned = offset, _Anchor(offset, self._anchor.epoch, is_known=False)
        return OffsetOutOfRangeError(offset, start=start, end=end)

    def _uncommitted_end(self) -> int:
        """The log's end, at least as new as every consumed message."""
        if self._drainer is None:
            raise LogError(f"{self._where.text}: nothing was read yet")
        end = self._drainer.get_watermark_offsets(self._partition(), cached=True)[1]
        return int(end)

    def _assign(self, consumer: Consumer, anchor: _Anchor) -> None:
        partition = self._partition(anchor.offset)
        if anchor.is_known:
            partition = TopicPartition(self._where.topic, 0, anchor.offset, leader_epoch=anchor.epoch)
        with self._topic_errors.translated("reading"):
            consumer.assign([partition])

    def _start_draining(self) -> Consumer:
        self._end, self._has_more = None, False
        if not self._is_draining:
            # A client checks its assigned epoch at the broker only when it learns of a leader: as a new
            # client, or if the leader changes while it is assigned. If the leader changed between two
            # assignments, it would know the leader already, and read another history.
            self._leader_epoch = self._admin.end().leader_epoch
            if self._leader_epoch != self._drainer_epoch:
                self._close_drainer()
        if self._drainer is None:
            with self._topic_errors.translated("making a consumer"):
                self._drainer = Consumer(self._settings.drainer())
            self._drainer_epoch = self._leader_epoch
        if not self._is_draining:
            self._assign(self._drainer, self._anchor)
            self._is_draining = True
        return self._drainer

    def _close_drainer(self) -> None:
        drainer, self._drainer = self._drainer, None
        self._is_draining = False
        if drainer is not None:
            drainer.close()

    def _stop_draining(self) -> None:
        if self._is_draining and self._drainer is not None:
            self._is_draining = False
            with self._topic_errors.translated("reading"):
                self._drainer.unassign()

    def _partition(self, offset: int = 0) -> TopicPartition:
        return TopicPartition(self._where.topic, 0, offset)

    # --- waiting -----------------------------------------------------------------------------------------

    def wait(self, offset: int, timeout_s: float) -> bool:
        if offset != self._next or self._end is None or self._problem is not None:
            if self._admin.end().offset > offset:
                return True
            since = offset
        else:
            since = self._end  # everything was returned, or is held back until there is more
        deadline_s = time.monotonic() + timeout_s
        consumer = self._wake_from(since)
        while not self._is_closed():
            left_s = deadline_s - time.monotonic()
            messages = consumer.consume(_MESSAGES_MAX, 0) or consumer.consume(
                1, max(0.0, min(left_s, _CLOSE_CHECK_INTERVAL_S))
            )
            for message in messages:
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    self._waker_at = None
                    self._has_more = True  # a read will raise the error
                    return True
                at = (message.offset() or 0) + (error is None)
                self._waker_at = max(self._waker_at or 0, at)
                if at > since:
                    self._has_more = True
            if self._has_more:
                return True
            if left_s <= 0:
                return False
        return False

    def _wake_from(self, since: int) -> Consumer:
        if self._waker is None:
            with self._topic_errors.translated("making a consumer"):
                self._waker = Consumer(self._settings.waker())
        at = self._waker_at
        # A new assignment waits for the end of the long fetch, so rather drop some messages.
        if at is None or at > since or since - at > _WAKER_BEHIND_MAX:
            self._assign(self._waker, _Anchor(since, 0, is_known=False))
            self._waker_at = since
        return self._waker

    # --- history -----------------------------------------------------------------------------------------

    def is_history(self, end_offset: int, epoch: int, empty_tail: int) -> bool:
        """As MetadataLog.is_history: the broker checks it, as for a follower (KIP-320).

        The check is at the end of the last record. Offsets after it may have later epochs, and must still be
        without records: else it is another history.
        """
        self._forget()
        self._close_drainer()  # only a new one checks
        anchor, start = _Anchor(end_offset - empty_tail, epoch), self._admin.start()
        if anchor.offset < start or (anchor.offset == start and empty_tail):
            anchor = _Anchor(min(start, end_offset), epoch, is_known=False)  # that epoch was trimmed
        if end_offset > start:
            try:
                self._begin(anchor, anchor.offset)
                self._next = anchor.offset
                self._drain(1)
                if self._has_seen_below(end_offset):
                    return False
            except OffsetOutOfRangeError:
                return False
            finally:
                self._forget()
        self._verified = end_offset, anchor
        return True

    def _has_seen_below(self, offset: int) -> bool:
        """Whether the last burst has a message below an offset."""
        offsets = [self._assembler.first_offset, None if self._problem is None else self._problem.offset]
        return any(each is not None and each < offset for each in offsets)

    def close(self) -> None:
        """Close the consumers; a later read makes new ones."""
        self._close_drainer()
        if self._waker is not None:
            self._waker.close()
        self._waker = self._waker_at = None


def _decode(messages: list[Any], epochs: list[int]) -> tuple[FetchedRecords, DecodeError | None]:
    """Decode messages up to the first that cannot be decoded; returns them and its error."""
    offsets = [message.offset() for message in messages]
    keys = [message.key() for message in messages]
    values = [message.value() for message in messages]
    timestamps_ms = [message.timestamp()[1] for message in messages]
    records, problem = decode_messages(keys, values, offsets, timestamps_ms)
    sizes_bytes = [len(key or b"") + len(value or b"") for key, value in zip(keys, values, strict=True)]

    def tag(index: int) -> bytes | None:
        return _tag(messages[index])

    decoded_offsets = offsets[: len(records)]
    return FetchedRecords(records, decoded_offsets, timestamps_ms, epochs, sizes_bytes, tag), problem


def _tag(message: Any) -> bytes | None:
    """The last value of HEADER in a message, as Kafka uses the last of equal headers."""
    tag = None
    for name, value in message.headers() or ():
        if name == HEADER:
            tag = value
    return tag
