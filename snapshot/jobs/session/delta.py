"""Delta Lake for Spark: its jars, with their checksums, and the settings of a session that uses it.

The version fits exactly one version of Spark. The jars are downloaded once (jars.py),
into ``~/.cache/aclog/delta-jars/<version>``, or are in the directory that ACLOG_DELTA_JARS names.
Their other dependencies are in Spark. ``python -m snapshot.jobs.session.delta`` downloads them without a job.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from snapshot.errors import SparkJobError
from snapshot.jobs.session.ivy import Jar
from snapshot.jobs.session.jars import PinnedJars, exit_code_of, has_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

#: The release of Delta Lake for jars.SPARK_VERSION.
DELTA_VERSION: Final = "4.4.0"
#: The package for --packages, with which Spark downloads Delta.
PACKAGE: Final = f"io.delta:delta-spark_4.2_2.13:{DELTA_VERSION}"
DIRECTORY_VARIABLE: Final = "ACLOG_DELTA_JARS"
JARS: Final = (
    Jar(
        f"io/delta/delta-spark_4.2_2.13/{DELTA_VERSION}/delta-spark_4.2_2.13-{DELTA_VERSION}.jar",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar(
        f"io/delta/delta-storage/{DELTA_VERSION}/delta-storage-{DELTA_VERSION}.jar",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)
DELTA: Final = PinnedJars(
    "Delta Lake",
    DELTA_VERSION,
    "Only tables of Delta Lake",
    "delta-jars",
    DIRECTORY_VARIABLE,
    PACKAGE,
    "delta-spark_",
    JARS,
)

#: Spark's error conditions for a path without a table.
MISSING: Final = frozenset({"PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE"})

EXTENSIONS: Final = "spark.sql.extensions"
EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
#: Settings that a session needs from its start.
SESSION_CONF: Final[Mapping[str, str]] = {
    EXTENSIONS: EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The table's log is small: Delta's 50 tasks would take longer than the work.
    "spark.databricks.delta.snapshotPartitions": "1",
}


def require_delta(spark: SparkSession) -> None:
    """Check that the session can read and write Delta's tables. Raises SparkJobError: it cannot."""
    extensions = str(spark.conf.get(EXTENSIONS, "")).split(",")
    if EXTENSION not in extensions or not has_class(spark, EXTENSION):
        raise SparkJobError(
            f"this Spark has no Delta Lake: add --packages {PACKAGE} (under spark-submit also --conf "
            f"{' --conf '.join(f'{key}={value}' for key, value in SESSION_CONF.items())}), or write Parquet"
        )


if __name__ == "__main__":
    sys.exit(exit_code_of(DELTA.print_directory))
