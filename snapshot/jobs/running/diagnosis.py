"""Observations of a Spark session for `aclog spark doctor`: its executors, their clocks, and a checkpoint.

The function that executors run is pickled by value, because they may lack aclog.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast
from uuid import uuid4

from pyspark import cloudpickle

from snapshot.errors import SnapshotError, SparkJobError
from snapshot.jobs.running.failure import is_of_spark, job_failure
from snapshot.store.object_store import BUCKETS
from snapshot.store.storage import PROBE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

#: What the tasks of the jobs import: aclog itself, and the packages of its extra `spark`.
MODULES: Final = ("snapshot.jobs.folding.log_fold", "pyarrow", "pandas")
#: What tasks import to read topics: the package of its extra `kafka`.
TOPIC_MODULE: Final = "confluent_kafka"
#: A cluster without free cores starts no task, and reports no error.
TIMEOUT_S: Final = 120.0
_JAVA: Final = "java_method('java.lang.System', 'getProperty', 'java.version') AS java"
_CLOCK_READINGS: Final = 2
_T = TypeVar("_T")
_TAG: Final = "aclog-doctor"
_HOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor \S+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """An interpreter on a host that ran a task.

    Attributes:
        aclog: version of aclog; None if it is not installed as a package.
        import_errors: of MODULES.
        store_errors: by the store's URL.
        invisible: the locations whose file of the driver is not there.
    """

    host: str
    interpreter: str
    python: str
    java: str
    aclog: str | None
    import_errors: tuple[str, ...]
    store_errors: tuple[tuple[str, str], ...]
    invisible: tuple[str, ...] = ()


class ClockBounds(NamedTuple):
    """How far a host's clock is ahead of the driver's, in seconds: at least ``low``, at most ``high``."""

    low: float
    high: float

    @classmethod
    def of(cls, before_s: float, read_s: float, after_s: float) -> ClockBounds:
        """From a clock that was read between two times of the driver's clock."""
        return cls(read_s - after_s, read_s - before_s)

    def narrowed(self, other: ClockBounds) -> ClockBounds:
        """By another reading of the same clock."""
        return ClockBounds(max(self.low, other.low), min(self.high, other.high))

    @property
    def ahead_s(self) -> float:
        """The smallest difference within the bounds; negative: behind."""
        return max(self.low, 0.0) + min(self.high, 0.0)


def executors(
    spark: SparkSession,
    stores: Sequence[str],
    modules: Sequence[str] = MODULES,
    files: Sequence[tuple[str, str]] = (),
    timeout_s: float = TIMEOUT_S,
) -> list[Executor]:
    """Run a task for each core that Spark has now, and return what they found, without duplicates.

    Args:
        spark: the session.
        stores: URLs that each task probes.
        modules: that each task imports.
        files: of the driver, by the location that they are in; each task looks for them.
        timeout_s: for all tasks.

    Raises:
        SparkJobError: tasks cannot run; with the interpreter, and the host where it is known.
    """
    observed = partial(_observed, modules=tuple(modules), stores=tuple(stores), files=tuple(files))
    found = _results(spark, observed, timeout_s)
    return [Executor(**dict(pairs)) for pairs in sorted(set(found), key=repr)]


def clocks(spark: SparkSession, timeout_s: float = TIMEOUT_S) -> dict[str, ClockBounds]:
    """Compare the clocks of the executors' hosts with the driver's, by host.

    The bounds are as wide as a task takes: call ``executors`` before, which starts their interpreters.

    Raises:
        SparkJobError: tasks cannot run; see ``executors``.
    """
    found: dict[str, ClockBounds] = {}
    for _ in range(_CLOCK_READINGS):
        before_s = time.time()
        readings = _results(spark, _read_clock, timeout_s)
        after_s = time.time()
        for host, read_s in readings:
            bounds = ClockBounds.of(before_s, read_s, after_s)
            found[host] = found[host].narrowed(bounds) if host in found else bounds
    return found


