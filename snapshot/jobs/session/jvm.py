"""The JVM that a job starts for itself: in a session of its own, with what it prints read here.

A signal to the terminal's process group ends the job, and the JVM follows when its standard input closes: it
does not die first, under calls that would then fail with a traceback each. What Spark's own log says goes to
standard error as it is. All else is held back: the JVM's warnings about itself, and what Python workers print
of tries that Spark makes again. The newest of it is shown where Spark does not start, for then nothing else
says why. Standard output is the command's own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from snapshot.errors import SparkJobError

if TYPE_CHECKING:
    from pyspark import SparkConf

#: How a line of log4j2.properties begins.
_OF_LOG: Final = b"spark: "
_LINES_HELD_MAX: Final = 200
_END_S: Final = 5.0


def start_jvm(conf: SparkConf, *, passes_all: bool) -> None:
    """Start the JVM of this process's Spark session; nothing where it runs already.

    Args:
        conf: of the session; some settings count only when the JVM starts.
        passes_all: hold nothing back: for a session whose user configured Spark's logging, and for debugging.

    Raises:
        SparkJobError: it does not start; with what it said.
    """
    if SparkContext._gateway is not None:  # noqa: SLF001 - there is no public way to ask
        return
    reading, writing = os.pipe()
    output = _Output(reading, passes_all=passes_all)
    launch: Any = launch_gateway
    try:
        gateway = launch(conf, {"start_new_session": True, "stdout": writing, "stderr": writing})
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001
    except (PySparkException, OSError) as error:
        raise SparkJobError(f"Spark does not start: {error}{output.held(writing)}") from error
    os.close(writing)


class _Output(threading.Thread):
    """Reads what the JVM and the Python processes that it starts print, until all have ended."""

    def __init__(self, descriptor: int, *, passes_all: bool) -> None:
        super().__init__(name="spark-output", daemon=True)
        self._descriptor = descriptor
        self._passes_all = passes_all
        self._held: deque[bytes] = deque(maxlen=_LINES_HELD_MAX)
        self.start()

    def run(self) -> None:
        with open(self._descriptor, "rb") as lines:  # noqa: PTH123 - a descriptor
            for line in lines:
                if self._passes_all or line.startswith(_OF_LOG):
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
                else:
                    self._held.append(line)

    def held(self, writing: int) -> str:
        """What was held back, each line on one of its own, once the JVM has ended; closes the other end."""
        os.close(writing)
        self.join(_END_S)
        return "".join(f"\n  {line.decode(errors='replace').rstrip()}" for line in self._held)
