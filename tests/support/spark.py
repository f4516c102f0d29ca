"""One Spark session for the tests, on two cores, with Delta Lake.

All tests with the fixture `spark` run on one pytest-xdist worker, so that a run starts one JVM. A test that
kills Spark, or needs other settings, starts a separate process.
As a program it fetches Delta Lake's jars, and those of S3A.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from snapshot.jobs.session import delta, s3a
from snapshot.jobs.session.spark_session import spark_session

ROOT = Path(__file__).resolve().parents[2]
CORES = 2

DELTA_JARS = ROOT / ".cache" / "delta" / delta.DELTA_VERSION
S3A_JARS = ROOT / ".cache" / "s3a-jars" / s3a.HADOOP_VERSION

# `make setup` fetches into the repository: tests are offline. Processes that a test starts inherit this.
os.environ.setdefault(delta.DIRECTORY_VARIABLE, str(DELTA_JARS))
os.environ.setdefault(s3a.DIRECTORY_VARIABLE, str(S3A_JARS))


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """A session until the end of the block, and its JVM with it."""
    session = spark_session(
        "aclog tests",
        master=f"local[{CORES}]",
        conf={**delta.SESSION_CONF, "spark.sql.shuffle.partitions": str(CORES)},
    )
    gateway = session.sparkContext._gateway
    assert gateway is not None
    try:
        yield session
    finally:
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)


if __name__ == "__main__":
    delta.DELTA.paths()
    s3a.S3A.paths()
