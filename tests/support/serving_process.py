"""``aclog serve`` in a separate process, for tests of misbehaving clients."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def serving_process(
    tmp_path: Path, *arguments: str, log: str | None = None, open_files: int | None = None, **settings: str
) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """A process, and the URLs of its listeners; its log must show no internal error.

    Args:
        tmp_path: for the log and the process's stderr.
        arguments: further arguments of ``aclog serve``.
        log: None: a new one.
        open_files: its limit of open files.
        settings: environment variables.
    """
    environment = {
        "ACLOG_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "ACLOG_LOG_MODE": "create",
        "ACLOG_LOGGING_FORMAT": "json",
        "ACLOG_AUDIT_LEVEL": "OFF",
        **settings,
    }
    limit = "" if open_files is None else f"ulimit -n {open_files};"
    where = ("--log", str(tmp_path / "log") if log is None else log)
    command = [sys.executable, "-m", "authorizer.cli", "serve", *where, *arguments]

    stderr_file = tmp_path / "stderr"
    with stderr_file.open("wb") as stderr:
        process = subprocess.Popen(
            ["sh", "-c", f'{limit} exec "$@"', "sh", *command],
            stderr=stderr,
            cwd=_ROOT,
            env={**os.environ, **environment},
        )
    try:
        found = wait_until(
            lambda: re.search(r'"urls": (\[[^]]*\])', stderr_file.read_text()), "the listeners"
        )
        yield process, json.loads(found[1])
        assert "Traceback" not in stderr_file.read_text(), stderr_file.read_text()
        assert "request_failed" not in stderr_file.read_text()
    finally:
        process.kill()
        process.wait()


def memory(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Resident bytes now, and at their maximum."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    now, peak = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
    assert now
    assert peak
    return int(now[1]) * 1024, int(peak[1]) * 1024


def admin_address(stderr_file: Path) -> str:
    """The address of the first listener of Kafka's protocol, from the log lines."""
    pattern = r'"addresses": \["([^"]*)"'
    return wait_until(lambda: re.search(pattern, stderr_file.read_text("utf-8")), "the admin listener")[1]


@contextmanager
def many_files(count: int) -> Iterator[None]:
    """Raise this process's limit of open files, if it may, so that it can open this many more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(list(Path("/proc/self/fd").iterdir())) + count
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, wanted)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
