"""Destinations of decision events: stdout, a rotated file, and a Kafka topic.

Lines are written with unbuffered system calls: a full disk is noticed immediately, and an incomplete line is
cut off again. The handlers of ``logging`` keep it, and raise when they are closed.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import DECISION_LOG, LOG_URL
from authorizer.node.decision_log.event import EVENT_CONTENT_TYPE
from records.log.url import TOPIC, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from authorizer.configuration.decision_log import DestinationSettings
    from authorizer.configuration.load import Config
    from records.log.topic.async_producer import AsyncTopicProducer

log = structlog.get_logger(__name__)

#: Headers of each message (CloudEvents' structured mode).
HEADERS: Final = {"content-type": EVENT_CONTENT_TYPE.encode("ascii")}
#: Time at the end for the brokers to acknowledge the last messages.
_CLOSE_TIMEOUT_S: Final = 5.0
_MODE: Final = 0o640
_ROTATION_RETRY_INTERVAL_S: Final = 60.0
_PIPE_TIMEOUT_S: Final = 5.0
#: PIPE_BUF of Linux: size of an atomic write to a pipe (POSIX guarantees 512).
_ATOMIC_WRITE_BYTES: Final = 4096


class Destination(ABC):
    """A destination of ``aclog.decision.log``. It never raises; it counts events that it cannot write.

    Attributes:
        name: as configured, without a secret: for metrics and log lines.
        reason: why the last lost event was lost, for people.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.written = 0
        self.lost = 0
        self.reason = ""

    @abstractmethod
    def put(self, events: Sequence[bytes]) -> None:
        """Write events, each a line of JSON without its end; without events, update the counts."""

    @abstractmethod
    def close(self) -> None:
        """Write pending events, within a time limit; later events are lost. Idempotent."""

    def lose(self, events: int, reason: str) -> None:
        """Count lost events."""
        self.lost += events
        self.reason = reason


class StdoutDestination(Destination):
    """Lines on a file descriptor that other processes may write to as well; each line stays complete.

    A full pipe is given ``timeout_s``, so that a slow reader gets all events. While it stays full after that,
    events are lost without a further wait.
    """

    def __init__(self, name: str, descriptor: int = 1, *, timeout_s: float = _PIPE_TIMEOUT_S) -> None:
        super().__init__(name)
        self._descriptor = descriptor
        self._timeout_s = timeout_s
        self._has_reader = True
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def put(self, events: Sequence[bytes]) -> None:
        start, end = 0, 0
        while start < len(events):
            size_bytes = 0
            while end < len(events) and (end == start or size_bytes + len(events[end]) < _ATOMIC_WRITE_BYTES):
                size_bytes += len(events[end]) + 1
                end += 1
            if not self._is_writable():
                self.lose(len(events) - start, "nothing reads it")
                return
            try:
                _write(self._descriptor, b"\n".join([*events[start:end], b""]))
            except OSError as error:
                self.lose(len(events) - start, str(error.strerror))
                return
            self.written += end - start
            start = end

    def close(self) -> None:
        """Nothing is pending."""

    def _is_writable(self) -> bool:
        """Whether an atomic write would succeed now, or within the timeout."""
        self._has_reader = bool(self._poll.poll(self._timeout_s * 1000 if self._has_reader else 0))
        return self._has_reader


