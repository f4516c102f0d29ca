"""The Spark session of a job: what spark-submit, spark-defaults.conf and the user say, else our defaults.

A plain ``aclog spark ...`` starts a JVM of its own, on this machine unless a master is given. Under
spark-submit the JVM runs already: what was given to it counts, and jars can no longer be added.

A JVM of our own has its own process session: a signal to the terminal's process group reaches only the job;
the JVM ends when its standard input closes. If it ended first, running calls would fail with tracebacks.
Lines of Spark's log go to standard error. Other lines are withheld: the JVM's warnings, and the output of
Python workers that Spark retries. The newest of them are shown if Spark does not start. Standard output
belongs to the command.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import threading
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from records.properties import parse_properties
from snapshot.errors import SparkJarsError, SparkJobError
from snapshot.jobs.session.archive import archive_settings, driver_path
from snapshot.jobs.session.delta import DELTA, EXTENSION, EXTENSIONS
from snapshot.jobs.session.jars import SPARK_VERSION, has_class
from snapshot.jobs.session.s3a import FILE_SYSTEM, S3A, configure_s3a
from snapshot.jobs.session.s3a import PACKAGE as S3A_PACKAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
#: Set by spark-submit, whose JVM runs this program.
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
_SUBMIT_ARGS: Final = "PYSPARK_SUBMIT_ARGS"
_LOOPBACK: Final = "127.0.0.1"

_MASTER: Final = "spark.master"
_JARS: Final = "spark.jars"
_PYTHON: Final = "spark.pyspark.python"
_PACKAGES: Final = "spark.jars.packages"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
#: Settings by which a user may have added jars.
_CLASS_PATHS: Final = (_JARS, _PACKAGES, "spark.driver.extraClassPath")

#: Defaults of aclog; the user's settings have priority.
_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    # A batch is small, and its shards are few: Spark's 200 tasks would take longer than the work.
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Client settings are options of the source, and may hold a key or a password.
    "spark.sql.redaction.options.regex": r"(?i)url|secret|password|token|kafka\.(ssl|sasl)",
}


def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    packages: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    archive: Path | None = None,
    needs_s3: bool = False,
    shows_output: bool = False,
) -> SparkSession:
    """The active session, another of this process, or a new one.

    Args:
        app_name: shown by Spark's tools.
        master: as in Spark; None: that of spark-submit or spark-defaults.conf, else all local cores.
        packages: Maven coordinates that Spark downloads.
        conf: Spark's settings, with priority over all others. An active session is not changed.
        archive: packages of the executors (session/archive.py).
        needs_s3: Spark itself reads or writes a path on S3. S3A's jars are added if the user adds none.
        shows_output: show the output of the JVM and its Python processes.

    Raises:
        SparkJarsError: needed jars cannot be downloaded or added.
        SparkJobError: Spark does not start.
    """
    wanted = dict(conf or {})
    if master is not None:
        wanted[_MASTER] = master
    if packages:
        wanted[_PACKAGES] = ",".join(filter(None, (*packages, wanted.get(_PACKAGES, ""))))
    session = _existing_session()
    if session is None:
        is_submitted = _GATEWAY in os.environ
        given = _submitted() if is_submitted else _defaults_file() | _submit_arguments()
        settings = {key: value for key, value in _DEFAULTS.items() if key not in given} | wanted
        if archive is not None:
            settings |= archive_settings(archive, given | settings)
        if not is_submitted:
            configures_logging = _configures_logging(given | settings)
            settings |= _jvm_settings(given | settings, needs_s3=needs_s3)
            if archive is not None:
                os.environ["PYTHONPATH"] = driver_path()
            jvm_conf = SparkConf().setAll(list(settings.items())).setAppName(app_name)
            _start_jvm(jvm_conf, shows_output=shows_output or configures_logging)
        session = _started(app_name, settings)
    if needs_s3:
        if not has_class(session, FILE_SYSTEM):
            raise SparkJarsError(
                f"this Spark has no S3A: add --packages {S3A_PACKAGE} (for the Hadoop of this Spark), or its "
                "jars with --jars"
            )
        configure_s3a(session)
    return session


def has_session() -> bool:
    """Whether this process has a session (of a notebook or a shell), which its owner ends."""
    return _existing_session() is not None


def _existing_session() -> SparkSession | None:
    # Each thread has its own active session. One without may still be in a process with a session.
    if SparkContext._active_spark_context is None:  # noqa: SLF001
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _jvm_settings(settings: Mapping[str, str], *, needs_s3: bool = False) -> dict[str, str]:
    """Settings that a new JVM needs besides ``settings``; sets its environment, too."""
    added = {}
    if _PYTHON in settings:
        # Only spark-submit reads the setting; there, too, it has priority over the variable.
        os.environ["PYSPARK_PYTHON"] = settings[_PYTHON]
    if settings.get(_MASTER, os.environ.get("MASTER", "local")).startswith("local"):
        # Workers run the interpreter that has aclog, and listen on the loopback address only.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if not _configures_logging(settings):
        option = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"
        added[_JAVA_OPTIONS] = " ".join(filter(None, (settings.get(_JAVA_OPTIONS), option)))
    jars: list[Path] = []
    needs_delta = EXTENSION in settings.get(EXTENSIONS, "").split(",")
    for pinned, is_needed in ((DELTA, needs_delta), (S3A, needs_s3)):
        if not is_needed:
            continue
        if not _includes(settings, pinned.part):
            jars += pinned.paths()
        elif (misfit := pinned.misfit(settings.get(_PACKAGES, ""))) and "SPARK_HOME" not in os.environ:
            raise SparkJarsError(
                f"--packages {misfit} does not fit Spark {SPARK_VERSION}: name {pinned.package}, or leave it "
                "out"
            )
    if jars:
        added[_JARS] = ",".join(filter(None, (settings.get(_JARS), *map(str, jars))))
    return added


def _started(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        # The JVM has printed the cause to stderr.
        raise SparkJobError(f"Spark does not start: {error}") from error
    except Exception as error:
        if not type(error).__module__.startswith("py4j."):
            raise
        # pyspark has no class for it. The second line is the exception of Java, the others are its stack.
        reason = "".join(str(error).splitlines()[1:2]).removeprefix(": ") or str(error)
        where = f" with the master {settings[_MASTER]}" if _MASTER in settings else ""
        raise SparkJobError(f"Spark does not start{where}: {reason}") from error


def _submitted() -> dict[str, str]:
    """The settings of spark-submit, from its JVM."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - SparkConf alone does not connect to it
    return dict(SparkConf().getAll())


