"""`aclog spark doctor` in a running Spark: its executors, and Hadoop's file systems."""

from __future__ import annotations

import json
import platform
import socket
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from authorizer.cli.main import cli
from snapshot.errors import SnapshotError
from snapshot.jobs.running.diagnosis import clocks, executors, probe_with_hadoop

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark")]


def test_observations(spark: SparkSession, tmp_path: Path) -> None:
    """Executors name their host and interpreter; both ways to probe a location leave nothing."""
    (tmp_path / "file").write_text("")
    bad = f"file://{tmp_path}/file/store"
    (good,) = executors(spark, [f"file://{tmp_path}/new", bad])
    assert (good.host, good.interpreter) == (socket.gethostname(), sys.executable)
    assert good.python == platform.python_version()
    assert good.import_errors == ()
    ((store, error),) = good.store_errors
    assert store == bad
    assert "Not a directory" in error
    files = [("here", str(tmp_path / "file")), ("elsewhere", str(tmp_path / "missing"))]
    files.append(("below a file", f"{tmp_path}/file/missing"))
    (seeing,) = executors(spark, [], files=files)
    assert seeing.invisible == ("elsewhere", "below a file")
    ((host, bounds),) = clocks(spark).items()
    assert host == good.host
    assert bounds.low <= 0 <= bounds.high
    (lacking,) = executors(spark, [], modules=("no_such_package", "json"))
    assert lacking.import_errors == ("No module named 'no_such_package'",)

    assert abs(probe_with_hadoop(spark, f"file://{tmp_path}/new") - time.time()) < 60
    with pytest.raises(SnapshotError, match="cannot write and read file:"):
        probe_with_hadoop(spark, bad)
    with pytest.raises(SnapshotError, match="No FileSystem for scheme"):
        probe_with_hadoop(spark, "unknown://host/x")

    flags = ["--output", str(tmp_path / "new"), "--checkpoint", str(tmp_path / "checkpoint"), "--json"]
    done = CliRunner().invoke(cli, ["spark", "doctor", *flags])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["findings"] == []
    # Its master is local: nothing else is compared.
    assert [(each["host"], each["clock_ahead_s"]) for each in answer["executors"]] == [
        (socket.gethostname(), None)
    ]
    assert answer["driver"]["pyspark"] == spark.version
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
