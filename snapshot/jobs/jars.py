"""Spark's Kafka connector: which jars, with their checksums, fetched once and kept.

They are in ``~/.cache/aclog/spark-jars/<Spark's version>`` (XDG_CACHE_HOME is heeded), or where
ACLOG_SPARK_JARS says. A machine without a way to Maven's central repository gets a copy of that directory.

As a program: ``python -m snapshot.jobs.jars`` fetches and prints the directory; ``--checksums`` fetches into
nowhere and prints name and SHA-256 of what Maven gives (for another version).
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from snapshot.errors import SparkJarsError
from snapshot.jobs.ivy import checksums, fetch, jar_directory

#: Of the connector, and of the pyspark that it belongs to.
SPARK_VERSION: Final = "4.2.0"
#: 4.0.0 works with it, and is at hand also where the registry lacks the later ones.
TOKEN_PROVIDER_VERSION: Final = "4.0.0"  # noqa: S105 - not a password
_SCALA: Final = "2.13"

DIRECTORY_VARIABLE: Final = "ACLOG_SPARK_JARS"
#: How a user says that Spark is to fetch the connector.
PACKAGE: Final = f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{SPARK_VERSION}"
#: In a jar's or package's name: this is the connector.
CONNECTOR_NAME: Final = "spark-sql-kafka-0-10"


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar by its Maven coordinates, and what it must be."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name in the directory."""
        return f"{self.name}-{self.version}.jar"


#: What the connector needs beyond the jars that pyspark brings.
JARS: Final = (
    Jar(
        "org.apache.spark",
        f"spark-sql-kafka-0-10_{_SCALA}",
        SPARK_VERSION,
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        f"spark-token-provider-kafka-0-10_{_SCALA}",
        TOKEN_PROVIDER_VERSION,
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)
_WHAT: Final = f"Spark's Kafka connector {SPARK_VERSION}"


def connector_jars() -> list[Path]:
    """The jars, fetched if they are not there.

    Raises:
        SparkJarsError: they cannot be had, or are not the ones that were reviewed; with the ways out.
    """
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        raise SparkJarsError("pyspark is not installed: pip install 'aclog[spark]'") from None
    if installed != SPARK_VERSION:
        raise SparkJarsError(
            f"{_WHAT} does not fit pyspark {installed}: install pyspark=={SPARK_VERSION}, or name the "
            f"connector of that version with --packages"
        )
    expected = {jar.file: jar.sha256 for jar in JARS}
    default = _cache() / SPARK_VERSION
    try:
        directory = jar_directory(default, DIRECTORY_VARIABLE, expected, _ivy_xml(), _WHAT)
    except SparkJarsError as error:
        raise SparkJarsError(
            f"{error}\nOnly logs in topics need the jars. Ways out: copy {default} from a machine that "
            f"could fetch them, and say with {DIRECTORY_VARIABLE} where it is; or let Spark find the "
            f"connector: --packages {PACKAGE}, or --conf spark.jars=..."
        ) from error
    return [directory / jar.file for jar in JARS]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "aclog" / "spark-jars"


def _ivy_xml() -> str:
    dependencies = "\n".join(
        f'    <dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.version}" '
        'conf="default->master" transitive="false"/>'
        for jar in JARS
    )
    return f"""\
<ivy-module version="2.0">
  <info organisation="aclog" module="spark-kafka-connector"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def main(argv: list[str]) -> int:
    """Fetch and check; or print checksums. Exit codes: 0, 2 wrong usage, 3 the jars cannot be had."""
    try:
        if argv == ["--checksums"]:
            with tempfile.TemporaryDirectory() as scratch:
                target = Path(scratch) / "jars"
                fetch(target, _ivy_xml(), _WHAT)
                for name, digest in checksums(target).items():
                    print(f"{digest}  {name}")  # noqa: T201
            return 0
        if argv:
            print("usage: python -m snapshot.jobs.jars [--checksums]", file=sys.stderr)  # noqa: T201
            return 2
        print(connector_jars()[0].parent)  # noqa: T201
    except SparkJarsError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
