"""A session under spark-submit, whose JVM runs before ours is asked for anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from support.spark import S3A_JARS

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("spark-commands")]

PROGRAM = """
import sys
from snapshot.errors import SparkJarsError
from snapshot.jobs.session.spark_session import spark_session
try:
    spark_session("submitted", needs_s3=True)
except SparkJarsError as error:
    print(error)
spark = spark_session("submitted")
for key in ("master", "sql.shuffle.partitions", "ui.enabled", "sql.session.timeZone"):
    print(key, spark.conf.get("spark." + key))
"""


@pytest.mark.long
@pytest.mark.parametrize("brings_jars", [True, False])
def test_settings_of_spark_submit_take_precedence(tmp_path: Path, *, brings_jars: bool) -> None:
    """Ours only where it says nothing; jars cannot be added there, and the message says how it can."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    jars = ["--jars", ",".join(map(str, sorted(S3A_JARS.glob("*.jar"))))] if brings_jars else []
    done = subprocess.run(
        [
            f"{_find_spark_home()}/bin/spark-submit", "--master", "local[1]", *jars,
            "--conf", "spark.sql.shuffle.partitions=3", "--conf", "spark.ui.enabled=false", program,
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    if not brings_jars:
        assert "this Spark has no S3A: add --packages org.apache.hadoop:hadoop-aws:3.5.0" in lines.pop(0)
    assert lines == [
        "master local[1]",
        "sql.shuffle.partitions 3",
        "ui.enabled false",
        "sql.session.timeZone UTC",
    ]
