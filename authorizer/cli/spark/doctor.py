"""``aclog spark doctor``: checks what the Spark jobs need."""

from __future__ import annotations

import platform
import re
import shutil
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.options import completes, progress_option, quiet_option
from authorizer.cli.rendering.output import answer, print_json, shown
from authorizer.cli.spark.job import note_start, pack_hint, spark_session_of
from authorizer.cli.spark.options import SparkFlags, spark_options
from authorizer.cli.spark.requirements import JAVA_MIN, local_path, located, missing_requirement
from records.errors import AclogError
from records.install_command import install_command
from records.log.url import TOPIC, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from snapshot.jobs.running.diagnosis import ClockBounds, Executor

#: Clocks that a time service sets differ by less.
CLOCK_TOLERANCE_S: Final = 10.0
_CLOCK_WHY: Final = "whether a snapshot is usable, and which ones are removed, depends on both clocks"
_CLOCK_FIX: Final = "set both clocks by NTP"
_PYTHON_FIX: Final = (
    "--conf spark.pyspark.python=PATH (or PYSPARK_PYTHON) names the interpreter, at the same path on the "
    "driver and all executors, with aclog and its extra `spark` installed"
)
_ACCESS_FIX: Final = (
    "create the file system or bucket, give this user the permissions to read, write, list and delete "
    "there, and set the store's own credentials (for s3:// AWS_...)"
)
_SHARED_WHY: Final = "the executor does not see a file that was written here: its files would be missing"
_SHARED_FIX: Final = "mount one file system there on all hosts (NFS, ...), at the same path, or use s3://"
#: By text of the error of s3fs or of Hadoop's S3A; the first that matches.
_S3_FIXES: Final = {
    "does not exist": "create the bucket (`aws s3 mb s3://BUCKET`), or correct its name",
    "access denied|access key|signature|credentials|forbidden": (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the machine's role, here and "
        "on executors; s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject must be allowed there"
    ),
    "connect|timed? ?out|unknown ?host": (
        "start the server, or correct AWS_ENDPOINT_URL and AWS_DEFAULT_REGION"
    ),
}
#: S3A's own retries take minutes.
_ONE_TRY: Final = {
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "1",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A requirement that is not met."""

    what: str
    why: str
    fix: str


@dataclass(slots=True)
class Diagnosis:
    """The result of the checks.

    Attributes:
        executors: what the executors have; empty if Spark does not run.
        clocks: of their hosts; empty if Spark is local or does not run.
    """

    driver: dict[str, str | None]
    executors: list[Executor] = field(default_factory=list)
    clocks: Mapping[str, ClockBounds] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, what: str, why: str, fix: str) -> None:
        """Add a finding, once."""
        finding = Finding(what, why, fix)
        if finding not in self.findings:
            self.findings.append(finding)


@click.command("doctor", cls=Command)
@click.option(
    "--log",
    "log_urls",
    metavar="URL",
    multiple=True,
    shell_complete=completes("dir"),
    help="A log of the job. The tasks need confluent-kafka for kafka:// logs. The log is not read. "
    "Repeatable.",
)
@click.option(
    "--output",
    "--snapshots",
    "outputs",
    metavar="DIR",
    multiple=True,
    shell_complete=completes("dir"),
    help="Where a job writes: its --output, --snapshots, --counts or --history. Repeatable.",
)
@click.option(
    "--checkpoint", metavar="DIR", help="Where Spark stores its position: a path, or a URL for Hadoop."
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "delta"]),
    default="parquet",
    show_default=True,
    help="Format of the job's tables. delta needs the jars of Delta Lake.",
)
@spark_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@progress_option
@quiet_option
def doctor_command(
    *,
    log_urls: tuple[str, ...],
    outputs: tuple[str, ...],
    checkpoint: str | None,
    table_format: str,
    as_json: bool,
    **flags: Any,
) -> None:
    """Check what the Spark jobs need, and name a fix for each finding.

    Checks the versions of Python, pyspark, Java and aclog here, on the executors that Spark has now and in
    --archives, the pinned jars with their checksums, and the clocks of the stores. In each --output and the
    --checkpoint it writes, reads and removes one object `.aclog-doctor-*`; it changes nothing else. On a
    cluster it also checks that executors see the outputs of this machine, and compares their clocks.

    Exit code 0: no finding; 1: at least one.

    \b
    Examples:
      aclog spark doctor --output DIR
      aclog spark doctor --log kafka://b1:9092/acls --snapshots s3://bucket/aclog \\
          --checkpoint s3://bucket/checkpoints --master spark://HOST:7077 --json
    """
    from snapshot.store.object_store import is_s3

    found = Diagnosis({"interpreter": sys.executable, "python": platform.python_version()})
    found.driver |= {"aclog": installed("aclog"), "pyspark": installed("pyspark")}
    spark = SparkFlags(**flags)
    needs_kafka = any(kind_of(url) == TOPIC for url in log_urls)
    check_driver(found)
    needs_delta = table_format == "delta"
    in_spark = (*(outputs if needs_delta else ()), *filter(None, [checkpoint]))
    needs_s3 = any(map(is_s3, in_spark))
    has_jars = check_jars(found, spark, needs_delta=needs_delta, needs_s3=needs_s3)
    accessible = [
        output for output in outputs if check_access(found, f"--output {output}", partial(_probe, output))
    ]
    # On S3 both s3fs and Hadoop use it.
    is_reachable = True
    if checkpoint is not None and (local_path(checkpoint) is not None or is_s3(checkpoint)):
        is_reachable = check_access(found, f"--checkpoint {checkpoint}", partial(_probe, checkpoint))
    has_archive = spark.archive is None or check_archive(found, spark.archive)
    if missing_requirement() is None and has_archive:
        in_hadoop = None
        if checkpoint is not None and local_path(checkpoint) is None and is_reachable:
            in_hadoop = checkpoint if has_jars or not is_s3(checkpoint) else None
        _check_session(found, spark, outputs, accessible, in_hadoop, needs_kafka=needs_kafka)
    _print(found, as_json=as_json)
    if found.findings:
        raise click.exceptions.Exit(ExitCode.NO)


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # imports email, which help does not need

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_driver(found: Diagnosis) -> None:
    """Check pyspark and Java on this machine."""
    from snapshot.jobs.session.jars import SPARK_VERSION

    extra = install_command("spark")
    if (missing := missing_requirement()) is not None:
        why = f"the jobs cannot run with {sys.executable}"
        found.add(missing, why, f"{extra}, and Java {JAVA_MIN} or newer on PATH or in JAVA_HOME")
    pyspark = found.driver["pyspark"]
    if pyspark is not None and pyspark.split(".")[:2] != SPARK_VERSION.split(".")[:2]:
        why = f"the jobs use Python data sources of Spark {SPARK_VERSION}"
        found.add(f"pyspark {pyspark} is not {SPARK_VERSION}", why, extra)


def check_jars(found: Diagnosis, flags: SparkFlags, *, needs_delta: bool, needs_s3: bool = False) -> bool:
    """Check the needed jars, unless an option names them; returns whether all are there."""
    from snapshot.jobs.session import delta, jars, s3a
    from snapshot.jobs.session.ivy import installed_jars

    given = " ".join((flags.packages or "", *(value for _, value in flags.spark_conf)))
    needed = (
        (delta.DELTA, delta.__name__, needs_delta),
        (s3a.S3A, s3a.__name__, needs_s3),
    )
    count = len(found.findings)
    for pinned, program, is_needed in needed:
        if not is_needed:
            continue
        if misfit := pinned.misfit(given):
            why = f"{pinned.name} of another release fails at the first use"
            fix = f"name {pinned.package}, or leave it out"
            found.add(f"--packages {misfit} does not fit Spark {jars.SPARK_VERSION}", why, fix)
        if pinned.part in given:
            continue
        directory, problems = installed_jars(pinned.default_directory, pinned.variable, pinned.jars)
        if problems:
            found.add(
                f"the jars of {pinned.name} are not in {directory}",
                ", ".join(problems),
                f"`{sys.executable} -m {program}` downloads them, unless {pinned.variable} is set: then copy "
                f"them there, or unset it. Or --packages {pinned.package}",
            )
    return len(found.findings) == count


def check_archive(found: Diagnosis, archive: Path) -> bool:
    """Compare an archive's versions with this interpreter's; returns whether executors can use it."""
    from snapshot.jobs.session.archive import differences, read_manifest

    try:
        problems = differences(read_manifest(archive))
    except AclogError as error:
        found.add(f"--archives {archive} cannot be used", str(error), pack_hint(archive))
        return False
    for problem in problems:
        found.add(f"--archives {archive} does not fit the driver", problem, pack_hint(archive))
    return not problems


def check_access(found: Diagnosis, what: str, probe: Callable[[], float | None]) -> bool:
    """Probe a location, and compare its clock with this machine's; returns whether it can be used.

    ``probe`` writes an object, and returns its time in seconds since the epoch; None if unknown.
    """
    before_s = time.time()
    try:
        written_s = probe()
    except AclogError as error:
        fix = access_fix(what, str(error))
        found.add(f"{shown(what)} cannot be used on this machine", str(error), fix)
        return False
    if written_s is None:
        return True
    ahead_s = max(written_s - time.time(), 0) - max(before_s - written_s, 0)
    _check_clock(found, what, ahead_s)
    return True


def check_clocks(found: Diagnosis, clocks: Mapping[str, ClockBounds]) -> None:
    """Add the hosts of executors whose clocks differ from this machine's for sure."""
    found.clocks = clocks
    for host, bounds in clocks.items():
        _check_clock(found, host, bounds.ahead_s)


def _check_clock(found: Diagnosis, what: str, ahead_s: float) -> None:
    """Add a clock that is ahead of this machine's, or behind (negative), by more than the tolerance."""
    if abs(ahead_s) > CLOCK_TOLERANCE_S:
        relation = "ahead of" if ahead_s > 0 else "behind"
        what = f"the clock of {shown(what)} is {abs(ahead_s):.0f} s {relation} this machine's"
        found.add(what, _CLOCK_WHY, _CLOCK_FIX)


def check_executors(found: Diagnosis, executors: Sequence[Executor]) -> None:
    """Compare the executors' versions with the driver's, and add what they lack."""
    found.executors = list(executors)
    for each in executors:
        where = f"{each.interpreter} on {each.host}"
        for error in each.import_errors:
            found.add(f"{where} lacks a package of the tasks", error, _PYTHON_FIX)
        if not each.import_errors and each.aclog != found.driver["aclog"]:
            why = f"it is {each.aclog}, the driver's is {found.driver['aclog']}"
            found.add(f"{where} has another version of aclog", why, _PYTHON_FIX)
        if int(each.java.partition(".")[0].partition("-")[0]) < JAVA_MIN:
            why = f"it is {each.java}; the jobs need {JAVA_MIN} or newer"
            found.add(f"Java of the executor on {each.host} is too old", why, "set JAVA_HOME there")
        for store, error in each.store_errors:
            found.add(f"{shown(store)} cannot be used by {where}", error, access_fix(store, error))
        for location in each.invisible:
            what = f"--output {shown(location)} on {each.host} is not the directory of this machine"
            found.add(what, _SHARED_WHY, _SHARED_FIX)


def access_fix(location: str, error: str) -> str:
    """The fix for an error of a location."""
    fixes = _S3_FIXES if "s3://" in location or "s3a://" in location else {}
    matching = (fix for pattern, fix in fixes.items() if re.search(pattern, error, re.IGNORECASE))
    return next(matching, _ACCESS_FIX)


def _probe(location: str) -> float | None:
    from snapshot.store.storage import Storage

    return Storage(located(location)).probe()


def _check_session(
    found: Diagnosis,
    flags: SparkFlags,
    outputs: Sequence[str],
    accessible: Sequence[str],
    checkpoint: str | None,
    *,
    needs_kafka: bool,
) -> None:
    """Start Spark, and check its executors, and the checkpoint by Hadoop if it is not local.

    ``accessible``: the outputs that this machine can use.
    """
    from snapshot.jobs.running.diagnosis import MODULES, TOPIC_MODULE, clocks, executors, probe_with_hadoop

    modules = (*MODULES, TOPIC_MODULE) if needs_kafka else MODULES
    note_start()
    try:
        locations = [] if checkpoint is None else [checkpoint]
        with spark_session_of(flags, "doctor", conf=_ONE_TRY, locations=locations) as spark:
            found.driver["java"] = spark._jvm.java.lang.System.getProperty("java.version")  # noqa: SLF001
            python = spark.sparkContext.pythonExec
            if shutil.which(python) is None:
                why = "the driver runs the executors' interpreter, too: Python data sources plan with it"
                found.add(f"{python} does not exist on the driver", why, _PYTHON_FIX)
            if checkpoint is not None:
                probe = partial(probe_with_hadoop, spark, checkpoint)
                check_access(found, f"--checkpoint {checkpoint}", probe)
            is_local = spark.sparkContext.master.partition("[")[0] == "local"
            stores = [located(output) for output in outputs]
            with _shared_files([] if is_local else accessible) as files:
                check_executors(found, executors(spark, stores, modules, files))
            if not is_local:
                check_clocks(found, clocks(spark))
    except AclogError as error:
        fix = f"{_PYTHON_FIX}. If it is right: are --master and its workers up, with free cores?"
        found.add("Spark cannot run a task", str(error), fix)


@contextmanager
def _shared_files(outputs: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """A file in each output that is a local directory, until the end of the block."""
    from snapshot.store.storage import Storage

    with ExitStack() as on_exit:
        files = ((each, on_exit.enter_context(Storage(located(each)).shared_file())) for each in outputs)
        yield [(output, str(path)) for output, path in files if path is not None]


def _print(found: Diagnosis, *, as_json: bool) -> None:
    if as_json:
        executors = [
            {
                "host": each.host,
                "interpreter": each.interpreter,
                "python": each.python,
                "java": each.java,
                "aclog": each.aclog,
                "clock_ahead_s": found.clocks.get(each.host),
            }
            for each in found.executors
        ]
        findings = [asdict(finding) for finding in found.findings]
        print_json({"driver": found.driver, "executors": executors, "findings": findings})
        return
    driver = found.driver
    answer(
        f"driver: Python {driver['python']} ({driver['interpreter']}), aclog {driver['aclog']}, pyspark "
        f"{driver['pyspark']}, Java {driver.get('java')}",
        indent=2,
    )
    for each in found.executors:
        clock = found.clocks.get(each.host)
        difference = "" if clock is None else f", clock {clock.low:+.1f} to {clock.high:+.1f} s ahead"
        answer(
            f"executor {each.host}: Python {each.python} ({each.interpreter}), aclog {each.aclog}, Java "
            f"{each.java}{difference}",
            indent=2,
        )
    for finding in found.findings:
        answer(f"{finding.what}: {finding.why}", indent=2)
        answer(f"  Fix: {finding.fix}", indent=4)
    answer(f"{len(found.findings)} finding{'' if len(found.findings) == 1 else 's'}")
