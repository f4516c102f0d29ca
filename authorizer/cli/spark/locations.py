"""Locations that Spark commands read or write, and their checks before Spark starts."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Final

from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.spark.requirements import require_pyspark

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
