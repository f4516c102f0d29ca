"""The name of the aclog command in texts that users paste."""

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


def test_a_command_on_the_path_has_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    started_as(monkeypatch, str(script), "check")
    assert command_words() == ("aclog",)


@pytest.mark.parametrize("typed", ["bin/aclog", "./bin/aclog"])
def test_another_command_has_the_typed_path(
    typed: str, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_as(monkeypatch, typed)
    assert command_words() == ("bin/aclog",)


def test_a_command_in_the_current_directory_has_a_dot_slash(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell needs the ./ prefix."""
    monkeypatch.chdir(script.parent)
    started_as(monkeypatch, "./aclog")
    assert command_words() == ("./aclog",)


def test_a_command_hidden_by_another_on_the_path_has_its_path(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone would run the other one."""
    other = script.parent.parent / "other"
    other.mkdir()
    (other / "aclog").write_text("#!/bin/sh\n")
    (other / "aclog").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    started_as(monkeypatch, str(script))
    assert command_words() == (str(script),)


def test_a_script_with_another_name_names_the_installed_aclog(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hints name aclog, not the script."""
    started_as(monkeypatch, "bin/aclog-kafka-acls")
    assert command_words() == ("bin/aclog",)


def test_a_module_is_named_with_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python3", "-m", "authorizer.cli", "check"])
    started_as(monkeypatch, "/somewhere/authorizer/cli/__main__.py", "check")
    assert command_line(["log", "verify"]) == "python3 -m authorizer.cli log verify"


@pytest.mark.parametrize("program", ["/usr/bin/pytest", "/x/submit/aclog.py", ""])
def test_another_program_gets_the_plain_name(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started_as(monkeypatch, program)
    assert command_words() == ("aclog",)


def test_commands_in_a_text_are_replaced(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only commands are replaced, not the name of the program or a path that ends with it."""
    started_as(monkeypatch, "bin/aclog")
    text = "aclog knows: `aclog log verify`, /opt/aclog log, and aclog's own; aclog check --explain"
    assert as_pasted(text) == (
        "aclog knows: `bin/aclog log verify`, /opt/aclog log, and aclog's own; bin/aclog check --explain"
    )
