"""Jars that fit the pinned Spark, with their checksums; downloaded once and cached.

They are in ``~/.cache/aclog/<folder>/<version>`` (below XDG_CACHE_HOME, if set), or in a directory that an
environment variable names. For a machine without access to Maven Central, copy that directory.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from records.install_command import install_command
from snapshot.errors import SparkJarsError
from snapshot.jobs.session.ivy import Jar, jar_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

#: The pyspark that the jobs are written for.
SPARK_VERSION: Final = "4.2.0"


@dataclass(frozen=True, slots=True)
class PinnedJars:
    """Jars that fit the pinned Spark.

    Attributes:
        needed_by: what needs them: the subject of a sentence.
        folder: below aclog's cache directory, with a directory for each version.
        variable: environment variable with the path of a directory.
        package: for --packages, with which Spark downloads them.
        part: of the names of the main jar and of its package.
    """

    name: str
    version: str
    needed_by: str
    folder: str
    variable: str
    package: str
    part: str
    jars: tuple[Jar, ...]

    @property
    def title(self) -> str:
        """What they are, with the version."""
        return f"{self.name} {self.version}"

    @property
    def default_directory(self) -> Path:
        """Where they are unless the variable names another directory."""
        home = os.environ.get("XDG_CACHE_HOME")
        return (Path(home) if home else Path.home() / ".cache") / "aclog" / self.folder / self.version

    def paths(self) -> list[Path]:
        """The jars; downloaded if needed.

        Raises:
            SparkJarsError: they cannot be downloaded, or have other checksums.
        """
        self._require_pyspark_version()
        default = self.default_directory
        try:
            directory = jar_directory(default, self.variable, self.jars, self.title)
        except SparkJarsError as error:
            raise SparkJarsError(
                f"{error}\n{self.needed_by} need these jars. Copy {default} from a machine that could fetch "
                f"them, and set {self.variable} to its path; or let Spark find them: --packages "
                f"{self.package}, or --conf spark.jars=..."
            ) from error
        return [directory / jar.file for jar in self.jars]

    def misfit(self, packages: str) -> str | None:
        """The first of ``packages`` that has these jars for another Spark; a patch release fits."""
        _, artifact, fitting = self.package.split(":")
        for coordinates in re.split(r"[,\s]+", packages):
            _, _, rest = coordinates.partition(":")
            name, _, release = rest.partition(":")
            is_other = name != artifact or release.split(".")[:2] != fitting.split(".")[:2]
            if name.startswith(self.part) and is_other:
                return coordinates
        return None

    def print_directory(self) -> None:
        """Print the jars' directory; raises as ``paths``."""
        print(self.paths()[0].parent)  # noqa: T201

    def _require_pyspark_version(self) -> None:
        """Raise SparkJarsError unless the installed pyspark is the one that the jars fit."""
        try:
            installed = version("pyspark")
        except PackageNotFoundError:
            raise SparkJarsError(f"pyspark is not installed: {install_command('spark')}") from None
        if installed != SPARK_VERSION:
            raise SparkJarsError(
                f"{self.title} does not fit pyspark {installed}: install pyspark=={SPARK_VERSION}, or name "
                f"the package for that version, instead of {self.package}, with --packages"
            )


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether a session's driver can load a Java class."""
    jvm: Any = spark._jvm  # noqa: SLF001 - no public API for classes
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


def exit_code_of(action: Callable[[], None]) -> int:
    """Run a program's action, and report that there are no jars. Exit codes: 0, 3 no jars."""
    try:
        action()
    except SparkJarsError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return 3
    return 0
