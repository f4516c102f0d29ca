"""ReloadingValue: a thread reloads a value from its file or URL; an invalid new value is not used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from authorizer.api.errors import ConfigError
from authorizer.configuration.file_version import FileVersion

log = structlog.get_logger(__name__)

_Value = TypeVar("_Value")

#: Interval of the checks of a file.
FILE_POLL_INTERVAL_S: Final = 1.0
#: Longest interval after a failure.
_RETRY_INTERVAL_S: Final = 5.0
#: Shortest interval of reloads that requests cause.
_REQUEST_INTERVAL_S: Final = 10.0


class ReloadingValue(Generic[_Value]):
    """The newest valid value.

    Attributes:
        value: None until the first success.
        failure: error of the last load, if it failed.
    """

    def __init__(
        self, name: str, load: Callable[[], _Value | None], every_s: float, *, changed: Callable[[], None]
    ) -> None:
        """Create it without a value.

        ``load`` returns the value, None if it has not changed since the last call, or raises ConfigError.
        ``changed`` is called after ``value`` was replaced.
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
        """Load it now. Raises ConfigError, and then keeps the value."""
        value = self._load()
        if value is None:
            return
        self.failure = None
        if value != self.value:
            self.value = value
            self._changed()

    def start(self) -> None:
        """Start the thread; it loads immediately if there is no value yet."""
        if self.value is None:
            self._wake.set()
        self._thread.start()

    def close(self) -> None:
        """Stop, without waiting for a load in progress. Idempotent."""
        self._is_closed = True
        self._wake.set()

    def ask(self, now_s: float) -> Future[None]:
        """Request a reload, unless there was a request a short time ago; the future is done after it."""
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
                # Until now further requests shared the future.
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
            # The content is not trusted: the thread must survive any error.
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
    """Loads a file when it was replaced or modified."""

    def __init__(self, path: Path, read: Callable[[Path], _Value]) -> None:
        self._path = path
        self._read = read
        self._cache: FileVersion | tuple[()] | None = ()

    def __call__(self) -> _Value | None:
        seen = FileVersion.of_existing(self._path)
        if seen == self._cache:
            return None
        self._cache = seen
        return self._read(self._path)
