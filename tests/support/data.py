"""Paths of the logs and answers that were recorded from real Kafka (tests/data/oracle/README.md)."""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ORACLE = TESTS / "data" / "oracle"
LOGS = ORACLE / "logs"
CASES = ORACLE / "cases"

#: Unpacked archives; safe to delete at any time.
CACHE = Path(os.environ.get("ACLOG_CACHE", TESTS.parent / ".cache")) / "oracle"

REAL_LOGS = ("kraft-small", "kraft-trimmed", "kraft-large")


@cache
def real_log_home(name: str) -> Path:
    """The folder of one real log: ``dump.jsonl``, ``acls.jsonl``, ``authz/`` and the log directory.

    kraft-large is stored as an archive; concurrent test processes unpack it only once.
    """
    stored = LOGS / name
    if stored.is_dir():
        return stored
    unpacked = CACHE / name
    if unpacked.is_dir():
        return unpacked
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.is_dir():
            staging = CACHE / f"{name}.unpacking"
            shutil.rmtree(staging, ignore_errors=True)
            for archive in (f"{name}.tar.gz", f"{name}-dumps.tar.gz"):
                with tarfile.open(LOGS / archive) as tar:
                    tar.extractall(staging, filter="data")
            (staging / name).rename(unpacked)
            staging.rmdir()
    return unpacked


def real_log(name: str) -> Path:
    """The ``__cluster_metadata-0`` directory that the real broker wrote."""
    return real_log_home(name) / "__cluster_metadata-0"
