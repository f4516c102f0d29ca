"""Failures of single logs, collected by a job that continues with its other logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from records.errors import AclogError, DecodeError, LogError, LogUnreachableError
from snapshot.errors import HistoryForeignError, LogsFailedError, SparkJobError

_T = TypeVar("_T")
_R = TypeVar("_R")
_AT_A_TIME: Final = 16


def for_logs(function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Call a function for each log, many at a time, as it waits for clusters. Raises the first error."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(function, items))


def caught(function: Callable[[_T], _R]) -> Callable[[_T], _R | AclogError]:
    """The function that returns an error of aclog instead of raising it; see ``answered``."""

    def call(item: _T) -> _R | AclogError:
        try:
            return function(item)
        except AclogError as error:
            return error

    return call


def answered(found: _R | AclogError) -> _R:
    """The answer of one of several logs that were queried together; raises its error instead."""
    if isinstance(found, AclogError):
        raise found
    return found


class PlanningFailedError(SparkJobError):
    """A LogsFailedError in a process of Spark, whose text another process can read (``failures_of``)."""

    def __init__(self, failures: Mapping[str, str]) -> None:
        super().__init__(msgspec.json.encode(dict(failures)).decode())


def failures_of(text: str) -> LogsFailedError:
    """The error that a PlanningFailedError with this text stands for."""
    return LogsFailedError(msgspec.json.decode(text, type=dict[str, str]))


class LogFailures:
    """Errors by cluster id; ``is_collecting``: collect them; otherwise the first one is raised as usual."""

    def __init__(self, *, is_collecting: bool) -> None:
        self.by_cluster: dict[str, str] = {}
        self.unreachable: set[str] = set()
        self._is_collecting = is_collecting

    @contextmanager
    def collect(self, cluster_id: str, *, has_own_cluster: bool = False) -> Iterator[None]:
        """Collect an error of this log in the block.

        An unreachable log is not collected unless it may be on another cluster than the other logs: a retry
        may help.
        """
        try:
            yield
        except LogUnreachableError as error:
            if not (self._is_collecting and has_own_cluster):
                raise
            self.by_cluster[cluster_id] = str(error)
            self.unreachable.add(cluster_id)
        except (DecodeError, LogError, SparkJobError, HistoryForeignError) as error:
            if not self._is_collecting:
                raise
            self.by_cluster[cluster_id] = str(error)

    def check(self) -> None:
        """Raise LogsFailedError if there are any."""
        if self.by_cluster:
            raise LogsFailedError(self.by_cluster)
