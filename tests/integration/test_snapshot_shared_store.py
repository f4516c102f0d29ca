"""Several nodes with one snapshot store, which must contain only complete snapshots."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from snapshot.store.layout import MANIFEST_NAME
from snapshot.store.retention import WRITING_S
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SnapshotState
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, running_node
from support.snapshots import CLUSTER, IDENTITY, image_of

ROOT = Path(__file__).resolve().parents[2]
#: ACLs, each of which makes every node write a snapshot.
CHANGES = 40
#: Writes snapshots of one row a part, for ever.
WRITER = """
import sys
from snapshot.store.snapshot_store import SnapshotStore
from support.snapshots import IDENTITY, image_of
store = SnapshotStore(sys.argv[1], rows_per_part=1)
for number in range(100, 1_000_000):
    print("writing", flush=True)
    store.write(image_of(*range(number)), IDENTITY, log_end_time_ms=1)
"""


def litter(store: Path) -> list[str]:
    """Files that no manifest beside them names."""
    found = []
    for directory in store.glob("*/*"):
        manifest = directory / MANIFEST_NAME
        parts = json.loads(manifest.read_text())["parts"] if manifest.exists() else []
        named = {MANIFEST_NAME, *(part["name"] for part in parts)}
        found += [f"{directory.name}/{path.name}" for path in directory.iterdir() if path.name not in named]
    return found


def verify(store: Path) -> tuple[int, str]:
    """Exit code and output of `aclog snapshot verify`."""
    result = CliRunner().invoke(cli, ["snapshot", "verify", "--snapshots", str(store)])
    return result.exit_code, result.output


@pytest.mark.slow
def test_three_busy_nodes_leave_only_complete_snapshots(tmp_path: Path) -> None:
    """All write the same snapshots at the same time, and each removes old ones behind the others' backs."""
    log, store = tmp_path / "log", tmp_path / "store"
    with ExitStack() as nodes:
        writer, *_ = (
            nodes.enter_context(running_node(log, log_mode=mode, snapshot_store=store, snapshot_max_bytes=1))
            for mode in ("create", "read", "read")
        )
        for number in range(CHANGES):
            create(writer, [topic_acl(f"t-{number}")])
            # A look in the middle of it all finds nothing damaged either.
            if number % 10 == 9:
                assert verify(store)[0] == 0, verify(store)[1]
        cluster_id = writer.log.identity.cluster_id
    statuses = SnapshotStore(store).survey(cluster_id)
    assert {status.state for status in statuses} == {SnapshotState.COMPLETE}, statuses
    assert litter(store) == []
    assert verify(store)[0] == 0


@pytest.mark.slow
def test_the_next_snapshot_removes_the_remains_of_killed_writers(tmp_path: Path) -> None:
    """Parts without a manifest, and half written files: minutes later another node removes them."""
    for delay_s in (0.0, 0.02, 0.05, 0.1, 0.2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            cwd=ROOT / "tests",
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        time.sleep(delay_s)  # the kill comes at any point of the writer
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=SOON_S)
    assert litter(tmp_path), "no writer was killed in the middle of a snapshot"
    # Nobody knows yet that the writers are dead.
    assert verify(tmp_path)[0] == 0, verify(tmp_path)[1]
    minutes_later = SnapshotStore(tmp_path, clock_s=lambda: time.time() + WRITING_S + 1)
    minutes_later.write(image_of(*range(50)), IDENTITY, log_end_time_ms=1)
    assert litter(tmp_path) == []
    assert {status.state for status in minutes_later.survey(CLUSTER)} == {SnapshotState.COMPLETE}
    assert verify(tmp_path)[0] == 0
