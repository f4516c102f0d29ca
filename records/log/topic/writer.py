"""TopicWriter: appends each operation as one transaction, by an idempotent producer.

Records are visible after the commit only, so a failure before it wrote nothing. If a commit is not answered,
its outcome is unknown, and the producer is dropped. The next one has the same transactional id, so its start
completes or aborts the transaction, and fences the previous producer.
"""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from records.entries import MetadataRecord
from records.errors import (
    EncodeError,
    LogError,
    LogMovedError,
    LogOutcomeUnknownError,
    LogStorageError,
    LogUnreachableError,
)
from records.log.topic.client import ClientSettings
from records.log.topic.codec import encode_messages
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.transaction_assembler import HEADER, transaction_headers
from records.log.url import TopicUrl

#: Timeouts of starting a producer and of committing a transaction.
INIT_TIMEOUT_S: Final = 15.0
COMMIT_TIMEOUT_S: Final = 15.0
_CALL_TIMEOUT_S: Final = 1.0
#: Upper bound of the bytes of a message other than key and value.
_OVERHEAD_BYTES: Final = 256
#: Maximum number of records of an operation, which must be written well within the transaction's timeout.
RECORDS_MAX: Final = 50_000

_NOTHING: Final = "nothing was written"
_UNKNOWN: Final = "it is not known whether the records were written"


class TopicWriter:
    """Writes to partition 0 of a topic. Thread-safe: operations are written one after the other."""

    def __init__(
        self,
        where: TopicUrl,
        settings: ClientSettings,
        topic_errors: TopicErrors,
        message_bytes_max: int,
        is_closed: Callable[[], bool],
    ) -> None:
        self._where = where
        self._settings = settings
        self._topic_errors = topic_errors
        self._message_bytes_max = message_bytes_max
        self._is_closed = is_closed
        self._transactional_id = f"aclog-{uuid.uuid4()}"
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    def append(
        self, records: Sequence[MetadataRecord], check: Callable[[], None], after: int | None = None
    ) -> int:
        """Write one operation; returns one past its last record's offset.

        ``check`` is called before anything is sent, and raises if this is not the log any more. ``after``:
        commit only if the operation stands there, and nothing between its records.

        Raises:
            LogMovedError: it does not; it was aborted.
            EncodeError: see `encode_messages`; or too much for one message or one operation.
            LogOutcomeUnknownError: the commit's answer did not come.
            LogError: nothing was written; the text says so.
        """
        messages = encode_messages(records)
        if len(messages) > RECORDS_MAX:
            raise EncodeError(f"{len(messages)} records in one operation; a topic log takes {RECORDS_MAX}")
        for key, value in messages:
            size_bytes = len(key) + len(value or b"") + _OVERHEAD_BYTES
            if size_bytes > self._message_bytes_max:
                raise EncodeError(
                    f"a record of {size_bytes} bytes; the topic takes {self._message_bytes_max} "
                    "(max.message.bytes)"
                )
        if not messages:
            raise EncodeError("no records: there is nothing to write")
        headers = transaction_headers(secrets.token_hex(8), len(messages))
        with self._lock:
            try:
                check()
            except LogStorageError as error:
                raise type(error)(f"{error}; {_NOTHING}") from error
            producer = self._started()
            ends: list[int] = []

            def delivered(error: KafkaError | None, message: Message) -> None:
                offset = message.offset()
                if error is None and offset is not None:
                    ends.append(offset + 1)

            try:
                producer.begin_transaction()
                for (key, value), header in zip(messages, headers, strict=True):
                    self._produce(producer, key, value, header, delivered)
                if after is not None:
                    producer.flush(COMMIT_TIMEOUT_S)
                    self._require_place(after, ends, len(messages))
            except (KafkaException, BufferError) as error:
                self._abort(producer)
                raise self._wrapped(error, f"writing; {_NOTHING}") from error
            except LogError:
                self._abort(producer)
                raise
            self._commit(producer)
        return max(ends)

    def _started(self) -> Producer:
        if self._producer is None:
            doing = f"starting a transactional producer; {_NOTHING}"
            with self._topic_errors.translated(doing):
                producer = Producer(self._settings.producer(self._transactional_id))
            deadline_s = time.monotonic() + INIT_TIMEOUT_S
            while True:
                try:
                    producer.init_transactions(_CALL_TIMEOUT_S)
                    break
                except KafkaException as exception:
                    error: KafkaError = exception.args[0]
                    producer.poll(0)  # delivers the errors of the connections
                    if not error.retriable() or self._is_closed() or time.monotonic() > deadline_s:
                        raise self._topic_errors.translate(error, doing) from exception
            self._producer = producer
        return self._producer

    def _produce(
        self,
        producer: Producer,
        key: bytes,
        value: bytes | None,
        header: bytes,
        delivered: Callable[[KafkaError | None, Message], None],
    ) -> None:
        while True:
            try:
                producer.produce(
                    self._where.topic,
                    key=key,
                    value=value,
                    partition=0,
                    headers=[(HEADER, header)],
                    on_delivery=delivered,
                )
            except BufferError:
                if producer.poll(_CALL_TIMEOUT_S) == 0:
                    raise  # no message left the queue: the cluster accepts no more
            else:
                return

    def _require_place(self, after: int, ends: Sequence[int], count: int) -> None:
        """Check before the commit that the records directly follow ``after``."""
        if len(ends) < count:
            raise LogUnreachableError(f"{self._where.text}: writing; {_NOTHING}: no answer came in time")
        if (min(ends), max(ends)) != (after + 1, after + count):
            raise LogMovedError(
                f"{self._where.text}: it did not end at {after}, as others write to it; {_NOTHING}"
            )

    def _commit(self, producer: Producer) -> None:
        deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
        while True:
            try:
                producer.commit_transaction(_CALL_TIMEOUT_S)
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                if error.txn_requires_abort():
                    self._abort(producer)
                    raise self._wrapped(exception, f"committing; {_NOTHING}") from exception
                is_over = self._is_closed() or time.monotonic() > deadline_s
                if error.fatal() or not error.retriable() or is_over:
                    self._producer = None
                    topic_errors = self._topic_errors.translate(error, f"committing; {_UNKNOWN}")
                    raise LogOutcomeUnknownError(str(topic_errors)) from exception
            else:
                return

    def _abort(self, producer: Producer) -> None:
        """Abort the transaction. If that fails, drop the producer; the cluster or the next one aborts it."""
        try:
            producer.abort_transaction(_CALL_TIMEOUT_S)
        except KafkaException:
            self._producer = None

    def _wrapped(self, error: Exception, doing: str) -> Exception:
        if isinstance(error, KafkaException):
            return self._topic_errors.translate(error.args[0], doing)
        return LogUnreachableError(f"{self._where.text}: {doing}: the client's queue is full")
