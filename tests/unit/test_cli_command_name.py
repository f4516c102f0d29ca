"""aclog's own name, as it can be pasted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from authorizer.cli.command_name import as_pasted, command_line, command_words


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed aclog that is not on the PATH, in the current directory's bin."""
    made = tmp_path / "bin" / "aclog"
    made.parent.mkdir()
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return made


def started_as(monkeypatch: pytest.MonkeyPatch, *argv: str) -> None:
    monkeypatch.setattr(sys, "argv", list(argv))


def test_on_the_path(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    started_as(monkeypatch, str(script), "check")
    assert command_words() == ("aclog",)


@pytest.mark.parametrize("typed", ["bin/aclog", "./bin/aclog"])
def test_as_it_was_typed(typed: str, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started_as(monkeypatch, typed)
    assert command_words() == ("bin/aclog",)


def test_in_the_directory_itself(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell needs the ./ that a path does without."""
    monkeypatch.chdir(script.parent)
    started_as(monkeypatch, "./aclog")
    assert command_words() == ("./aclog",)


def test_another_aclog_on_the_path(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the PATH finds is another one: the name alone would run that."""
    other = script.parent.parent / "other"
    other.mkdir()
    (other / "aclog").write_text("#!/bin/sh\n")
    (other / "aclog").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    started_as(monkeypatch, str(script))
    assert command_words() == (str(script),)


def test_a_script_beside_it(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another name its hints are about aclog all the same."""
    started_as(monkeypatch, "bin/aclog-kafka-acls")
    assert command_words() == ("bin/aclog",)


def test_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python3", "-m", "authorizer.cli", "check"])
    started_as(monkeypatch, "/somewhere/authorizer/cli/__main__.py", "check")
    assert command_line(["log", "verify"]) == "python3 -m authorizer.cli log verify"


@pytest.mark.parametrize("program", ["/usr/bin/pytest", "/x/submit/aclog.py", ""])
def test_inside_another_program(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started_as(monkeypatch, program)
    assert command_words() == ("aclog",)


def test_commands_in_a_text(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, and not the name of the program or a path that ends with it."""
    started_as(monkeypatch, "bin/aclog")
    text = "aclog knows: `aclog log verify`, /opt/aclog log, and aclog's own; aclog check --explain"
    assert as_pasted(text) == (
        "aclog knows: `bin/aclog log verify`, /opt/aclog log, and aclog's own; bin/aclog check --explain"
    )
