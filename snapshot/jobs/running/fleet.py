"""Runs a job over several logs, while topics of its pattern appear and vanish, or a log fails.

A query of Spark, and its checkpoint, has a fixed set of logs. So the query ends when the set changes, and the
job starts again with the new set and another checkpoint below its own (fleet_checkpoint). It continues at the
newest stored states: those are the commits of its batches.

A log fails before anything of its batch is committed. Then the job starts again without this log, and tries
it later again: in the next run, or after a minute, and after each further failure twice as long, up to an
hour.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from records.errors import LogError, LogUnreachableError
from snapshot.errors import CheckpointClaimedError, LogsFailedError, SparkBusyError, SparkJobError
from snapshot.jobs.running.job import claimed
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.jobs.sources.logs import cluster_count, fleet_checkpoint, require_distinct_clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from snapshot.jobs.running.job import JobSettings
    from snapshot.jobs.running.query import RunControl
    from snapshot.jobs.sources.logs import FollowedLog, NamedLogs, TopicsPattern

_log: Final = logging.getLogger(__name__)
_RETRY_MIN_S: Final = 60.0
_RETRY_MAX_S: Final = 3600.0
#: How often a continuous job lists the topics.
POLL_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Failure:
    """The last failure of a log; ``retry_at_s``: time of the next try, of time.monotonic."""

    text: str
    pause_s: float
    retry_at_s: float


class Fleet:
    """The logs of one job, and their failures.

    Args:
        selection: finds the logs.
        on_failures: called with the text of each failing log's error, by its cluster id or name, when one
            fails or works again.
        poll_s: how often a continuous job lists the logs.
    """

    def __init__(
        self,
        selection: NamedLogs | TopicsPattern,
        on_failures: Callable[[Mapping[str, str]], None],
        *,
        poll_s: float = POLL_S,
    ) -> None:
        self._selection = selection
        self._on_failures = on_failures
        self._poll_s = poll_s
        self._failures: dict[str, _Failure] = {}
        # By cluster id, of all logs that could be opened.
        self._names: dict[str, str | None] = {}
        self._unreachable: set[str] = set()

    @property
    def failures(self) -> dict[str, str]:
        """The text of each failing log's error."""
        return {name: failure.text for name, failure in self._failures.items()}

    def run(
        self,
        settings: JobSettings,
        start: Callable[[JobSettings, RunControl], None],
        control: RunControl,
    ) -> None:
        """Run the job until all is processed (without an interval), it is stopped, or all logs fail.

        Args:
            settings: of the job; ``logs`` are found here.
            start: runs the job on fixed logs with its settings; ends when ``control`` stops it.
            control: of the jobs that run with this one.

        Raises:
            LogsFailedError: all logs fail.
            AclogError: an error that is not of one log.
        """
        with claimed(settings, control.stop) as claim:
            self._run(replace(settings, claim=claim), start, control)

    def _run(
        self,
        settings: JobSettings,
        start: Callable[[JobSettings, RunControl], None],
        control: RunControl,
    ) -> None:
        is_new, is_known = False, True
        while not control.stop.is_set():
            names = self._listed(control)
            logs, checkpoint = self._usable_logs(settings, names, is_new=is_new)
            if not logs and set(self._failures) == self._unreachable:
                raise LogUnreachableError("; ".join(sorted(self.failures.values())))
            if not logs:
                raise LogsFailedError(self.failures)
            current = replace(settings, logs=tuple(logs), checkpoint=checkpoint, isolates_logs=True)
            is_new = False
            with self._restarting(control, names, logs, is_once=settings.interval_s is None) as run_control:
                try:
                    start(current, run_control)
                except (SparkJobError, LogUnreachableError) as error:
                    if isinstance(error, LogsFailedError) and self._are_known(error.failures, logs):
                        control.observer.failed()
                        self._add(error.failures)
                        is_known = True
                        continue
                    if isinstance(error, (CheckpointClaimedError, SparkBusyError)) or (
                        isinstance(error, LogUnreachableError) and cluster_count(logs) == 1
                    ):
                        raise
                    # Spark does not name the log. A new start finds one that was deleted or trimmed, or whose
                    # cluster is out of reach.
                    if not is_known and self._selection.names() == names:
                        raise
                    control.observer.failed()
                    _log.warning("%s; the job is started again", error)
                    is_new, is_known = True, False
                    continue
            self._remove(logs)
            is_known = True
            if not run_control.restart.is_set():
                return

    def _listed(self, control: RunControl) -> list[str]:
        names = self._selection.names()
        control.observer.listed()
        return names

    def _are_known(self, failures: Mapping[str, str], logs: Sequence[FollowedLog]) -> bool:
        return failures.keys() <= {log.identity.cluster_id for log in logs}

    def _usable_logs(
        self, settings: JobSettings, names: Sequence[str], *, is_new: bool
    ) -> tuple[list[FollowedLog], str]:
        """The logs that are not failing, or are to be tried again, and the checkpoint for them."""
        deleted = [name for name in self._failures if self._names.get(name, name) not in (None, *names)]
        if deleted:
            self._failures = {name: each for name, each in self._failures.items() if name not in deleted}
            self._on_failures(self.failures)
        found = LogFailures(is_collecting=True)
        now_s = time.monotonic()
        waiting = {name for name, failure in self._failures.items() if failure.retry_at_s > now_s}
        logs = self._selection.resolve([name for name in names if name not in waiting], found)
        require_distinct_clusters(logs)
        self._unreachable = found.unreachable
        self._names |= {log.identity.cluster_id: log.url if log.url in names else log.topic for log in logs}
        logs = [log for log in logs if log.identity.cluster_id not in waiting]
        checkpoint, logs = fleet_checkpoint(settings.checkpoint, logs, found, is_new=is_new)
        if found.by_cluster:
            self._add(found.by_cluster)
        return logs, checkpoint

    @contextmanager
    def _restarting(
        self, control: RunControl, names: Sequence[str], logs: Sequence[FollowedLog], *, is_once: bool
    ) -> Iterator[RunControl]:
        """A control for one start of a job, which ends when its logs change or a failure is to be retried."""
        started = replace(control, restart=threading.Event())
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(self._poll_s):
                # They have worked for this long.
                self._remove(logs)
                retries_s = [failure.retry_at_s for failure in self._failures.values()]
                try:
                    is_changed = self._listed(control) != names
                except LogUnreachableError:
                    continue  # the query reports it, if it lasts
                except LogError:
                    is_changed = True  # the next start reports it
                if is_changed or min(retries_s, default=float("inf")) <= time.monotonic():
                    started.restart.set()
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        if not is_once:
            watcher.start()
        try:
            yield started
        finally:
            ended.set()
            if not is_once:
                watcher.join()

    def _add(self, failures: Mapping[str, str]) -> None:
        for name, text in failures.items():
            before = self._failures.get(name)
            pause_s = _RETRY_MIN_S if before is None else min(before.pause_s * 2, _RETRY_MAX_S)
            self._failures[name] = _Failure(text, pause_s, time.monotonic() + pause_s)
            _log.warning("%s fails, and the job continues without it: %s", name, text)
        self._on_failures(self.failures)

    def _remove(self, logs: Sequence[FollowedLog]) -> None:
        """Remove the failures of logs that work again."""
        names = {name for log in logs for name in (log.identity.cluster_id, log.topic, log.url)}
        working = [name for name in self._failures if name in names]
        for name in working:
            del self._failures[name]
        if working:
            self._on_failures(self.failures)
