"""``aclog serve`` on a log that returns one batch at a time, when a test permits it.

The directory of the permits comes before the arguments of the command line. A process that reads its n-th
batch creates the file ``PID.n.asked`` there and waits for ``PID.n.given``; when ``end`` exists, no process
waits.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from authorizer.cli.main import main
from records.log.directory.log import DirectoryLog
from records.log_batch import LogBatch

POLL_S = 0.005


def slowly(permits: Path) -> Callable[..., list[LogBatch]]:
    """A replacement of DirectoryLog.read."""
    real, numbers = DirectoryLog.read, count()

    def read(log: DirectoryLog, offset: int, **limits: Any) -> list[LogBatch]:
        name = f"{os.getpid()}.{next(numbers)}"
        (permits / f"{name}.asked").touch()
        while not (permits / f"{name}.given").exists() and not (permits / "end").exists():
            time.sleep(POLL_S)  # polls for files, without a deadline
        return real(log, offset, **limits)[:1]

    return read


if __name__ == "__main__":
    DirectoryLog.read = slowly(Path(sys.argv.pop(1)))  # type: ignore[method-assign]
    main()
