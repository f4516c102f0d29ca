"""A value that follows its file or URL: read again by a thread of its own; a bad new one changes nothing."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from authorizer.api.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = structlog.get_logger(__name__)

_Value = TypeVar("_Value")

#: How often a file is looked at.
FILE_POLL_INTERVAL_S: Final = 1.0
#: The longest time between two tries after a failed one.
_RETRY_INTERVAL_S: Final = 5.0
#: A request that needs a newer value gets one at most this often.
_REQUEST_INTERVAL_S: Final = 10.0


class ReloadingValue(Generic[_Value]):
    """The newest good value.

    Attributes:
        name: in the log and the metrics.
        value: as it is now; None until there was a good one.
        failures: how often there was a bad one.
        failure: what is wrong with the newest, if it is bad.
    """

    def __init__(
        self, name: str, load: Callable[[], _Value | None], every_s: float, *, changed: Callable[[], None]
    ) -> None:
        """What ``load`` gives, at first now.

        Args:
            name: in the log and the metrics.
            load: the value; None where nothing has changed since the last call. Raises ConfigError.
            every_s: how often.
            changed: called after ``value`` was replaced.
        """
        self.name = name
        self.value: _Value | None = None
        self.failures = 0
        self.failure: str | None = None
        self._load = load
        self._every_s = every_s
        self._changed = changed
        self._is_closed = False
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._requested: Future[None] | None = None
        self._requested_at_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name=f"aclog-{name}", daemon=True)

    def load(self) -> None:
        """Read it now. Raises ConfigError; the value stays then."""
        value = self._load()
        if value is None:
            return
        self.failure = None
        if value != self.value:
            self.value = value
            self._changed()

    def start(self) -> None:
        """Begin to follow, at once where there is no value yet."""
        if self.value is None:
            self._wake.set()
        self._thread.start()

    def close(self) -> None:
        """Stop; what is being read is left to end by itself. Idempotent."""
        self._is_closed = True
        self._wake.set()

    def ask(self, now_s: float) -> Future[None]:
        """Read it soon, unless that was asked a short time ago: done when it has been."""
        with self._lock:
            if self._requested is not None:
                return self._requested
            requested: Future[None] = Future()
            requested.set_running_or_notify_cancel()  # several wait for it: none of them may cancel it
            if self._is_closed or now_s - self._requested_at_s < _REQUEST_INTERVAL_S:
                requested.set_result(None)
                return requested
            self._requested, self._requested_at_s = requested, now_s
        self._wake.set()
        return requested

    def _run(self) -> None:
        while True:
            self._wake.wait(min(self._every_s, _RETRY_INTERVAL_S) if self.failure else self._every_s)
            self._wake.clear()
            requested = self._requested
            if not self._is_closed:
                self._reload()
            if requested is not None:
                # Until now others could join in.
                with self._lock:
                    self._requested = None
                requested.set_result(None)
            if self._is_closed:
                return

    def _reload(self) -> None:
        before = self.value
        try:
            self.load()
        except Exception as error:
            # Others wrote what is read: the thread goes on, whatever that is.
            self.failures += 1
            if str(error) == self.failure:
                return
            self.failure = str(error)
            consequence = "what was there before stays in use; " if before is not None else ""
            log.warning(
                "not_reloaded",
                what=self.name,
                reason=self.failure,
                way_out=f"{consequence}it is read again",
                exc_info=None if isinstance(error, ConfigError) else error,
            )
        else:
            if self.value is not before:
                log.info("reloaded", what=self.name)


class FileReader(Generic[_Value]):
    """``load`` of a file: read when it was replaced or written to.

    A link is followed, as Kubernetes swaps secrets by one.
    """

    def __init__(self, path: Path, read: Callable[[Path], _Value]) -> None:
        self._path = path
        self._read = read
        self._cache: tuple[int, ...] | None = ()

    def __call__(self) -> _Value | None:
        seen = self._file_version()
        if seen == self._cache:
            return None
        self._cache = seen
        return self._read(self._path)

    def _file_version(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