def _results(
    spark: SparkSession, task: Callable[[Iterable[Any]], Iterator[_T]], timeout_s: float
) -> list[_T]:
    """The results of a task for each core that Spark has now."""
    context = spark.sparkContext
    tasks = max(2, context.defaultParallelism)
    is_done, is_late = Event(), Event()

    def cancel() -> None:
        wait_s = timeout_s
        # Repeated, because on a busy machine the job may begin after the first time.
        while not is_done.wait(wait_s):
            is_late.set()
            context.cancelJobsWithTag(_TAG)
            wait_s = 1.0

    this, pickler = sys.modules[__name__], cast("Any", cloudpickle)
    pickler.register_pickle_by_value(this)
    context.addJobTag(_TAG)
    Thread(target=cancel, daemon=True).start()
    try:
        rows = spark.range(0, tasks, 1, tasks).selectExpr(_JAVA).rdd
        found: list[_T] = rows.mapPartitions(task).collect()
    except Exception as error:
        if not is_of_spark(error):
            raise
        if is_late.is_set():
            raise SparkJobError(f"no executor finished a task in {timeout_s:.0f} s") from error
        host = _HOST.search(str(error))
        where = f" on {host[1]}" if host else ""
        python = context.pythonExec
        raise SparkJobError(f"Python tasks fail{where} with {python}: {job_failure(error)}") from error
    finally:
        is_done.set()
        context.removeJobTag(_TAG)
        pickler.unregister_pickle_by_value(this)
    return found


def _read_clock(rows: Iterable[Any]) -> Iterator[tuple[str, float]]:
    """The host and its time. Runs on executors, perhaps without aclog."""
    import socket  # noqa: PLC0415 - as in _observed
    import time  # noqa: PLC0415

    read_s = time.time()
    # So that no core runs all tasks.
    time.sleep(0.3)
    for _ in rows:
        yield socket.gethostname(), read_s


def _observed(
    rows: Iterable[Any],
    *,
    modules: tuple[str, ...],
    stores: tuple[str, ...],
    files: tuple[tuple[str, str], ...],
) -> Iterator[tuple[tuple[str, Any], ...]]:
    """The fields of an Executor. Runs on executors, perhaps without aclog."""
    import importlib  # noqa: PLC0415 - pickled by value, so imports of the module are not there
    import platform  # noqa: PLC0415
    import socket  # noqa: PLC0415
    import sys  # noqa: PLC0415
    import time  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    # So that no core runs all tasks.
    time.sleep(0.3)
    import_errors, store_errors, invisible = [], [], []
    for location, path in files:
        try:
            Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            invisible.append(location)
        except OSError:
            pass  # no access: the probe below says so
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - any error of a package
            import_errors.append(str(error))
    try:
        aclog = version("aclog")
    except PackageNotFoundError:
        aclog = None
    if not import_errors:
        from snapshot.store.storage import Storage  # noqa: PLC0415

        for store in stores:
            try:
                Storage(store).probe()
            except Exception as error:  # noqa: BLE001 - as above
                store_errors.append((store, str(error)))
    for row in rows:
        yield (
            ("host", socket.gethostname()),
            ("interpreter", sys.executable),
            ("python", platform.python_version()),
            ("java", row[0]),
            ("aclog", aclog),
            ("import_errors", tuple(dict.fromkeys(import_errors))),
            ("store_errors", tuple(store_errors)),
            ("invisible", tuple(invisible)),
        )


def probe_with_hadoop(spark: SparkSession, url: str) -> float:
    """Storage.probe through Hadoop's file systems, as Spark reads and writes a checkpoint.

    Raises:
        SnapshotError: a step fails.
    """
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001 - no public API
    try:
        path = hadoop.Path(url)
        files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        # Access to a bucket's prefix does not imply access to the bucket.
        while files.getUri().getScheme() not in BUCKETS and not files.exists(path):
            path = path.getParent()
        target = hadoop.Path(path, f"{PROBE_PREFIX}{uuid4().hex}")
        content = target.getName().encode()
        stream = files.create(target, False)
        try:
            stream.write(content)
            stream.close()
            stream = files.open(target)
            read = bytes(stream.readAllBytes())
            stream.close()
            written_ms = files.getFileStatus(target).getModificationTime()
        finally:
            files.delete(target, False)
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise SnapshotError(f"cannot write and read {url}: {job_failure(error)}") from error
    if read != content:
        raise SnapshotError(f"{url} returns other bytes than were written")
    return float(written_ms) / 1000
