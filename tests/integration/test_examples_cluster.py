"""The example with three brokers tells its story to the end, and nothing in it is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("examples-cluster")]


@pytest.mark.long
def test_nothing_is_lost_and_all_nodes_agree() -> None:
    """A broker and a node are killed; every acknowledged ACL is in force everywhere; it ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.cluster"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "nothing acknowledged was lost, nothing removed came back, all nodes agree" in output
    # Each of them was really compared, and the second node really began at a snapshot.
    assert output.count("compared    equal to") == 3, output
    assert "snapshots it began at: 1" in output


def processes_of(home: Path) -> set[int]:
    """Those whose command line or environment names the directory: brokers, nodes and the example itself."""
    found = set()
    for process in Path("/proc").iterdir():
        try:
            process_text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if process.name.isdigit() and os.fsencode(home) in process_text:
            found.add(int(process.name))
    return found


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # a zombie has ended


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "when"),
    [
        (signal.SIGTERM, "is ready at"),
        (signal.SIGKILL, "is ready at"),
        (signal.SIGINT, "Three brokers are up"),
        (signal.SIGHUP, "Three brokers are up"),
    ],
)
def test_an_interrupted_run_leaves_no_process(number: signal.Signals, when: str, tmp_path: Path) -> None:
    """Brokers and nodes end with it, however it ends; all but a kill takes the directories away, too."""
    # A run of tests in the background of a shell ignores these signals, and so would its children.
    command = ["env", "--default-signal=INT,HUP", sys.executable, "-m", "examples.cluster"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env) as example:
        try:
            assert example.stdout is not None
            assert any(when in line for line in example.stdout)
            started = processes_of(tmp_path)
            assert len(started) >= 5  # a controller, three brokers, and this one
            example.send_signal(number)
            assert example.wait(120) == (-number if number is signal.SIGKILL else 128 + number)
        finally:
            example.kill()
    wait_until(lambda: not any(map(is_alive, started)), "the end of all processes")
    if number is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []
