"""The root command: listing, help, and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from authorizer.cli import main as main_module
from authorizer.cli.command_name import COMMANDS
from authorizer.cli.main import cli
from records.errors import DecodeError
from support.cli_commands import command_at, every_command
from support.directory_logs import batch_bytes, write_segment

ACLOG = [sys.executable, "-m", "authorizer.cli"]


def test_the_commands_are_the_documented_ones() -> None:
    """The commands of docs/cli.md of this version, and their shell completion."""
    assert set(every_command()) == {
        ("quickstart",),
        ("connect",),
        ("check",),
        ("acls",),
        ("diff",),
        ("plan",),
        ("apply",),
        ("who-can",),
        ("what-can",),
        ("blame",),
        ("lint",),
        ("test",),
        ("report",),
        ("review",),
        ("shell",),
        ("serve",),
        ("completion",),
        ("log",),
        *(("log", name) for name in ("create", "dump", "append", "copy", "verify")),
        ("snapshot",),
        *(("snapshot", name) for name in ("list", "create", "verify", "import", "export")),
        ("token",),
        *(("token", name) for name in ("create", "list", "revoke")),
        ("credentials",),
        *(("credentials", name) for name in ("add", "list", "remove")),
        ("spark",),
        *(
            ("spark", name)
            for name in (
                "all",
                "snapshots",
                "counts",
                "changes",
                "doctor",
                "history",
                "maintain",
                "pack",
                "review",
                "sql",
                "submit-file",
            )
        ),
        *(("spark", "history", name) for name in ("in-force", "changes")),
    }


def test_the_listing_has_the_summary_of_each_command() -> None:
    """aclog --help shows the first line of each command's help, without importing it."""
    context = click.Context(cli)
    for name, place in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert place.summary == (command.help or "").partition("\n")[0]


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_help_text_has_a_summary_and_examples(path: tuple[str, ...]) -> None:
    """Every command explains itself; a group lists its commands instead of giving examples."""
    result = CliRunner().invoke(cli, [*path, "--help"])
    assert result.exit_code == 0
    if not isinstance(command_at(path), click.Group):
        assert "Examples:" in result.stdout
        assert f"aclog {' '.join(path)}" in result.stdout.partition("Examples:")[2]


@pytest.mark.parametrize("path", [(), *every_command()], ids=lambda path: " ".join(path) or "aclog")
def test_every_option_is_explained(path: tuple[str, ...]) -> None:
    """No option without a help text."""
    for param in command_at(path).params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help, param.name


def test_version_names_the_installed_version() -> None:
    assert CliRunner().invoke(cli, ["--version"], prog_name="aclog").stdout == f"aclog {version('aclog')}\n"


@pytest.mark.parametrize("args", [["nope"], ["log"], ["--nope"], ["acls", "--nope"], ["log", "nope"]])
def test_wrong_usage_has_exit_code_2(args: list[str]) -> None:
    """An unknown command or option, or a group alone, is wrong usage."""
    assert CliRunner().invoke(cli, args).exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DecodeError("bad"), 4),
        (KeyError("k"), 70),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (click.UsageError("u"), 2),
        (click.exceptions.Exit(1), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_exception_ends_in_an_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no traceback."""

    @click.command("fails")
    def fails() -> None:
        raise error

    monkeypatch.setattr(main_module.Commands, "get_command", lambda *_: fails)
    result = CliRunner().invoke(cli, ["fails"])
    assert result.exit_code == code
    assert "Traceback" not in result.output


def test_a_closed_pipe_ends_the_command_silently() -> None:
    """`aclog ... | head -0` ends with 141 and without a message, like other tools."""
    code = (
        "import click, time, authorizer.cli.main as main\n"
        "@click.command()\n"
        "def prints():\n"
        "    for _ in range(100_000): click.echo('x' * 80)\n"
        "main.Commands.get_command = lambda *_: prints\n"
        "main.main(['prints'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(60)
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.parametrize("command", ["--help", "--version", "check --help", "log dump --log {log}"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_fails_is_named(command: str, unbuffered: str, tmp_path: Path) -> None:
    """A full disk behind a redirection is neither bad data nor a DENIED."""
    write_segment(tmp_path, 0, batch_bytes(0, 200))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*ACLOG, *command.format(log=tmp_path).split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    assert done.returncode == 3
    assert "Error: standard output (/dev/full): writing failed: No space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_note_that_cannot_be_written_changes_no_answer(tmp_path: Path) -> None:
    """A broker's directory causes a note; the exit code remains that of the answer."""
    write_segment(tmp_path, 0, batch_bytes(0, 2))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*ACLOG, "acls", "--list", "--log", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    assert done.returncode == 0
    assert "topic-1" in done.stdout
