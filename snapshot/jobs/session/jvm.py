"""Starts a job's JVM in its own process session, and filters its output.

A signal to the terminal's process group reaches only the job; the JVM ends when its standard input closes.
If it ended first, running calls would fail with tracebacks. Lines of Spark's log go to standard error. Other
lines are withheld: the JVM's warnings, and the output of Python workers that Spark retries. The newest of
them are shown if Spark does not start. Standard output belongs to the command.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from snapshot.errors import SparkJarsError, SparkJobError

#: Prefix of log lines, see log4j2.properties.
_LOG_PREFIX: Final = b"spark: "
_JAVA_FRAME: Final = b"\tat "
# Ivy's line about a package of spark.jars.packages.
_UNRESOLVED: Final = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+)")
_WITHHELD_LINES_MAX: Final = 200
_END_TIMEOUT_S: Final = 5.0


def start_jvm(conf: SparkConf, *, shows_output: bool) -> None:
    """Start the JVM of this process's Spark session, unless it is running.

    Args:
        conf: of the session; some settings only apply when the JVM starts.
        shows_output: withhold nothing, for debugging and for users who configure Spark's logging.

    Raises:
        SparkJarsError: a package cannot be fetched.
        SparkJobError: it does not start; with its output.
    """
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
