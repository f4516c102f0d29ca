"""Jars from Maven's central repository, by the Ivy that is in the pyspark wheel: nothing but Java is needed.

Which jars is fixed, by name and checksum, so Ivy resolves nothing: it reads no pom, which took it most of the
time. A directory of jars is made whole or not at all, and holds exactly what a list of jars says; any number
of processes may ask for it at once, one fetches and the others wait.
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
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import quoteattr

from snapshot.errors import SparkJarsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROGRESS_S: Final = 2.0
_SHOWN_LINES: Final = 25
_SHOWN_PROBLEMS: Final = 5
#: Another place with Maven's layout than Maven's own, for tests.
_ROOT: str | None = None


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar, where Maven's layout has it, and what it must be."""

    path: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name in a directory of jars."""
        return self.path.rpartition("/")[2]


def jar_directory(default: Path, variable: str, jars: Sequence[Jar], what: str) -> Path:
    """The directory that holds these jars and no others; they are fetched if it does not.

    Progress is said on stderr.

    Args:
        default: where it is; made or replaced if need be.
        variable: of the environment, that names another one; what that holds is not replaced.
        jars: all of them.
        what: they are, for messages: `Kafka 4.3.1`.

    Raises:
        SparkJarsError: they cannot be had, or what is there or came is something else.
    """
    override = os.environ.get(variable)
    directory = Path(override) if override else default
    problems = _differences(directory, jars)
    if not problems:
        return directory
    if override and directory.exists():
        raise SparkJarsError(f"{variable}={directory} does not hold {what}: {_some(problems)}")
    with _locked(directory.with_name(f"{directory.name}.lock")):
        if _differences(directory, jars):  # another process may have been quicker
            _install(directory, jars, what)
    return directory


def fetch(target: Path, jars: Sequence[Jar], what: str) -> None:
    """Put these jars into ``target``, whatever their checksums; progress is said on stderr.

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
                tail = _shown(ivy.stdout, len(jars))
            except BaseException:  # Ctrl-C, say: nobody waits for it
                ivy.kill()
                raise
    if ivy.returncode != 0:
        said = "\n".join(tail)
        raise SparkJarsError(f"Ivy could not fetch {what} (exit {ivy.returncode}):\n{said}")


def _differences(directory: Path, jars: Sequence[Jar]) -> list[str]:
    """What is missing, damaged or too much; empty when all is as expected."""
    expected = {jar.file: jar.sha256 for jar in jars}
    actual = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in directory.glob("*.jar")}
    common = expected.keys() & actual.keys()
    missing = [f"{name} is missing" for name in expected.keys() - common]
    unexpected = [f"{name} is unexpected" for name in actual.keys() - common]
    different = [f"{name} is different" for name in common if expected[name] != actual[name]]
    return sorted(missing + unexpected + different)


def _some(problems: list[str]) -> str:
    shown = ", ".join(problems[:_SHOWN_PROBLEMS])
    more = len(problems) - _SHOWN_PROBLEMS
    return shown if more <= 0 else f"{shown} and {more} more"


def _install(directory: Path, jars: Sequence[Jar], what: str) -> None:
    """Fetch into a directory beside it, check, and rename into place."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".fetch-") as scratch:
        fetched = Path(scratch) / "jars"
        _say(f"Fetching {what} into {directory}: {len(jars)} jars")
        fetch(fetched, jars, what)
        problems = _differences(fetched, jars)
        if problems:
            raise SparkJarsError(f"what Maven gave for {what} is not what was reviewed: {_some(problems)}")
        if directory.exists():  # an older or damaged one
            directory.rename(Path(scratch) / "replaced")
        fetched.rename(directory)


def _settings() -> str:
    """One resolver: Maven's central repository, which Ivy knows."""
    root = "" if _ROOT is None else f" root={quoteattr(_ROOT)}"
    return (
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        '<ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""'
        f"{root}/></resolvers></ivysettings>"
    )


def _module(jars: Sequence[Jar]) -> str:
    """A module that depends on these jars, and on nothing that they depend on."""
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


def _shown(lines: Iterator[str], jars: int) -> deque[str]:
    """Say now and then how many jars have come; the last lines, once there are no more."""
    tail: deque[str] = deque(maxlen=_SHOWN_LINES)
    count, said_s = 0, time.monotonic()
    for line in lines:
        tail.append(line.rstrip())
        if "[SUCCESSFUL ]" not in line:
            continue
        count += 1
        if time.monotonic() - said_s >= _PROGRESS_S and count < jars:
            said_s = time.monotonic()
            _say(f"  {count} of {jars}")
    return tail


def java_command() -> str:
    """As Spark's own scripts choose it: JAVA_HOME first.

    Raises:
        SparkJarsError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise SparkJarsError(f"there is no java {where}; Java 17 or newer is needed")
    return java


def ivy_jar() -> Path:
    """Ivy itself, in the pyspark wheel.

    Raises:
        SparkJarsError: pyspark is not installed.
    """
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for folder in folders for jar in sorted(Path(folder, "jars").glob("ivy-*.jar"))]
    if not found:
        raise SparkJarsError("there is no Ivy to fetch jars with: pyspark is not installed")
    return found[-1]


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an advisory lock on ``path`` among processes; it ends with the process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise SparkJarsError(f"cannot write {path}: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
