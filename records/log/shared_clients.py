"""SharedClients: clients of clusters that several logs use, so that a log costs no connections."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_T = TypeVar("_T")


class SharedClients:
    """One client for each cluster and its settings; each kind of log makes its own. Thread-safe."""

    def __init__(self) -> None:
        self._clients: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[SharedClients], tuple[()]]:
        """A copy in another process makes its own clients."""
        return SharedClients, ()

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The client of ``key``, made by the first call."""
        with self._lock:
            if key not in self._clients:
                self._clients[key] = make()
            client: _T = self._clients[key]
            return client
