"""The classes that Spark and Kafka load, archived (class data sharing): their JVMs start in half the time.

    python -m support.class_archives

makes both archives, by running each program once; `make setup` does. A JVM that finds none, or one that is
not of its Java and its jars, loads its classes as ever.
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
    """What a JVM of the tests is started with: ``spark`` or ``kafka``."""
    # An archive that does not fit is not worth a word on standard output.
    return (*SHORT_LIVED, f"-XX:SharedArchiveFile={_archive(program)}", "-Xlog:disable")


def main() -> None:
    """Run each once, with the first thing that every test of it does."""
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
