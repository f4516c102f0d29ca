"""docs/tutorial.md against a real broker: every command, in its order, in one shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.kafka_broker import HOST, free_ports, jar_broker
from support.kafka_tools import run_java
from support.pasted_commands import commands, script

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("broker")]

TIMEOUT_S = 600
ROOT = Path(__file__).parents[2]
ACLS = (
    ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"),
    ("--allow-principal", "User:alice", "--operation", "Describe", "--topic", "orders"),
)


def test_every_command_of_the_tutorial_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (port,) = free_ports(1)
    with jar_broker() as broker:
        for acl in ACLS:
            server = ("--bootstrap-server", broker.bootstrap_servers)
            run_java("org.apache.kafka.tools.AclCommand", *server, "--add", *acl)
        text = text.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
        text = text.replace("b1:9092", broker.bootstrap_servers).replace("localhost:8180", f"{HOST}:{port}")
        lines = commands(text)
        done = subprocess.run(
            ["bash", "-c", script(lines)],
            cwd=tmp_path,
            env={
                **os.environ,
                "ACLOG_LISTENERS": f"PLAINTEXT://{HOST}:{port}",
                "PYTHON": sys.executable,
                "READY": f"http://{HOST}:{port}/readyz",
            },
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    parts = re.split(r"^#(\d+) (\d+)$\n?", done.stdout, flags=re.MULTILINE)
    outputs = [part.strip() for part in parts[0::3]]
    codes = {lines[int(number)]: int(code) for number, code in zip(parts[1::3], parts[2::3], strict=True)}
    # The redundant ACL is a finding, and the plan has a change.
    assert {line.split()[1]: code for line, code in codes.items() if code} == {"lint": 1, "plan": 1}, (
        done.stderr
    )
    found = dict(zip(lines, outputs, strict=False))
    (checked,) = (output for line, output in found.items() if line.startswith("aclog check"))
    assert checked.startswith("ALLOWED")
    (answer,) = (output for line, output in found.items() if line.startswith("curl"))
    assert json.loads(answer)["decision"] is True
