"""RecentResults: the last results by what they depend on, for the next page of one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class RecentResults(Generic[_Key, _Result]):
    """At most ``maximum`` results; the one that was not used for the longest time is dropped. Thread-safe."""

    def __init__(self, maximum: int = 1) -> None:
        self._maximum = maximum
        self._lock = threading.Lock()
        self._results: OrderedDict[_Key, _Result] = OrderedDict()

    def get(self, key: _Key) -> _Result | None:
        with self._lock:
            if key not in self._results:
                return None
            self._results.move_to_end(key)
            return self._results[key]

    def put(self, key: _Key, result: _Result) -> _Result:
        with self._lock:
            self._results[key] = result
            self._results.move_to_end(key)
            if len(self._results) > self._maximum:
                self._results.popitem(last=False)
        return result

    def get_or_compute(self, key: _Key, compute: Callable[[], _Result]) -> _Result:
        """Return the known result, or compute it; threads at the same time all do."""
        known = self.get(key)
        return self.put(key, compute()) if known is None else known

    def items(self) -> list[tuple[_Key, _Result]]:
        with self._lock:
            return list(self._results.items())

    def clear(self) -> None:
        with self._lock:
            self._results.clear()
