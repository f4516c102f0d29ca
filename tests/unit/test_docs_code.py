"""Python blocks of the documents run, and their command lines have existing commands and options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from authorizer.cli.main import cli
from support.data import TESTS

ROOT = TESTS.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
)
COMMAND = re.compile(r"^\s*\$ (aclog (?:[^\n]|(?<=\\)\n)*)", re.MULTILINE)
#: In guides and runbooks indented lines are commands, too, and so are code spans.
IN_GUIDES = re.compile(r"^    (aclog (?:[^\n]|(?<=\\)\n)*)|`(aclog [^`\n]+)`", re.MULTILINE)


def test_python_blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the project's root, in the order of the README."""
    monkeypatch.chdir(ROOT)
    document = Sybil(parsers=[PythonCodeBlockParser()]).parse(ROOT / "README.md")
    examples = list(document.examples())
    assert examples
    for example in examples:
        example.evaluate()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_in_documents_exist(document: Path) -> None:
    """Every command line names a command, and only options of that command."""
    text = document.read_text(encoding="utf-8")
    lines = COMMAND.findall(text)
    if document.parent.name == "how-to" or document.name == "runbooks.md":
        lines += [line or span for line, span in IN_GUIDES.findall(text)]
    for line in lines:
        words = shlex.split(line.replace("\\\n", " "), comments=True)[1:]
        command: click.Command = cli
        while isinstance(command, click.Group) and words:
            word = words.pop(0)
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"{line}: no command {word}"
            command = found
        options = {
            option for parameter in command.params for option in parameter.opts + parameter.secondary_opts
        }
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in options, f"{line}: no option {word}"


def test_the_readme_shows_commands() -> None:
    """The check above is not empty."""
    assert len(COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 5
