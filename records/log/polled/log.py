"""PolledLog: what a cluster's brokers answer to DescribeAcls, as a MetadataLog."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from records.errors import (
    LogError,
    LogLockedError,
    LogNotFoundError,
    LogReadOnlyError,
    LogStorageError,
    LogUnreachableError,
)
from records.log.base import READ_BYTES_MAX, Freshness
from records.log.defaults import LogDefaults
from records.log.directory.writer import now_ms
from records.log.polled.poll_store import PollStore
from records.log.polled.url import FORM, PolledUrl, parse_polled_url
from records.log.protocol.brokers import Brokers
from records.log.protocol.settings import ProtocolSettings, protocol_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from records.entries import MetadataRecord
    from records.log.base import LogIdentity
    from records.log.protocol.answers import ClusterLevels, DescribedAcls
    from records.log_batch import LogBatch

Mode = Literal["read", "write", "create"]

#: When it was asked for, by the machine's clock (ms) and by one that never jumps (s); all that there is; and
#: the levels of metadata.version, where they were asked for, too.
_Answer = tuple[tuple[int, float], "DescribedAcls", "ClusterLevels | None"]

#: Between two looks at what another opening keeps, at the longest.
_LOOK_S: Final = 1.0
#: Between two questions to every broker, which release it is: each takes a connection of its own.
_LEVELS_S: Final = 30.0
#: Before a failed poll is tried again, at first; never longer than between two polls.
_RETRY_S: Final = 0.5
_RETRY_DOUBLINGS_MAX: Final = 20


class PolledLog(LogDefaults):
    """A log of polls; made by ``open``. One thread reads and waits, and polls while it does."""

    def __init__(self, where: PolledUrl, settings: ProtocolSettings) -> None:
        """A log that nobody was asked for yet, which ``reach`` does."""
        self._where = where
        self._settings = settings
        self._closing = threading.Event()
        self._brokers = Brokers(where.text, where.brokers, settings, self._closing)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._kept: PollStore | None = None
        # Guards what follows, and the brokers' connection.
        self._polling = threading.RLock()
        self._due_s = self._levels_due_s = 0.0
        self._polls = self._failures = self._failed_in_a_row = 0
        self._error: LogError | None = None
        # By the machine's clock, as others wrote it, and by one that never jumps, as it was seen here.
        self._answered: tuple[int, float] | None = None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mode: Mode = "read",
        client: Mapping[str, str] | None = None,
        lazily: bool = False,
    ) -> Self:
        """Ask the cluster for its ACLs.

        Where another opening polls for the same directory, what that one keeps is read.

        Args:
            url: ``describe://HOST:PORT[,HOST:PORT...][/DIR]``, of the brokers' listener. Without DIR nothing
                is kept behind ``close``.
            mode: ``read``.
            client: ``aclog.kafka.*`` without that prefix, see records.log.protocol.settings.
            lazily: leave the first question to ``reach``, or to whatever is called first; for a node, which
                needs a directory.

        Raises:
            LogReadOnlyError: another mode: the cluster alone changes its ACLs.
            LogUnreachableError: no broker answers, and nothing is kept.
            LogRefusedError: it does not let us in, or not ask, and nothing is kept; the text has the right.
            LogNotFoundError: it is of another cluster than what is kept.
            LogError: the URL or a setting makes no sense, or the directory holds something else.
        """
        where, settings = parse_polled_url(url), protocol_settings(client or {})
        log = cls(where, settings)
        if mode != "read":
            raise log._read_only()
        if lazily and where.directory is None:
            raise LogError(
                f"`{url}`: a node keeps what brokers answer, for its offsets and for the time when they are "
                f"away: name a directory for it, {FORM}"
            )
        return log if lazily else log.reached()

    @property
    def url(self) -> str:
        return self._where.text

    @property
    def identity(self) -> LogIdentity:
        """The cluster's id, and the topic id of the kept log; LogUnreachableError before there is one."""
        if self._kept is None:
            raise LogUnreachableError(f"{self.url}: the cluster has not answered yet")
        return self._kept.log.identity

    @property
    def is_cluster_metadata_log(self) -> bool:
        """As MetadataLog: the cluster alone changes the ACLs."""
        return True

    @property
    def is_read_only(self) -> bool:
        """Always."""
        return True

    def freshness(self) -> Freshness:
        """As MetadataLog."""
        return Freshness(
            age_ms=self._age_ms(),
            refresh_ms=round(self._settings.refresh_s * 1000),
            polls=self._polls,
            failures=self._failures,
            error=None if self._error is None else str(self._error),
        )

    def reach(self) -> None:
        """See that there is something to read: what is kept, or a first answer. Raises as ``open``."""
        with self._polling:
            if self._kept is not None:
                return
            directory = self._directory()
            found = PollStore.find(directory)
            if found is None:
                answer = self._first_answer()
                made = PollStore.make(directory, self._brokers.cluster_id)
                self._kept = self._keep(made, answer)
                return
            try:
                self._begin_with(found)
            except BaseException:
                self._kept = None
                found.close()
                raise

    def start_offset(self) -> int:
        return self._reached().log.start_offset()

    def high_watermark(self) -> int:
        return self._reached().log.high_watermark()

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[LogBatch]:
        return self._reached().log.read(offset, max_bytes=max_bytes)

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        return self._reached().log.is_history(end_offset, epoch, empty_tail=empty_tail)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """As MetadataLog, and ask the brokers when it is time. Raises as ``open``."""
        deadline_s = time.monotonic() + timeout_s
        while not self._closing.is_set():
            with self._polling:
                kept = self._reached()
                if time.monotonic() >= self._due_s:
                    kept = self._poll(kept)
            left_s = min(deadline_s, self._due_s) - time.monotonic()
            if kept.log.wait(offset, max(0.0, left_s)):
                return True
            if time.monotonic() >= deadline_s:
                return False
        return False

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        """LogReadOnlyError, always: it names the way."""
        raise self._read_only()

    def close(self) -> None:
        """End the connection, whatever waits for an answer, and the kept log. Idempotent, from any thread."""
        self._closing.set()
        self._brokers.abort()
        with self._polling:
            if self._kept is not None:
                self._kept.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    def _read_only(self) -> LogReadOnlyError:
        return LogReadOnlyError(
            f"{self.url}: what a cluster's brokers answer is only read: change its ACLs on the cluster, with "
            "kafka-acls.sh --bootstrap-server HOST:PORT or any AdminClient"
        )

    def _directory(self) -> Path:
        if self._where.directory is not None:
            return self._where.directory
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="aclog-describe-")
        return Path(self._temporary.name)

    def _reached(self) -> PollStore:
        if self._kept is None:
            self.reach()
        if self._kept is None:
            raise LogUnreachableError(f"{self.url}: the cluster has not answered yet")
        return self._kept

    def _age_ms(self) -> int | None:
        if self._answered is None:
            return None
        before_ms, seen_s = self._answered
        return before_ms + round((time.monotonic() - seen_s) * 1000)

    def _first_answer(self) -> _Answer:
        try:
            return self._answer()
        except LogError as error:
            self._failed(error)
            raise

    def _answer(self, kept: PollStore | None = None) -> _Answer:
        """What a broker answers, with the time of the question: the answer is not newer."""
        asked = now_ms(), time.monotonic()
        acls = self._brokers.acls(b"" if kept is None else kept.digest)
        if asked[1] < self._levels_due_s:
            return asked, acls, None
        levels = self._brokers.levels({} if kept is None else kept.brokers)
        self._levels_due_s = asked[1] + _LEVELS_S
        return asked, acls, levels

    def _begin_with(self, found: PollStore) -> None:
        """Go on from what is kept, after a poll if one goes well."""
        kept_id, meant_id = found.log.identity.cluster_id, self._settings.cluster_id
        if meant_id not in (None, kept_id):
            raise LogNotFoundError(
                f"{self.url}: the ACLs of cluster {kept_id} are kept there, not those of {meant_id}"
            )
        self._brokers.cluster_id = kept_id
        self._kept = found
        self._poll(found)
        if isinstance(self._error, LogNotFoundError):
            raise self._error

    def _poll(self, kept: PollStore) -> PollStore:
        """Ask, and keep the answer; or see what another opening keeps. What fails is counted, not raised.

        Raises:
            LogError: the kept log cannot be had any more.
        """
        if not kept.is_written_here:
            kept = self._taken_over(kept)
        if not kept.is_written_here:
            self._look_at(kept)
            self._due_s = time.monotonic() + min(self._settings.refresh_s, _LOOK_S)
            return kept
        try:
            answer = self._answer(kept)
        except LogError as error:
            if self._closing.is_set():
                raise
            self._failed(error)
            if self._answered is None:
                self._look_at(kept)
            return kept
        return self._keep(kept, answer)

    def _keep(self, kept: PollStore, answer: _Answer) -> PollStore:
        (at_ms, asked_s), acls, levels = answer
        try:
            kept.take(acls, levels, at_ms)
        except LogError as error:
            self._failed(error)
            kept.close()
            self._kept = None  # to be opened anew: what of it is there shows then
            self._levels_due_s = 0.0
            raise
        self._answered = 0, asked_s
        self._polls += 1
        self._failed_in_a_row, self._error = 0, None
        self._due_s = time.monotonic() + self._settings.refresh_s
        return kept

    def _failed(self, error: LogError) -> None:
        """Count it, and try again sooner than planned, and less and less soon."""
        self._failures += 1
        self._failed_in_a_row += 1
        self._error = error
        pause_s = _RETRY_S * 2 ** min(self._failed_in_a_row - 1, _RETRY_DOUBLINGS_MAX)
        self._due_s = time.monotonic() + min(self._settings.refresh_s, pause_s)

    def _look_at(self, kept: PollStore) -> None:
        """When was the answer given that another opening keeps, or an earlier one kept."""
        at_ms = kept.answered_at_ms()
        self._answered = None if at_ms is None else (max(0, now_ms() - at_ms), time.monotonic())

    def _taken_over(self, kept: PollStore) -> PollStore:
        """The same log to write it, if the opening that did is gone; else as it is."""
        try:
            mine = PollStore.make(self._directory(), kept.log.identity.cluster_id)
        except (LogLockedError, LogStorageError):
            return kept
        self._kept = mine
        kept.close()
        return mine
