"""Checks before a Spark job starts: pyspark, Java, and the locations that it reads or writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Container, Iterable
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


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_FILE: Final = "file:"
_PATTERN: Final = re.compile(r"[*?[{]")

#: What a directory may hold, by the entries that only it has.
HISTORY: Final = "the history of `aclog spark changes`"
COUNTS: Final = "the tables of `aclog spark counts`"
LOG: Final = "a metadata log"
_ENTRIES: Final = {HISTORY: ("coverage", "state"), COUNTS: ("counts", "state"), LOG: ("partition.metadata",)}
_OWN_DIRECTORY: Final = "Each output has a directory of its own."
_HISTORY_HINT: Final = "`aclog spark changes {log} --output DIR` writes a history."


def located(path: str) -> str:
    """A local path as a URL that Hadoop and fsspec both read as local, whatever Hadoop's default is."""
    # Without percent-encoding, which neither of them decodes.
    return path if _SCHEME.match(path) else f"file://{Path(path).absolute()}"


def local_path(location: str) -> Path | None:
    """The path of a local location; None for a URL of another file system."""
    if not _SCHEME.match(location):
        return Path(location)
    if not location.lower().startswith(_FILE):
        return None
    path = location[len(_FILE) :]
    return Path(f"/{path.lstrip('/')}" if path.startswith("//") else path)


def require_output(option: str, location: str, refused: Container[str] = ()) -> None:
    """Raise Failure if a job cannot write to a local path, or if it holds what ``refused`` names."""
    path = local_path(location)
    if path is None:
        return
    named = f"{option} {location}"
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not existing.is_dir():
        raise Failure(
            f"{named}: {existing} is a file, not a directory",
            ExitCode.USAGE,
            "Name a directory; it is created if it does not exist.",
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise Failure(
            f"{named}: no permission to write to {existing}",
            ExitCode.USAGE,
            "Run as a user with access, or choose another path.",
        )
    held = _content(path)
    if held in refused:
        raise Failure(f"{named} holds {held}", ExitCode.USAGE, _OWN_DIRECTORY)


def require_distinct(outputs: Iterable[tuple[str, str]]) -> None:
    """Raise Failure if two options, each with its location, name the same one."""
    options: dict[str, str] = {}
    for option, location in outputs:
        other = options.setdefault(located(location).rstrip("/"), option)
        if other != option:
            raise Failure(f"{other} and {option} both name {location}", ExitCode.USAGE, _OWN_DIRECTORY)


def require_history(directory: str, cluster_id: str | None) -> None:
    """Raise an error if there is no history that can be queried; before Java is looked for."""
    require_history_directory(directory)
    from snapshot.jobs.changes.coverage import find_history

    find_history(located(directory), cluster_id)


def require_history_directory(directory: str) -> None:
    """Raise Failure if a local directory does not exist or has no history, or pyspark is not installed."""
    path = local_path(directory)
    if path is not None and not path.is_dir():
        problem = "is a file, not a directory" if path.exists() else "does not exist"
        raise Failure(f"--history {directory} {problem}", ExitCode.USAGE, _HISTORY_HINT)
    held = None if path is None else _content(path)
    if held in (COUNTS, LOG):
        raise Failure(f"--history {directory} holds {held}, not a history", ExitCode.USAGE, _HISTORY_HINT)
    require_pyspark()


def require_files(option: str, location: str) -> None:
    """Raise Failure if a local path does not exist; Hadoop resolves patterns of paths."""
    path = local_path(location)
    if path is not None and not path.exists() and not _PATTERN.search(location):
        raise Failure(f"{option} {location}: no such file or directory", ExitCode.USAGE)


def _content(directory: Path) -> str | None:
    """What a directory holds; None if it is none of those."""
    for content, entries in _ENTRIES.items():
        if all((directory / entry).exists() for entry in entries):
            return content
    return None
