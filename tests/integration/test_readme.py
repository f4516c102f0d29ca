"""The README, read as a newcomer reads it: every command, in its order, in one shell and one empty folder.

What stands for something of the reader's own is put in: brokers for b1, b2 and b3, a directory for the
bucket, a free port for 8180.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import click
import pytest

from authorizer.cli.main import cli
from support.kafka_broker import HOST, free_ports
from support.kafka_cluster import KafkaCluster
from support.pasted_commands import commands, differences, run_pasted, section, shown_outputs

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


def expected_code(line: str) -> int:
    """The exit code that a comment behind the command names, else 0."""
    named = re.search(r"# exit code (\d)", line)
    return 0 if named is None else int(named[1])


def test_most_commands_show_their_output() -> None:
    """The first block has a request, its answer and the reason, above everything else."""
    text = README.read_text()
    (first, shown), *_ = shown_outputs(text)
    assert text.index("```text") < text.index("make run")
    assert first == [line for line in commands(section(text, "Ask")) if line.startswith("aclog check")]
    assert "ALLOWED" in shown[0]
    assert any("because" in line for line in shown)
    sections = ("Ask", "Your cluster", "Guard a change", "Run beside a gateway", "Inspect and recover")
    for heading in (*sections, "Snapshots, counts and history with Spark"):
        shown_commands = [line for lines, _ in shown_outputs(section(text, heading)) for line in lines]
        assert len(shown_commands) > len(commands(section(text, heading))) / 2, heading


def test_commands_take_the_options_that_the_table_has() -> None:
    text = section(README.read_text(), "Your cluster")
    named = re.search(r"that read ACLs \((.+?)\) take all", text)
    assert named is not None
    names = re.findall(r"`([\w-]+)`", named[1])
    assert len(names) > 5
    in_table = {*re.findall(r"^\|.*?\| `(--[\w-]+)", text, re.MULTILINE)}
    assert len(in_table) == 5
    for name in names:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert in_table <= {option for parameter in command.params for option in parameter.opts}, name


def test_a_difference_from_the_shown_output_is_found() -> None:
    shown = ["ALLOWED at 2026-11-27T22:57:44Z", "...", "  state  4 ACLs, digest ..."]
    printed = "ALLOWED at 2026-12-24T00:00:00Z\n{}state 4 ACLs, digest 52adce06\n"
    assert differences(shown, printed.format("")) == []
    assert differences(shown, printed.format("because\n\nof rules\n")) == []
    assert differences(shown, printed.format("").replace("ALLOWED", "DENIED"))
    assert differences(shown, printed.format("") + "more\n")
    assert differences(shown, printed.format("").replace("4 ACLs", "5 ACLs"))


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
    codes, parts = run_pasted(lines, tmp_path, f"{HOST}:{port}")
    outputs = dict(enumerate(parts))
    assert codes == {line: expected_code(line) for line in lines}, "".join(parts)[-4000:]

    printed = dict(zip(lines, parts, strict=False))
    for shown_commands, shown in shown_outputs(text):
        if not ELSEWHERE.keys() & {command.split("  ")[0] for command in shown_commands}:
            whole = "".join(printed[command] for command in shown_commands)
            assert differences(shown, whole) == [], shown_commands

    def output(begin: str) -> list[str]:
        return [outputs[number] for number, line in enumerate(lines) if line.startswith(begin)]

    assert [answer.split()[0] for answer in output("aclog check")] == ["ALLOWED", "ALLOWED"]
    (answer,) = output("curl")
    assert json.loads(answer)["decision"] is True
    assert (tmp_path / "acls.csv").read_text().count("\n") == 5  # a header, and four ACLs
    assert (tmp_path / "counts.png").stat().st_size > 0
    (in_force,) = output("aclog spark history in-force")
    assert "ALLOW User:alice READ on TOPIC:LITERAL:orders" in in_force
