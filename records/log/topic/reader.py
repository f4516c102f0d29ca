"""Whole batches in offset order, from a consumer that is assigned to the log and belongs to no group.

Two consumers share the work, because only an answer to a fetch *at* the log's end says that this is the end,
and a broker keeps such a fetch waiting:

    drainer   is assigned for one burst: from the last message seen to the end, which its short waits tell
              within some milliseconds; then it is unassigned and asks for nothing
    waker     keeps one long fetch waiting at the end, and drops what it gets: there is more

A burst begins with the epoch of the last message seen, and the broker says whether the log still has that
there (KIP-320). It begins at that message's end, not at the position: transaction markers between the two
may have a later epoch than the message has.

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
from records.log.topic.url import TopicUrl
from records.log_batch import LogBatch

#: Messages that are taken from the client at once at most.
_MESSAGES_MAX: Final = 10_000
#: A burst in which nothing comes for so long has failed.
_ANSWER_TIMEOUT_S: Final = 10.0
#: Between two looks at whether the log was closed meanwhile.
_CLOSE_CHECK_INTERVAL_S: Final = 0.1
#: The waker is assigned anew when it would have to drop more than this.
_WAKER_BEHIND_MAX: Final = 1000

_OUT_OF_RANGE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}
)
# librdkafka tells these two from an offset out of range by their texts only.
_DIVERGED: Final = re.compile(r"truncation|[Nn]o epoch found")
_BROKER_END: Final = re.compile(r"broker end offset is (\d+)")


@dataclass(frozen=True, slots=True)
class _Anchor:
    """An offset, and the epoch of the last message below it, or one that is certainly not later."""

    offset: int
    epoch: int
    #: Whether the broker can be asked if this is the log's history.
    is_known: bool = True


_NOWHERE: Final = _Anchor(0, 0, is_known=False)


class TopicReader:
    """Reads partition 0 of a topic. Not thread-safe.

    Args:
        where: for errors.
        settings: of the clients.
        admin: asked for the log's start and end.
        topic_errors: makes the errors.
        is_closed: asked while waiting.

    Attributes:
        compared_epoch: of the leader whose log is known to begin with what was read; None before a read has
            met the end. For any thread.
    """

    #: The end that the last burst met; None while there is more to be read.
    _end: int | None
    #: Whether that end was not asked for since.
    _end_is_news: bool
    #: Whether the waker says that there is more.
    _has_more: bool
    #: What ends the run of messages that can be decoded.
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
        # Of the leader, when the drainer was made.
        self._drainer_epoch = -1
        self._is_draining = False
        self._waker: Consumer | None = None
        # Offset that the waker is to tell of next; None if it is not assigned.
        self._waker_at: int | None = None
        # Where the history was asked about last, and the anchor there.
        self._verified: tuple[int, _Anchor] | None = None
        # The same for the end of the batch returned last.
        self._returned: tuple[int, _Anchor] | None = None
        # Of the leader, when it was asked last before a burst.
        self._leader_epoch = -1
        self.compared_epoch: int | None = None
        # Where a read goes on with what the assembler has; None: it begins anew.
        self._next: int | None = None
        self._begin(_NOWHERE, 0)

    # --- reading -----------------------------------------------------------------------------------------

    def high_watermark(self) -> int:
        """The last stable offset; directly after a read that reached it, as it was then."""
        if self._end is not None and self._end_is_news:
            # Else writes that never pause would move it on for ever, and a gap before it would never close.
            self._end_is_news = False
            return self._end
        return self._admin.end().offset

    @property
    def held_back_at(self) -> int | None:
        """The last stable offset at which what was read is not known to be whole; None if nothing waits."""
        return self._end if self._assembler.blocks_readers else None

    def read(self, offset: int, max_bytes: int) -> list[LogBatch]:
        """As MetadataLog.read. After an error the next read begins anew at its offset."""
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
            self._close_drainer()  # whose next burst would not ask about the history
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
        """What the last read returned was not handed on: it will be asked for again."""
        self._forget()

    def reset(self) -> None:
        """Forget everything: another topic may have the name now."""
        self._forget()
        self._returned = self._verified = self.compared_epoch = None

    def _forget(self) -> None:
        """Forget where reading stands, but not what is known about the history there."""
        self._stop_draining()
        self._next = None
        self._begin(_NOWHERE, 0)

    def _begin(self, anchor: _Anchor, offset: int) -> None:
        self._assembler = TransactionAssembler(offset, anchor.epoch, self._uncommitted_end)
        # Where the next burst begins; and below where everything was seen.
        self._anchor = self._returned_anchor = anchor
        self._read_to = offset
        self._end = None
        self._end_is_news = self._has_more = False
        self._problem = None

    def _seek(self, offset: int) -> None:
        self._forget()
        look = self._admin.end()
        self._leader_epoch = look.leader_epoch
        if offset > look.offset:
            raise OffsetOutOfRangeError(offset, start=self._admin.start(), end=look.offset)
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
        look = self._admin.end()
        # A new leader may have another history that ends at the same offset.
        is_same = look == LogEnd(self._end, self._leader_epoch)
        self._leader_epoch = look.leader_epoch
        return not is_same

    # --- a burst -----------------------------------------------------------------------------------------

    def _drain(self, max_bytes: int) -> None:
        """Give the assembler what there is, to the end, ``max_bytes`` or a message that cannot be decoded."""
        consume = self._start_draining().consume
        answer_by_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while self._end is None and self._problem is None and self._assembler.ready_bytes < max_bytes:
            messages = consume(_MESSAGES_MAX, 0) or consume(1, _CLOSE_CHECK_INTERVAL_S)
            if messages:
                self._take_in(messages)
                if not self._is_draining:
                    consume = self._start_draining().consume
                answer_by_s = time.monotonic() + _ANSWER_TIMEOUT_S
            elif self._is_closed():
                raise LogError(f"{self._where.text}: the log is closed")
            elif time.monotonic() > answer_by_s:
                raise self._topic_errors.no_answer("reading", _ANSWER_TIMEOUT_S)
        if self._end is not None or self._problem is not None:
            self._stop_draining()

    def _take_in(self, messages: list[Any]) -> None:
        """Add messages up to the end, or to the first that cannot be decoded.

        The client types as optional what only a message of a producer lacks, so they are Any here.
        """
        first = 0
        for place in [place for place, message in enumerate(messages) if message.error() is not None]:
            if not self._add(messages[first:place]):
                return
            first, error = place + 1, messages[place].error()
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._read_error(error)
            if self._is_end(messages[place].offset()):
                return
        self._add(messages[first:])

    def _add(self, messages: list[Any]) -> bool:
        """Give the assembler what these say; False: what comes after them is not to be taken."""
        offsets = [message.offset() for message in messages]
        # A burst begins at the last message, and that may be held back.
        seen = bisect_left(offsets, self._read_to)
        if seen:
            messages, offsets = messages[seen:], offsets[seen:]
        epochs = [message.leader_epoch() or 0 for message in messages]
        is_of_leader = not -1 < self._drainer_epoch < max(epochs, default=0)
        if not is_of_leader:
            # The leader changed after it was asked: nothing of a new one's is taken unchecked.
            self._stop_draining()
            count = next(at for at, epoch in enumerate(epochs) if epoch > self._drainer_epoch)
            messages, offsets, epochs = messages[:count], offsets[:count], epochs[:count]
        keys = [message.key() for message in messages]
        values = [message.value() for message in messages]
        timestamps_ms = [message.timestamp()[1] for message in messages]
        records, problem = decode_messages(keys, values, offsets, timestamps_ms)
        sizes_bytes = [len(key or b"") + len(value or b"") for key, value in zip(keys, values, strict=True)]
        count = len(records)
        added, tag_problem = self._assembler.add(
            FetchedRecords(
                records, offsets[:count], timestamps_ms, epochs, sizes_bytes, lambda at: _tag(messages[at])
            )
        )
        if tag_problem is not None:
            problem = tag_problem.located(offset=offsets[added])
        if added:
            self._read_to = offsets[added - 1] + 1
            self._anchor = _Anchor(self._read_to, epochs[added - 1])
        if problem is not None:
            self._problem = problem.located(source=self._where.text)
        return is_of_leader and problem is None

    def _is_end(self, offset: int) -> bool:
        """Take a fetch's word for where the log ends, unless it contradicts what was read before."""
        if offset < self._read_to:
            # A new leader may not know yet how far its followers are; asked, it says so.
            end = self._admin.end().offset
            if end < self._read_to:
                raise OffsetOutOfRangeError(self._next or 0, start=self._admin.start(), end=end)
            return False
        self._end = self._read_to = offset
        self._end_is_news = True
        return True

    def _read_error(self, error: KafkaError) -> LogError:
        if error.code() not in _OUT_OF_RANGE:
            return self._topic_errors.translate(error, "reading")
        offset = self._next or 0
        start, end = self._admin.start(), self._admin.end().offset
        if _DIVERGED.search(error.str()):
            told = _BROKER_END.search(error.str())
            # The end of what is common, or less.
            return OffsetOutOfRangeError(offset, start=start, end=min(int(told[1]), end) if told else start)
        if self._anchor.offset < start <= offset:
            # Nothing but markers was trimmed between the two; the history there cannot be checked any more.
            self._returned = offset, _Anchor(offset, self._anchor.epoch, is_known=False)
        return OffsetOutOfRangeError(offset, start=start, end=end)

    def _uncommitted_end(self) -> int:
        """At least as new as every message that was consumed."""
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
            # A client asks the broker about the epoch that it is assigned with only when it learns who leads:
            # as a new client, or when the leader changes while it is assigned. Of a change in between it
            # would know before, and read on in another history.
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
        """As MetadataLog.wait."""
        if offset != self._next or self._end is None or self._problem is not None:
            if self._admin.end().offset > offset:
                return True
            since = offset
        else:
            since = self._end  # what is held back needs more, and the rest was returned
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
                    self._has_more = True  # whatever it is, reading will say
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
        # Assigning anew waits for the long fetch to end: rather drop some messages.
        if at is None or at > since or since - at > _WAKER_BEHIND_MAX:
            self._assign(self._waker, _Anchor(since, 0, is_known=False))
            self._waker_at = since
        return self._waker

    # --- history -----------------------------------------------------------------------------------------

    def is_history(self, end_offset: int, epoch: int, empty_tail: int) -> bool:
        """As MetadataLog.is_history: asks the broker, as a follower does (KIP-320).

        It is asked at the end of the last record. What is behind that may be of later epochs, and must be
        without records still: else it is another history than the one that was followed.
        """
        self._forget()
        self._close_drainer()  # only a new one asks
        told, start = _Anchor(end_offset - empty_tail, epoch), self._admin.start()
        if told.offset < start or (told.offset == start and empty_tail):
            told = _Anchor(min(start, end_offset), epoch, is_known=False)  # nothing is left of that epoch
        if end_offset > start:
            try:
                self._begin(told, told.offset)
                self._next = told.offset
                self._drain(1)
                if self._has_seen_below(end_offset):
                    return False
            except OffsetOutOfRangeError:
                return False
            finally:
                self._forget()
        self._verified = end_offset, told
        return True

    def _has_seen_below(self, offset: int) -> bool:
        """Whether the burst that just ended brought a message below an offset."""
        seen = [self._assembler.first_offset, None if self._problem is None else self._problem.offset]
        return any(each is not None and each < offset for each in seen)

    def close(self) -> None:
        """Close the consumers."""
        self._close_drainer()
        if self._waker is not None:
            self._waker.close()
        self._waker = None


def _tag(message: Any) -> bytes | None:
    """HEADER's value among the headers of a message; the last one, as everywhere in Kafka."""
    tag = None
    for name, value in message.headers() or ():
        if name == HEADER:
            tag = value
    return tag
