"""What a Spark of our own is started with: the user's settings count, and ours where there are none."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from snapshot.errors import SparkJarsError
from snapshot.jobs.session import delta, spark_session
from support.spark import DELTA_JARS


@pytest.fixture(autouse=True)
def nothing_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration directory of Spark's, and no Spark in the environment."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in ("PYSPARK_SUBMIT_ARGS", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    # What the function under test sets is undone with the rest.
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


def own_jvm(settings: dict[str, str]) -> dict[str, str]:
    return spark_session._jvm_settings(settings)


def test_on_this_machine_workers_run_our_interpreter_and_nothing_listens_outside() -> None:
    own_jvm({})
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_on_a_cluster_both_are_the_users() -> None:
    own_jvm({"spark.master": "yarn"})
    assert "PYSPARK_PYTHON" not in os.environ
    assert "SPARK_LOCAL_IP" not in os.environ


@pytest.mark.parametrize("master", ["local[2]", "spark://m:7077"])
def test_setting_of_the_interpreter_applies_without_spark_submit(
    monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    """It has priority over the variable, as in spark-submit."""
    monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
    own_jvm({"spark.master": master, "spark.pyspark.python": "/env/bin/python"})
    assert os.environ["PYSPARK_PYTHON"] == "/env/bin/python"


DELTA_SETTINGS = {delta.EXTENSIONS: delta.EXTENSION}


def test_jars_are_added_where_they_are_needed() -> None:
    """To jars that the user has, too."""
    assert "spark.jars" not in own_jvm({})
    jars = own_jvm({"spark.jars": "mine.jar", **DELTA_SETTINGS})["spark.jars"].split(",")
    assert jars[0] == "mine.jar"
    assert set(jars[1:]) == {str(jar) for jar in DELTA_JARS.glob("*.jar")}
    assert len(jars) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars", "/opt/delta-spark_4.2_2.13-4.4.0.jar"),
        ("spark.jars.packages", "a:b:1,io.delta:delta-spark_4.2_2.13:4.4.0"),
        ("spark.driver.extraClassPath", "/opt/delta-spark_4.2_2.13-4.4.0.jar:/opt/more"),
    ],
)
def test_jars_of_the_users_are_respected(key: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours are not even fetched."""
    monkeypatch.setenv(delta.DIRECTORY_VARIABLE, "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "spark.jars" not in own_jvm({key: value, **DELTA_SETTINGS})


@pytest.mark.parametrize(
    ("settings", "misfit"),
    [
        (DELTA_SETTINGS, "io.delta:delta-spark_2.13:3.2.0"),
        ({}, "org.apache.hadoop:hadoop-aws:3.3.4"),
    ],
)
def test_packages_for_another_spark_are_refused(
    settings: dict[str, str], misfit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would fail at their first use, with a condition that names neither. A patch release fits."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    fitting = "org.apache.hadoop:hadoop-aws:3.5.1"
    packages = {"spark.jars.packages": f"a:b:1,{misfit},{fitting}"}
    with pytest.raises(SparkJarsError, match=f"--packages {misfit} does not fit Spark 4.2.0: name "):
        spark_session._jvm_settings({**settings, **packages}, needs_s3=True)
    assert "spark.jars" not in spark_session._jvm_settings({"spark.jars.packages": fitting}, needs_s3=True)


def test_spark_logs_only_errors_unless_logging_is_configured(nothing_given: Path) -> None:
    options = own_jvm({"spark.driver.extraJavaOptions": "-Xss4m"})
    assert options["spark.driver.extraJavaOptions"].startswith("-Xss4m -Dlog4j2.configurationFile=file:///")
    file = Path(urlsplit(options["spark.driver.extraJavaOptions"].partition("File=")[2]).path)
    assert "rootLogger.level = error" in file.read_text(encoding="utf-8")
    user_settings = {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine"}
    assert own_jvm(user_settings) == {}
    (nothing_given / "log4j2.properties").touch()
    assert own_jvm({}) == {}


def test_settings_that_spark_reads_itself_are_known(
    nothing_given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our defaults must not hide it."""
    assert spark_session._defaults_file() == {}
    (nothing_given / "spark-defaults.conf").write_text(
        "# ours\nspark.sql.shuffle.partitions   5\nspark.jars=a.jar\n", encoding="utf-8"
    )
    assert spark_session._defaults_file() == {"spark.sql.shuffle.partitions": "5", "spark.jars": "a.jar"}
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--master local[3] --jars 'a b.jar' --conf spark.x=1=2 --verbose pyspark-shell"
    )
    assert spark_session._submit_arguments() == {
        "spark.master": "local[3]",
        "spark.jars": "a b.jar",
        "spark.x": "1=2",
    }
