"""Class data sharing archives for Spark and Kafka, which halve the start time of their JVMs.

    python -m support.class_archives

creates both archives by running each program once; `make setup` does so. A JVM without an archive for its
Java and jars loads its classes as usual.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from unittest.mock import patch

ARCHIVES = Path(__file__).resolve().parents[2] / ".cache" / "class-archives"
#: No JVM of the tests lives long enough to repay what its best compiler and collector take.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def jvm_options(program: str) -> tuple[str, ...]:
    """Options of a JVM of the tests: ``spark`` or ``kafka``."""
    # No warning on standard output for an archive that does not fit.
    return (*SHORT_LIVED, f"-XX:SharedArchiveFile={_archive(program)}", "-Xlog:disable")


def main() -> None:
    """Run each program once, with the first step of every test."""
    from support import kafka_broker, kafka_tools  # noqa: PLC0415  (who only wants the options needs none of it)
    from support.spark import local_spark  # noqa: PLC0415

    ARCHIVES.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = shlex.join(_making("spark"))
    with local_spark() as spark:
        spark.range(100).selectExpr("id % 3 AS key").groupBy("key").count().collect()
    with patch.object(kafka_tools, "JVM_OPTIONS", _making("kafka")), kafka_broker.jar_broker():
        pass


def _making(program: str) -> tuple[str, ...]:
    return (*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={_archive(program)}", "-Xlog:disable")


def _archive(program: str) -> Path:
    return ARCHIVES / f"{program}.jsa"


if __name__ == "__main__":
    main()
