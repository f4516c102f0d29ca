"""The restarts of a fleet: logs that fail, appear and vanish."""

from __future__ import annotations

import shutil
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable

from records.errors import ChecksumMismatchError, LogNotFoundError, LogUnreachableError
from records.log.directory import DirectoryLog
from snapshot.errors import LogsFailedError, SparkJobError
from snapshot.jobs.running import fleet
from snapshot.jobs.running.failure import job_failure
from snapshot.jobs.running.fleet import Fleet
from snapshot.jobs.running.job import JobSettings
from snapshot.jobs.running.query import RunControl
from snapshot.jobs.sources.log_failures import LogFailures, PlanningFailedError
from snapshot.jobs.sources.logs import (
    FollowedLog,
    NamedLogs,
    TopicsPattern,
    bind_checkpoint,
    resolve_logs,
)
from snapshot.jobs.sources.range_source import RangeStreamReader, options_of
from support.kafka_broker import free_ports
from support.snapshots import acl

Start = Callable[[list[str]], None]


class Directories(TopicsPattern):
    """A pattern that matches directory logs."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def names(self) -> list[str]:
        return sorted(each.name for each in self._home.iterdir())

    def resolve(self, topics: Sequence[str], failures: LogFailures) -> list[FollowedLog]:
        logs = []
        for topic in topics:
            with failures.collect(topic):
                logs += resolve_logs([str(self._home / topic)])
        return logs

    def create(self, name: str) -> None:
        DirectoryLog.open(self._home / name, mode="create", cluster_id=f"c-{name}").close()


@pytest.fixture
def logs(tmp_path: Path) -> Directories:
    (tmp_path / "logs").mkdir()
    found = Directories(tmp_path / "logs")
    for name in ("a", "b", "c"):
        found.create(name)
    return found


class Runs:
    """A job that does what a test says, and what it was started with.

    Attributes:
        started: cluster ids and checkpoint of each start.
        reported: failures, in the order of their reports.
    """

    def __init__(
        self, logs: NamedLogs | TopicsPattern, tmp_path: Path, *starts: Start, interval_s: float | None = None
    ) -> None:
        self.started: list[tuple[list[str], str]] = []
        self.reported: list[dict[str, str]] = []
        self.control = RunControl()
        self._starts = iter(starts)
        self.fleet = Fleet(logs, lambda found: self.reported.append(dict(found)), poll_s=0.02)
        settings = JobSettings(logs=(), checkpoint=f"{tmp_path}/cp", store="", interval_s=interval_s)
        self._settings = settings

    def run(self) -> None:
        self.fleet.run(self._settings, self._start, self.control)

    def _start(self, settings: JobSettings, control: RunControl) -> None:
        assert settings.isolates_logs
        bind_checkpoint(settings.checkpoint, settings.logs)
        ids = [log.identity.cluster_id for log in settings.logs]
        self.started.append((ids, settings.checkpoint.rpartition("/")[2]))
        if (do := next(self._starts, None)) is not None:
            do(ids)
        elif settings.interval_s is not None:
            assert control.stop.is_set() or control.restart.wait(30)


def failing(*names: str) -> Start:
    def fail(_ids: list[str]) -> None:
        raise LogsFailedError(dict.fromkeys(names, "a bad record"))

    return fail


def broken(_ids: list[str]) -> None:
    raise SparkJobError("Some data may have been lost")


def test_the_others_are_processed_without_the_logs_that_fail(logs: Directories, tmp_path: Path) -> None:
    """Two of them, one after the other; both remain reported. The next run tries them again."""
    runs = Runs(logs, tmp_path, failing("c-a"), failing("c-c"))
    runs.run()
    assert runs.started == [(["c-a", "c-b", "c-c"], "cp"), (["c-b", "c-c"], "fleet-1"), (["c-b"], "fleet-2")]
    assert runs.fleet.failures == {"c-a": "a bad record", "c-c": "a bad record"}
    again = Runs(logs, tmp_path)
    again.run()
    assert again.started == [(["c-a", "c-b", "c-c"], "fleet-3")]
    assert again.fleet.failures == {}


def test_log_that_cannot_be_opened(logs: Directories, tmp_path: Path) -> None:
    (tmp_path / "logs" / "broken").mkdir()
    runs = Runs(logs, tmp_path)
    runs.run()
    assert runs.started == [(["c-a", "c-b", "c-c"], "cp")]
    assert "no segments" in runs.fleet.failures["broken"]


def test_all_logs_fail(logs: Directories, tmp_path: Path) -> None:
    runs = Runs(logs, tmp_path, failing("c-a", "c-b", "c-c"))
    with pytest.raises(LogsFailedError, match="c-a: a bad record; c-b: a bad record; c-c: a bad record"):
        runs.run()


def test_error_without_a_log_starts_the_job_once_more(logs: Directories, tmp_path: Path) -> None:
    """With another checkpoint: the start finds logs that were trimmed. The second time it is the job's."""
    runs = Runs(logs, tmp_path, broken)
    runs.run()
    assert [checkpoint for _, checkpoint in runs.started] == ["cp", "fleet-1"]
    twice = Runs(logs, tmp_path, broken, broken)
    with pytest.raises(SparkJobError, match="Some data may have been lost"):
        twice.run()
    assert [checkpoint for _, checkpoint in twice.started] == ["fleet-1", "fleet-2"]