class FileDestination(Destination):
    """Lines appended to a file that only this process writes.

    A file that would grow beyond ``max_bytes`` becomes ``PATH.1``, the earlier ``PATH.1`` becomes ``PATH.2``
    and so on; ``keep`` of them remain. If another program (logrotate) has moved or deleted the file, a new
    one is created. Owner and group can read it.

    Raises:
        OSError: the file cannot be opened, or another process writes it.
    """

    def __init__(self, name: str, path: Path, *, max_bytes: int, keep: int) -> None:
        super().__init__(name)
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._rotate_from_s = 0.0
        self._descriptor: int | None = _open(path)
        self._is_closed = False

    def put(self, events: Sequence[bytes]) -> None:
        if not events:
            return
        if self._is_closed:
            self.lose(len(events), "it is closed")
            return
        data = b"\n".join([*events, b""])
        try:
            descriptor = self._writable_file(len(data))
        except OSError as error:
            self.lose(len(events), str(error.strerror))
            return
        before_bytes = os.fstat(descriptor).st_size
        try:
            _write(descriptor, data)
        except OSError as error:
            complete = self._truncate_incomplete(descriptor, before_bytes, data)
            self.written += complete
            self.lose(len(events) - complete, str(error.strerror))
        else:
            self.written += len(events)

    def close(self) -> None:
        self._is_closed = True
        self._release()

    def _writable_file(self, size_bytes: int) -> int:
        """Return the file for these bytes, opened or rotated if necessary."""
        if self._descriptor is not None and not self._is_in_place(self._descriptor):
            self._release()
        if self._descriptor is None:
            self._descriptor = _open(self._path)
        size_before_bytes = os.fstat(self._descriptor).st_size
        if self._max_bytes and size_before_bytes and size_before_bytes + size_bytes > self._max_bytes:
            self._descriptor = self._rotated(self._descriptor)
        return self._descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(descriptor))

    def _rotated(self, descriptor: int) -> int:
        """Return a new file after rotation; the present one if files cannot be renamed."""
        if time.monotonic() < self._rotate_from_s:
            return descriptor
        paths = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._keep + 1))]
        try:
            for older, newer in reversed(list(zip(paths[1:], paths[:-1], strict=True))):
                with suppress(FileNotFoundError):
                    newer.replace(older)
            opened = _open(self._path)
        except OSError as error:
            self._rotate_from_s = time.monotonic() + _ROTATION_RETRY_INTERVAL_S
            log.warning(
                "decision_log_not_rotated",
                file=str(self._path),
                reason=error.strerror,
                way_out="this process must be allowed to rename files in that directory; until then it grows",
            )
            return descriptor
        os.close(descriptor)
        return opened

    def _truncate_incomplete(self, descriptor: int, before_bytes: int, data: bytes) -> int:
        """Remove an incomplete last line; return the number of written lines."""
        try:
            written = data[: max(0, os.fstat(descriptor).st_size - before_bytes)]
            complete_bytes = written.rfind(b"\n") + 1
            if complete_bytes < len(written):
                os.ftruncate(descriptor, before_bytes + complete_bytes)
        except OSError:
            return 0
        return written.count(b"\n")

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class TopicDestination(Destination):
    """Messages of a Kafka topic; they count as written once the brokers have acknowledged them."""

    def __init__(self, name: str, producer: AsyncTopicProducer) -> None:
        super().__init__(name)
        self._producer = producer

    def put(self, events: Sequence[bytes]) -> None:
        self._producer.put(events)
        self._update_counts()

    def close(self) -> None:
        self._producer.close(_CLOSE_TIMEOUT_S)
        self._update_counts()

    def _update_counts(self) -> None:
        producer = self._producer
        self.written, self.lost, self.reason = producer.delivered, producer.lost, producer.reason


def event_topic(config: Config, settings: DestinationSettings) -> tuple[str, Mapping[str, str]]:
    """Return the topic's URL and its client's settings.

    Credentials of the log's cluster are sent to no other cluster. ConfigError: the topic is on the log's
    cluster, but the log is not a topic.
    """
    if "://" in settings.location:
        return settings.location, config.decision_log_kafka
    log_url = config.log_url
    if log_url is None or kind_of(log_url) != TOPIC:
        raise ConfigError(
            DECISION_LOG,
            settings.text,
            f"kafka://HOST:PORT/{settings.location}: `{LOG_URL}` is no topic whose cluster it could be on",
        )
    return f"{log_url.rpartition('/')[0]}/{settings.location}", {**config.kafka, **config.decision_log_kafka}


def _open(path: Path) -> int:
    """Open and lock a file for appending; end an incomplete line of a crash."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes and os.pread(descriptor, 1, size_bytes - 1) != b"\n":
            _write(descriptor, b"\n")
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise BlockingIOError(error.errno, "another process writes it", str(path)) from None
        raise
    return descriptor


def _write(descriptor: int, data: bytes) -> None:
    """Write all bytes, or raise OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
