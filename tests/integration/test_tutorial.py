"""docs/tutorial.md against a real broker: every command, in its order, in one shell."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support.kafka_broker import HOST, free_ports, jar_broker
from support.kafka_tools import run_java
from support.pasted_commands import commands, run_pasted

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("broker")]

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
        codes, outputs = run_pasted(lines, tmp_path, f"{HOST}:{port}")
    # The redundant ACL is a finding, and the plan has a change.
    assert {line.split()[1]: code for line, code in codes.items() if code} == {"lint": 1, "plan": 1}, outputs
    found = dict(zip(lines, outputs, strict=False))
    (checked,) = (output for line, output in found.items() if line.startswith("aclog check"))
    assert re.search("^ALLOWED", checked, re.MULTILINE)
    (answer,) = (output for line, output in found.items() if line.startswith("curl"))
    assert json.loads(answer)["decision"] is True
