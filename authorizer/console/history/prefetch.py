"""Ahead: what people see first is made before anyone looks, where the console has a process of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Self

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

log: Final = structlog.get_logger(__name__)

#: Until the node is ready, and from then on: at a million ACLs it takes a second of a processor.
_SOON_S: Final = 0.1
_AGAIN_S: Final = 60.0


class Prefetcher:
    """A thread while the block runs."""

    def __init__(self, prefetch: Callable[[], bool]) -> None:
        """``prefetch``: makes it, where it has to be made; False while there is nothing to make it of."""
        self._look_ahead = prefetch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aclog-console-ahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._ended.wait(wait_s):
            try:
                wait_s = _AGAIN_S if self._look_ahead() else _SOON_S
            except Exception:
                # A request for it gets the same error, and the page shows it.
                log.exception("console_not_ahead")
                wait_s = _AGAIN_S
