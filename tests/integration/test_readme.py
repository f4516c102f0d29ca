"""The README, read as a newcomer reads it: every command, in its order, in one shell and one empty folder.

What stands for something of the reader's own is put in: brokers for b1, b2 and b3, a directory for the
bucket, a free port for 8180.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.kafka_broker import HOST, free_ports
from support.kafka_cluster import KafkaCluster
from support.pasted_commands import commands, run_pasted, section

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("broker")]

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
#: What is not run here, and which test looks at it. Compose needs images: its file is checked.
ELSEWHERE = {
    ".venv/bin/python -m examples.cluster": "tests/integration/test_examples_cluster.py",
    "docker compose up": "tests/unit/test_deploy_files.py",
    **dict.fromkeys(
        commands(section(README.read_text(), "Your cluster")), "tests/integration/test_cli_first_hour.py"
    ),
}


def test_commands_that_are_not_run_have_another_test() -> None:
    """And stands in the README still."""
    first_words = [command.split("  ")[0] for command in commands(README.read_text())]
    for command, test in ELSEWHERE.items():
        assert command in first_words
        assert (ROOT / test).exists()


@pytest.mark.long
def test_every_command_runs_in_order(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Nothing is missing between two of them, and each does what the text around it says."""
    (port,) = free_ports(1)
    text = README.read_text()
    for placeholder, value in (
        ("$PWD/.venv/bin", str(Path(sys.executable).parent)),
        ("b1:9092,b2:9092,b3:9092", cluster.bootstrap_servers),
        ("s3://bucket/aclog", str(tmp_path / "bucket")),
        ("localhost:8180", f"{HOST}:{port}"),
    ):
        assert placeholder in text
        text = text.replace(placeholder, value)
    lines = [line for line in commands(text) if line.split("  ")[0] not in ELSEWHERE]
    codes, parts, stderr = run_pasted(lines, tmp_path, f"{HOST}:{port}")
    outputs = dict(enumerate(parts))
    assert codes == dict.fromkeys(lines, 0), stderr[-4000:]

    def output(begin: str) -> list[str]:
        return [outputs[number] for number, line in enumerate(lines) if line.startswith(begin)]

    assert [answer.split()[0] for answer in output("aclog check")] == ["ALLOWED", "ALLOWED"]
    (answer,) = output("curl")
    assert json.loads(answer)["decision"] is True
    assert (tmp_path / "acls.csv").read_text().count("\n") == 4  # a header, and three ACLs
    assert (tmp_path / "counts.png").stat().st_size > 0
    (in_force,) = output("aclog spark history in-force")
    assert "ALLOW User:alice READ on TOPIC:LITERAL:orders" in in_force
