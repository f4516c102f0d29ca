"""Jars from Maven's central repository, by the Ivy that is in the pyspark wheel: nothing but Java is needed.

pyspark itself is not imported. A directory of jars is made whole or not at all, and holds exactly what a list
of checksums says; any number of processes may ask for it at once, one fetches and the others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapshot.errors import SparkJarsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TIMEOUT_S: Final = 900
_SHOWN_LINES: Final = 25
_SHOWN_PROBLEMS: Final = 5


def jar_directory(default: Path, variable: str, expected: Mapping[str, str], ivy_xml: str, what: str) -> Path:
    """The directory that holds the expected jars, which are fetched if it does not.

    Args:
        default: where it is; made or replaced if need be.
        variable: of the environment, that names another one; what that holds is not replaced.
        expected: file name -> SHA-256.
        ivy_xml: the Ivy module whose dependencies they are; its configuration is ``default``.
        what: they are, for messages: `Kafka 4.3.1`.

    Raises:
        SparkJarsError: they cannot be had, or what is there or came is something else.
    """
    override = os.environ.get(variable)
    directory = Path(override) if override else default
    problems = _differences(directory, expected)
    if not problems:
        return directory
    if override and directory.exists():
        raise SparkJarsError(f"{variable}={directory} does not hold {what}: {_some(problems)}")
    with _locked(directory.with_name(f"{directory.name}.lock")):
        if _differences(directory, expected):  # another process may have been quicker
            _install(directory, expected, ivy_xml, what)
    return directory


def fetch(target: Path, ivy_xml: str, what: str) -> None:
    """Put every jar that the module depends on into ``target``.

    Raises:
        SparkJarsError: there is no Java or Ivy, or Ivy failed.
    """
    java = _java()
    with tempfile.TemporaryDirectory(prefix="aclog-ivy-") as cache:
        module = Path(cache) / "ivy.xml"
        module.write_text(ivy_xml, encoding="utf-8")
        command = [
            java, "-jar", str(_ivy_jar()), "-ivy", str(module), "-cache", cache, "-confs", "default",
            "-types", "jar", "bundle", "-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]",
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603 - the user's own Java
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise SparkJarsError(f"Ivy did not fetch {what} within {_TIMEOUT_S} s") from None
        except OSError as error:
            raise SparkJarsError(f"{java} does not run: {error}") from error
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-_SHOWN_LINES:])
        raise SparkJarsError(f"Ivy could not fetch {what} (exit {done.returncode}):\n{tail}")


def checksums(directory: Path) -> dict[str, str]:
    """File name -> SHA-256 of every jar in it."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(directory.glob("*.jar"))}


def _differences(directory: Path, expected: Mapping[str, str]) -> list[str]:
    """What is missing, damaged or too much; empty when all is as expected."""
    actual = checksums(directory)
    common = expected.keys() & actual.keys()
    missing = [f"{name} is missing" for name in expected.keys() - common]
    unexpected = [f"{name} is unexpected" for name in actual.keys() - common]
    different = [f"{name} is different" for name in common if expected[name] != actual[name]]
    return sorted(missing + unexpected + different)


def _some(problems: list[str]) -> str:
    shown = ", ".join(problems[:_SHOWN_PROBLEMS])
    more = len(problems) - _SHOWN_PROBLEMS
    return shown if more <= 0 else f"{shown} and {more} more"


def _install(directory: Path, expected: Mapping[str, str], ivy_xml: str, what: str) -> None:
    """Fetch into a directory beside it, check, and rename into place."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".fetch-") as scratch:
        fetched = Path(scratch) / "jars"
        fetch(fetched, ivy_xml, what)
        problems = _differences(fetched, expected)
        if problems:
            raise SparkJarsError(f"what Maven gave for {what} is not what was reviewed: {_some(problems)}")
        if directory.exists():  # an older or damaged one
            directory.rename(Path(scratch) / "replaced")
        fetched.rename(directory)


def _java() -> str:
    """As Spark's own scripts choose it: JAVA_HOME first."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise SparkJarsError(f"there is no java {where}; Java 17 or newer is needed")
    return java


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for folder in folders for jar in sorted(Path(folder, "jars").glob("ivy-*.jar"))]
    if not found:
        raise SparkJarsError("there is no Ivy to fetch jars with: pyspark is not installed")
    return found[-1]


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
