"""Settings of Hadoop's S3A: those of s3fs, and of the user where there are some. No test starts Spark."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import fsspec
import pytest
from pyspark.sql import SparkSession

from snapshot.errors import SparkJarsError
from snapshot.jobs.session import s3a, spark_session
from snapshot.store.object_store import is_s3


class Settings(dict[str, tuple[str, str]]):
    """Hadoop's Configuration: values and where they come from."""

    def getPropertySources(self, key: str) -> list[str] | None:  # noqa: N802 - Java's name
        return [self[key][1]] if key in self else None

    def set(self, key: str, value: str, source: str) -> None:
        self[key] = (value, source)


@pytest.fixture(autouse=True)
def no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the user, and no connection of an earlier test."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def configured(**given: tuple[str, str]) -> dict[str, str]:
    """The settings after configure_s3a, by their names' last part."""
    settings = Settings({f"fs.s3a.{name}": value for name, value in given.items()})
    context = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: settings))
    s3a.configure_s3a(cast("SparkSession", SimpleNamespace(sparkContext=context)))
    return {key.removeprefix("fs.s3a."): value for key, (value, _) in settings.items()}


def test_endpoint_region_and_credentials_are_those_of_s3fs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable for S3 alone has priority, as in botocore; Spark itself knows only the other one."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://other:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = configured(endpoint=("http://other:1", "Set by Spark on host from AWS_ENDPOINT_URL"))
    assert found["endpoint"] == "http://127.0.0.1:9000"
    assert found["endpoint.region"] == "eu-west-1"
    assert (found["access.key"], found["secret.key"]) == ("key", "secret")
    assert found["path.style.access"] == "true"
    assert "session.token" not in found


def test_settings_of_the_user_have_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    found = configured(
        endpoint=("http://mine", "Set by Spark from keys starting with 'spark.hadoop'"),
        **{"aws.credentials.provider": ("core", "core-default.xml")},
    )
    assert found["endpoint"] == "http://mine"
    assert found["aws.credentials.provider"].endswith(".DefaultCredentialsProvider")
    assert found["fs.s3.impl"] == s3a.FILE_SYSTEM


def test_amazons_endpoint_and_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S3A finds Amazon's endpoint by the region, also that of a profile."""
    config = tmp_path / "config"
    config.write_text("[profile audit]\nregion = eu-central-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "audit")
    found = configured()
    assert found["endpoint.region"] == "eu-central-1"
    assert {"endpoint", "access.key"}.isdisjoint(found)


def test_the_jars_are_added_only_where_spark_uses_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars of the user are respected: none is fetched."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv(s3a.DIRECTORY_VARIABLE, "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "x")
    given = {"spark.jars.packages": s3a.PACKAGE}
    assert "spark.jars" not in spark_session._jvm_settings(given, needs_s3=True)
    with pytest.raises(SparkJarsError, match="need these jars"):
        spark_session._jvm_settings({}, needs_s3=True)
    assert [is_s3(url) for url in ("s3://b", "s3a://b/x", "gs://b", "/s3", "file:///s3://b")] == [
        *(True, True, False, False, False)
    ]


@pytest.mark.parametrize("given", [None, "org.example.Manager"])
def test_local_checkpoints_need_no_session_of_their_own(given: str | None) -> None:
    """But a manager that starts no processes, unless the user has set one."""
    settings = SimpleNamespace(get=lambda key: s3a.FILE_SYSTEM)
    context = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: settings))
    conf = {} if given is None else {s3a._CHECKPOINT_MANAGER: given}
    spark: Any = SimpleNamespace(
        sparkContext=context, conf=SimpleNamespace(get=conf.get, set=conf.__setitem__)
    )
    for _ in range(2):
        assert s3a.checkpoint_session(spark, "file:///tmp/c") == (spark, "file:///tmp/c")
        assert conf[s3a._CHECKPOINT_MANAGER].endswith(given or ".FileSystemBasedCheckpointFileManager")
