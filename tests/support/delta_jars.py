"""Delta Lake's jars, for the test that writes its tables.

They are fetched like those of the Spark jobs (session.ivy) and must have the checksums below. Users let Spark
fetch delta_lake.PACKAGE; its other dependencies are in Spark, or the tests do not need them.
`python tests/support/delta_jars.py` fetches them and prints the directory.
"""

from __future__ import annotations

import sys
from pathlib import Path

from snapshot.errors import SparkJarsError
from snapshot.jobs.session.ivy import Jar, jar_directory

DELTA_VERSION = "4.4.0"
JARS = (
    Jar(
        f"io/delta/delta-spark_4.2_2.13/{DELTA_VERSION}/delta-spark_4.2_2.13-{DELTA_VERSION}.jar",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar(
        f"io/delta/delta-storage/{DELTA_VERSION}/delta-storage-{DELTA_VERSION}.jar",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)
ROOT = Path(__file__).resolve().parents[2]


def delta_jars() -> list[Path]:
    """The jars, fetched if need be: in `.cache/delta/<version>`, or where ACLOG_DELTA_JARS says.

    Raises SparkJarsError.
    """
    default = ROOT / ".cache" / "delta" / DELTA_VERSION
    directory = jar_directory(default, "ACLOG_DELTA_JARS", JARS, f"Delta Lake {DELTA_VERSION}")
    return [directory / jar.file for jar in JARS]


if __name__ == "__main__":
    try:
        print(delta_jars()[0].parent)
    except SparkJarsError as error:
        sys.exit(f"delta_jars: {error}")
