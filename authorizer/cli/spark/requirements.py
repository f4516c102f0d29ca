"""Checks that pyspark and Java are installed, before a Spark job starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from authorizer.cli.failure import ExitCode, Failure
from records.install_command import install_command

#: Minimum version for Spark 4.
JAVA_MIN: Final = 17
#: Set by spark-submit, which has started a JVM.
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_TIMEOUT_S: Final = 30
#: What pyspark imports for Spark Connect.
_CONNECT: Final = ("grpc", "grpc_status", "zstandard")
_NO_PYSPARK: Final = "pyspark is not installed"


def missing_requirement() -> str | None:
    """Why Spark cannot run here, in one sentence without a full stop; None if it can."""
    if find_spec("pyspark") is None:
        return _NO_PYSPARK
    if _GATEWAY in os.environ:
        return None
    java = _java()
    if java is None:
        if home := os.environ.get("JAVA_HOME"):
            return f"JAVA_HOME is {home}, where bin/java is missing (without JAVA_HOME that of PATH is used)"
        return f"Java {JAVA_MIN} or newer is not on PATH, nor in JAVA_HOME"
    try:
        printed = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run: {error}"
    found = _VERSION.search(printed)
    if found is None:
        return f"{java} does not print its version"
    if int(found[1]) < JAVA_MIN:
        return f"{java} is Java {found[1]}, older than {JAVA_MIN}"
    return None


def require_pyspark() -> None:
    """Raise Failure if pyspark is not installed: fast, and before checks that import its dependencies."""
    if find_spec("pyspark") is None:
        raise _failure(_NO_PYSPARK)


def require_spark() -> None:
    """Raise Failure if Spark cannot run."""
    missing = missing_requirement()
    if missing is not None:
        raise _failure(missing)


def require_connect() -> None:
    """Raise Failure if a package of Spark Connect's client is not installed."""
    missing = [name for name in _CONNECT if find_spec(name) is None]
    if missing:
        raise Failure(
            f"--remote cannot be used: {missing[0]} is not installed",
            ExitCode.USAGE,
            f"Spark Connect's client needs {install_command('connect')}.",
        )


def _failure(missing: str) -> Failure:
    return Failure(
        f"the Spark jobs cannot run: {missing}",
        ExitCode.USAGE,
        f"They need {install_command('spark')}, and Java {JAVA_MIN} or newer on PATH or in JAVA_HOME.",
    )


def _java() -> str | None:
    """The Java that Spark's scripts choose: JAVA_HOME first."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return str(java) if java.is_file() else None
    return shutil.which("java")
