"""Jars of Spark's Kafka connector, with their checksums; downloaded once and cached.

They are in ``~/.cache/aclog/spark-jars/<Spark's version>`` (below XDG_CACHE_HOME, if set), or in the
directory that ACLOG_SPARK_JARS names. For a machine without access to Maven Central, copy that directory.

As a program: ``python -m snapshot.jobs.session.jars`` downloads and prints the directory; ``--checksums``
prints paths and SHA-256 of Maven's jars (for another version).
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from records.install_command import install_command
from snapshot.errors import SparkJarsError
from snapshot.jobs.session.ivy import Jar, fetch, jar_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

#: Version of the connector and of the pyspark that it belongs to.
SPARK_VERSION: Final = "4.2.0"
#: 4.0.0 works with it, and is also in registries that lack later versions.
TOKEN_PROVIDER_VERSION: Final = "4.0.0"  # noqa: S105 - not a password
_SCALA: Final = "2.13"

DIRECTORY_VARIABLE: Final = "ACLOG_SPARK_JARS"
#: The package for --packages, with which Spark downloads the connector.
PACKAGE: Final = f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{SPARK_VERSION}"

#: The connector and its dependencies that are not in pyspark.
JARS: Final = (
    Jar(
        f"org/apache/spark/spark-sql-kafka-0-10_{_SCALA}/{SPARK_VERSION}/"
        f"spark-sql-kafka-0-10_{_SCALA}-{SPARK_VERSION}.jar",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        f"org/apache/spark/spark-token-provider-kafka-0-10_{_SCALA}/{TOKEN_PROVIDER_VERSION}/"
        f"spark-token-provider-kafka-0-10_{_SCALA}-{TOKEN_PROVIDER_VERSION}.jar",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org/apache/commons/commons-pool2/2.13.1/commons-pool2-2.13.1.jar",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)


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


CONNECTOR: Final = PinnedJars(
    "Spark's Kafka connector",
    SPARK_VERSION,
    "Only logs in topics",
    "spark-jars",
    DIRECTORY_VARIABLE,
    PACKAGE,
    "spark-sql-kafka-0-10",
    JARS,
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


def main(argv: list[str]) -> int:
    """Download and check; or print checksums. Exit codes: 0, 2 wrong usage, 3 no jars."""
    if argv == ["--checksums"]:
        return exit_code_of(_print_checksums)
    if argv:
        print("usage: python -m snapshot.jobs.session.jars [--checksums]", file=sys.stderr)  # noqa: T201
        return 2
    return exit_code_of(CONNECTOR.print_directory)


def _print_checksums() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        fetch(Path(scratch), JARS, CONNECTOR.title)
        for jar in JARS:
            digest = hashlib.sha256(Path(scratch, jar.file).read_bytes()).hexdigest()
            print(f"{digest}  {jar.path}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
