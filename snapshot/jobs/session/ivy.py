"""Downloads jars from Maven Central with the Ivy in the pyspark wheel, which only needs Java.

Names and checksums of the jars are fixed, so Ivy resolves no dependencies and reads no POMs. A directory of
jars is created atomically and holds exactly the listed jars. Several processes may request it concurrently:
one downloads, the others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from records.install_command import install_command
from snapshot.errors import SparkJarsError

_PROGRESS_INTERVAL_S: Final = 2.0
_SHOWN_LINES: Final = 25
_SHOWN_PROBLEMS: Final = 5
#: Root of another repository with Maven's layout, for tests.
_ROOT: str | None = None


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar: its path in Maven's layout, and its checksum."""

    path: str
    sha256: str

    @property
    def file(self) -> str:
        return self.path.rpartition("/")[2]


def jar_directory(default: Path, variable: str, jars: Sequence[Jar], what: str) -> Path:
    """The directory that holds exactly these jars; downloads them if needed, with progress on stderr.

    ``default`` is created or replaced if needed; the directory that ``variable`` names is never replaced.

    Raises:
        SparkJarsError: the jars cannot be downloaded, or have other checksums.
    """
    directory, problems = installed_jars(default, variable, jars)
    if not problems:
        return directory
    if directory != default and directory.exists():
        raise SparkJarsError(f"{variable}={directory} does not hold {what}: {_some(problems)}")
    with _locked(directory.with_name(f"{directory.name}.lock")):
        if _differences(directory, jars):  # another process may have been faster
            _install(directory, jars, what)
    return directory


def installed_jars(default: Path, variable: str, jars: Sequence[Jar]) -> tuple[Path, list[str]]:
    """The directory of these jars, and how it differs from them, without downloading; see jar_directory."""
    directory = Path(os.environ.get(variable) or default)
    return directory, _differences(directory, jars)


def fetch(target: Path, jars: Sequence[Jar], what: str) -> None:
    """Download jars into ``target`` without checking them, with progress on stderr.

    Raises:
        SparkJarsError: there is no Java or Ivy, or Ivy failed.
    """
    java = java_command()
    with tempfile.TemporaryDirectory(prefix="aclog-ivy-") as scratch:
        settings, module = Path(scratch, "settings.xml"), Path(scratch, "ivy.xml")
        settings.write_text(_settings(), encoding="utf-8")
        module.write_text(_module(jars), encoding="utf-8")
        command = [
            java, "-jar", str(ivy_jar()), "-settings", str(settings), "-ivy", str(module),
            "-cache", str(Path(scratch, "cache")), "-confs", "default",
            "-retrieve", f"{target}/[artifact]-[revision].[ext]",
        ]  # fmt: skip
        try:
            ivy = subprocess.Popen(  # noqa: S603 - the user's own Java
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except OSError as error:
            raise SparkJarsError(f"{java} does not run: {error}") from error
        with ivy:
            assert ivy.stdout is not None
            try:
                tail = _show_progress(ivy.stdout, len(jars))
            except BaseException:  # such as Ctrl-C
                ivy.kill()
                raise
    if ivy.returncode != 0:
        output = "\n".join(tail)
        raise SparkJarsError(f"Ivy could not fetch {what} (exit {ivy.returncode}):\n{output}")


def _differences(directory: Path, jars: Sequence[Jar]) -> list[str]:
    """Missing, unexpected and different jars; empty if the directory is as expected."""
    expected = {jar.file: jar.sha256 for jar in jars}
    actual = {jar.name: _sha256(jar) for jar in directory.glob("*.jar")}
    common = expected.keys() & actual.keys()
    missing = [f"{name} is missing" for name in expected.keys() - common]
    unexpected = [f"{name} is unexpected" for name in actual.keys() - common]
    different = [f"{name} is different" for name in common if expected[name] != actual[name]]
    return sorted(missing + unexpected + different)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _some(problems: list[str]) -> str:
    shown = ", ".join(problems[:_SHOWN_PROBLEMS])
    more = len(problems) - _SHOWN_PROBLEMS
    return shown if more <= 0 else f"{shown} and {more} more"


def _install(directory: Path, jars: Sequence[Jar], what: str) -> None:
    """Download into a sibling directory, check, and rename."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".fetch-") as scratch:
        fetched = Path(scratch) / "jars"
        _print(f"Fetching {what} into {directory}: {len(jars)} jars")
        fetch(fetched, jars, what)
        problems = _differences(fetched, jars)
        if problems:
            raise SparkJarsError(f"Maven's jars of {what} differ from the reviewed ones: {_some(problems)}")
        if directory.exists():  # an older or damaged one
            directory.rename(Path(scratch) / "replaced")
        fetched.rename(directory)


def _settings() -> str:
    """Ivy settings with one resolver: Maven Central."""
    root = "" if _ROOT is None else f" root={quoteattr(_ROOT)}"
    return (
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        '<ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""'
        f"{root}/></resolvers></ivysettings>"
    )


def _module(jars: Sequence[Jar]) -> str:
    """An Ivy module that depends on these jars, without their dependencies."""
    lines = []
    for jar in jars:
        *organisation, name, revision, _ = jar.path.split("/")
        lines.append(
            f"<dependency org={quoteattr('.'.join(organisation))} name={quoteattr(name)} "
            f'rev={quoteattr(revision)} conf="default->*" transitive="false"/>'
        )
    return (
        '<ivy-module version="2.0"><info organisation="aclog" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _show_progress(lines: Iterator[str], jars: int) -> deque[str]:
    """Print the number of downloaded jars at intervals; returns the last lines."""
    tail: deque[str] = deque(maxlen=_SHOWN_LINES)
    count, printed_at_s = 0, time.monotonic()
    for line in lines:
        tail.append(line.rstrip())
        if "[SUCCESSFUL ]" not in line:
            continue
        count += 1
        if time.monotonic() - printed_at_s >= _PROGRESS_INTERVAL_S and count < jars:
            printed_at_s = time.monotonic()
            _print(f"  {count} of {jars}")
    return tail


def java_command() -> str:
    """The java executable, from JAVA_HOME or PATH as in Spark's scripts.

    Raises:
        SparkJarsError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise SparkJarsError(f"there is no java {where}; install Java 17 or newer")
    return java


def ivy_jar() -> Path:
    """Ivy's jar in the pyspark wheel. Raises SparkJarsError: pyspark is not installed."""
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for folder in folders for jar in sorted(Path(folder, "jars").glob("ivy-*.jar"))]
    if not found:
        raise SparkJarsError(f"there is no Ivy to fetch jars with: {install_command('spark')}")
    return found[-1]


def _print(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an advisory file lock on ``path``; it ends with the process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise SparkJarsError(f"cannot write {path}: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
