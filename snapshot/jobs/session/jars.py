"""Jars of Spark's Kafka connector, with their checksums; downloaded once and cached.

They are in ``~/.cache/aclog/spark-jars/<Spark's version>`` (below XDG_CACHE_HOME, if set), or in the
directory that ACLOG_SPARK_JARS names. For a machine without access to Maven Central, copy that directory.

As a program: ``python -m snapshot.jobs.session.jars`` downloads and prints the directory; ``--checksums``
prints paths and SHA-256 of Maven's jars (for another version).
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from records.install_command import install_command
from snapshot.errors import SparkJarsError
from snapshot.jobs.session.ivy import Jar, fetch, jar_directory

#: Version of the connector and of the pyspark that it belongs to.
SPARK_VERSION: Final = "4.2.0"
#: 4.0.0 works with it, and is also in registries that lack later versions.
TOKEN_PROVIDER_VERSION: Final = "4.0.0"  # noqa: S105 - not a password
_SCALA: Final = "2.13"

DIRECTORY_VARIABLE: Final = "ACLOG_SPARK_JARS"
#: The package for --packages, with which Spark downloads the connector.
PACKAGE: Final = f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{SPARK_VERSION}"
#: Part of the names of the connector's jar and package.
CONNECTOR_NAME: Final = "spark-sql-kafka-0-10"

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
_WHAT: Final = f"Spark's Kafka connector {SPARK_VERSION}"


def connector_jars() -> list[Path]:
    """The jars; downloaded if needed.

    Raises:
        SparkJarsError: they cannot be downloaded, or have other checksums.
    """
    require_pyspark_version(_WHAT, PACKAGE)
    default = default_directory()
    try:
        directory = jar_directory(default, DIRECTORY_VARIABLE, JARS, _WHAT)
    except SparkJarsError as error:
        raise SparkJarsError(
            f"{error}\nOnly logs in topics need the jars. Copy {default} from a machine that could fetch "
            f"them, and set {DIRECTORY_VARIABLE} to its path; or let Spark find the connector: --packages "
            f"{PACKAGE}, or --conf spark.jars=..."
        ) from error
    return [directory / jar.file for jar in JARS]


def default_directory() -> Path:
    """The directory of the jars, unless ACLOG_SPARK_JARS names another one."""
    return cache_directory("spark-jars") / SPARK_VERSION


def require_pyspark_version(what: str, package: str) -> None:
    """Raise SparkJarsError unless the installed pyspark is the one that the pinned jars fit."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        raise SparkJarsError(f"pyspark is not installed: {install_command('spark')}") from None
    if installed != SPARK_VERSION:
        raise SparkJarsError(
            f"{what} does not fit pyspark {installed}: install pyspark=={SPARK_VERSION}, or name the package "
            f"for that version, instead of {package}, with --packages"
        )


def cache_directory(name: str) -> Path:
    """The directory for downloads of one kind."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "aclog" / name


def main(argv: list[str]) -> int:
    """Download and check; or print checksums. Exit codes: 0, 2 wrong usage, 3 no jars."""
    try:
        if argv == ["--checksums"]:
            with tempfile.TemporaryDirectory() as scratch:
                fetch(Path(scratch), JARS, _WHAT)
                for jar in JARS:
                    digest = hashlib.sha256(Path(scratch, jar.file).read_bytes()).hexdigest()
                    print(f"{digest}  {jar.path}")  # noqa: T201
            return 0
        if argv:
            print("usage: python -m snapshot.jobs.session.jars [--checksums]", file=sys.stderr)  # noqa: T201
            return 2
        print(connector_jars()[0].parent)  # noqa: T201
    except SparkJarsError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