def _includes(settings: Mapping[str, str], name: str) -> bool:
    """Whether the user's settings or this installation of Spark already include the jar of this name."""
    named = any(name in settings.get(key, "") for key in _CLASS_PATHS)
    return named or any(Path(_find_spark_home(), "jars").glob(f"{name}*.jar"))


def _configures_logging(settings: Mapping[str, str]) -> bool:
    return "log4j" in settings.get(_JAVA_OPTIONS, "") or any(_configuration().glob("log4j*"))


def _defaults_file() -> dict[str, str]:
    """Settings of spark-defaults.conf, which Spark reads itself; aclog's defaults must not override them."""
    try:
        loaded = parse_properties(Path(_configuration(), "spark-defaults.conf").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {key: value.strip() for key, value in loaded.items()}


def _submit_arguments() -> dict[str, str]:
    """The relevant settings in PYSPARK_SUBMIT_ARGS, which pyspark passes to its spark-submit."""
    flags = {"--master": _MASTER, "--packages": _PACKAGES, "--jars": _JARS}
    found = {}
    arguments = shlex.split(os.environ.get(_SUBMIT_ARGS, ""))
    for flag, value in pairwise(arguments):
        if flag in flags:
            found[flags[flag]] = value
        elif flag == "--conf":
            key, _, text = value.partition("=")
            found[key] = text
    return found


def _configuration() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))


# --- the JVM -----------------------------------------------------------------------------------------------

#: Prefix of log lines, see log4j2.properties.
_LOG_PREFIX: Final = b"spark: "
_JAVA_FRAME: Final = b"\tat "
# Ivy's line about a package of spark.jars.packages.
_UNRESOLVED: Final = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+)")
_WITHHELD_LINES_MAX: Final = 200
_END_TIMEOUT_S: Final = 5.0


def _start_jvm(conf: SparkConf, *, shows_output: bool) -> None:
    """Start the JVM of this process's Spark session, unless it is running. Raises as ``spark_session``."""
    if SparkContext._gateway is not None:  # noqa: SLF001 - no public API
        return
    reading, writing = os.pipe()
    output = _Output(reading, shows_output=shows_output)
    launch: Any = launch_gateway
    try:
        gateway = launch(conf, {"start_new_session": True, "stdout": writing, "stderr": writing})
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001
    except (PySparkException, OSError) as error:
        text = output.withheld(writing)
        if missing := sorted({":".join(found) for found in _UNRESOLVED.findall(text)}):
            raise SparkJarsError(
                f"Spark cannot fetch {', '.join(missing)}: no repository has this version, or none answers. "
                "Correct --packages, or name the jars by --conf spark.jars=FILE,..."
            ) from error
        raise SparkJobError(f"Spark does not start: {error}{text}") from error
    os.close(writing)


class _Output(threading.Thread):
    """Reads the output of the JVM and its Python processes, until all have ended."""

    def __init__(self, descriptor: int, *, shows_output: bool) -> None:
        super().__init__(name="spark-output", daemon=True)
        self._descriptor = descriptor
        self._shows_output = shows_output
        self._withheld: deque[bytes] = deque(maxlen=_WITHHELD_LINES_MAX)
        self.start()

    def run(self) -> None:
        with open(self._descriptor, "rb") as lines:  # noqa: PTH123 - a descriptor
            for line in lines:
                if self._shows_output or line.startswith(_LOG_PREFIX):
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
                elif not line.startswith(_JAVA_FRAME):  # a stack hides the reason
                    self._withheld.append(line)

    def withheld(self, writing: int) -> str:
        """The withheld lines, indented, once the JVM has ended; closes the writing end."""
        os.close(writing)
        self.join(_END_TIMEOUT_S)
        return "".join(f"\n  {line.decode(errors='replace').rstrip()}" for line in self._withheld)