def test_deleted_log_is_left_out_and_its_failure_forgotten(logs: Directories, tmp_path: Path) -> None:
    def delete(_ids: list[str]) -> None:
        shutil.rmtree(tmp_path / "logs" / "b")
        raise LogsFailedError({"c-b": "no such topic"})

    runs = Runs(logs, tmp_path, delete)
    # Directories have no topics, by which the fleet knows that a log was deleted.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FollowedLog, "topic", property(lambda log: log.url.rpartition("/")[2]))
        patched.setattr(FollowedLog, "bootstrap_servers", None)
        runs.run()
    assert [ids for ids, _ in runs.started] == [["c-a", "c-b", "c-c"], ["c-a", "c-c"]]
    assert runs.fleet.failures == {}
    assert runs.reported == [{"c-b": "no such topic"}, {}]


def test_continuous_job_takes_a_new_log_and_tries_a_failing_one_again(
    logs: Directories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_RETRY_MIN_S", 0.05)
    runs = Runs(logs, tmp_path, failing("c-a"), interval_s=1.0)
    start, count = runs._start, iter(range(10))

    def counted(settings: JobSettings, control: RunControl) -> None:
        if (number := next(count)) == 2:
            logs.create("d")
        elif number == 3:
            runs.control.stop.set()
        start(settings, control)

    monkeypatch.setattr(runs, "_start", counted)
    runs.run()
    assert [ids for ids, _ in runs.started] == [
        ["c-a", "c-b", "c-c"],
        ["c-b", "c-c"],
        ["c-a", "c-b", "c-c"],
        ["c-a", "c-b", "c-c", "c-d"],
    ]
    assert runs.reported == [{"c-a": "a bad record"}, {}]


def test_errors_without_a_log_are_the_jobs_only_if_one_follows_the_other(
    logs: Directories, tmp_path: Path
) -> None:
    """A start that worked until the logs changed lies between these two."""

    def appears(_ids: list[str]) -> None:
        logs.create("d")
        assert restarts[-1].wait(30)

    def stopped(_ids: list[str]) -> None:
        runs.control.stop.set()

    restarts = list[threading.Event]()
    runs = Runs(logs, tmp_path, broken, appears, broken, stopped, interval_s=1.0)
    start = runs._start

    def noted(settings: JobSettings, control: RunControl) -> None:
        restarts.append(control.restart)
        start(settings, control)

    runs._start = noted  # type: ignore[method-assign]
    runs.run()
    assert len(runs.started) == 4


def test_error_of_the_pattern_is_the_jobs(logs: Directories, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "logs").mkdir()

    def none() -> list[str]:
        raise LogNotFoundError("no topic name matches the pattern")

    logs.names = none  # type: ignore[method-assign]
    with pytest.raises(LogNotFoundError):
        Runs(logs, tmp_path).run()


def test_one_of_several_named_logs_fails(logs: Directories, tmp_path: Path) -> None:
    """It is left out, and tried again in the next run, as a topic of a pattern is."""
    urls = [f"file:{tmp_path}/logs/{name}" for name in ("a", "b", "c")]
    shutil.rmtree(tmp_path / "logs" / "b")
    runs = Runs(NamedLogs(urls), tmp_path, failing("c-c"))
    runs.run()
    assert [ids for ids, _ in runs.started] == [["c-a", "c-c"], ["c-a"]]
    assert runs.fleet.failures.keys() == {urls[1], "c-c"}
    logs.create("b")
    again = Runs(NamedLogs(urls), tmp_path)
    again.run()
    assert [ids for ids, _ in again.started] == [["c-a", "c-b", "c-c"]]
    assert again.fleet.failures == {}


def test_cluster_out_of_reach_does_not_stop_the_other_clusters(logs: Directories, tmp_path: Path) -> None:
    """Spark does not name it; the next start finds it. If none answers, a retry may help."""
    urls = [f"file:{tmp_path}/logs/a", f"kraft://127.0.0.1:{free_ports(1)[0]}"]

    def away(_ids: list[str]) -> None:
        raise LogUnreachableError("no controller answers")

    runs = Runs(NamedLogs(urls), tmp_path)
    runs.run()
    assert [ids for ids, _ in runs.started] == [["c-a"]]
    assert runs.fleet.failures.keys() == {urls[1]}
    both = Runs(NamedLogs([urls[0], f"file:{tmp_path}/logs/b"]), tmp_path, away)
    both.run()
    assert [ids for ids, _ in both.started] == [["c-a", "c-b"], ["c-a", "c-b"]]
    with pytest.raises(LogUnreachableError):
        Runs(NamedLogs(urls[1:]), tmp_path).run()
    with pytest.raises(LogUnreachableError, match="no controller answers"):
        Runs(NamedLogs(urls[:1]), tmp_path, away).run()


def reader_of(*paths: Path, **options: str) -> RangeStreamReader:
    logs = resolve_logs([str(path) for path in paths])
    starts = {log.identity.cluster_id: 0 for log in logs}
    return RangeStreamReader(options_of(logs, starts) | options)


def test_planning_names_the_logs_that_fail(tmp_path: Path) -> None:
    """Otherwise the job would stop at a damaged directory that it has not planned yet."""
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        with DirectoryLog.open(path, mode="create", cluster_id=path.name) as log:
            log.append([acl(1)])
    reader, alone = reader_of(*paths, isolatesLogs="true"), reader_of(*paths)
    start = reader.initialOffset()
    for path in paths[:2]:
        (segment,) = path.rglob("*.log")
        segment.write_bytes(segment.read_bytes()[:-3] + b"xyz")
    with pytest.raises(PlanningFailedError) as raised:
        reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(ChecksumMismatchError):
        alone.latestOffset(start, ReadAllAvailable())
    reader.stop()
    alone.stop()
    text = "".join(traceback.format_exception(raised.value))
    found = job_failure(PySparkException(text))
    assert isinstance(found, LogsFailedError)
    assert found.failures.keys() == {"a", "b"}


def test_one_process_plans_all_logs(tmp_path: Path) -> None:
    """The limit is divided by what they have; a log without new records keeps its entry."""
    for name, batches in (("a", 30), ("b", 10), ("c", 0)):
        with DirectoryLog.open(tmp_path / name, mode="create", cluster_id=name) as log:
            for number in range(batches):
                log.append([acl(number)])
    reader = reader_of(*(tmp_path / name for name in "abc"), maxOffsetsPerTrigger="8")

    def ends(planned: dict[str, Any]) -> dict[str, int]:
        return {name: entry["offset"] for name, entry in planned.items()}

    first = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    reader.prepareForTriggerAvailableNow()
    planned = [first]
    while (following := reader.latestOffset(planned[-1], limit)) != planned[-1]:
        planned.append(following)
    assert [ends(each) for each in planned[:3]] == [
        {"a": 0, "b": 0, "c": 0},
        {"a": 6, "b": 2, "c": 0},
        {"a": 12, "b": 4, "c": 0},
    ]
    assert ends(planned[-1]) == ends(reader.reportLatestOffset()) == {"a": 30, "b": 10, "c": 0}
    (partition,) = reader.partitions(planned[1], planned[2])
    assert list(reader.read(partition)) == [("a", 6, 12), ("b", 2, 4)]
    assert planned[-1]["c"] is first["c"]
    reader.stop()


def test_a_log_that_joins_begins_at_its_first_offset(tmp_path: Path) -> None:
    """It has no entry in the checkpoint until it has a record."""
    for name in "ab":
        with DirectoryLog.open(tmp_path / name, mode="create", cluster_id=name) as log:
            log.append([acl(1)])
    before = reader_of(tmp_path / "a")
    start = before.latestOffset(before.initialOffset(), ReadAllAvailable())
    reader = reader_of(tmp_path / "a", tmp_path / "b")
    end = reader.latestOffset(start, ReadAllAvailable())
    (partition,) = reader.partitions(start, end)
    assert list(reader.read(partition)) == [("b", 0, 1)]
    before.stop()
    reader.stop()
