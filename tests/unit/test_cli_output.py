"""The output of commands is safe on any terminal and in any locale."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from authorizer.cli.options import progress_option
from authorizer.cli.rendering.output import Progress, json_line, shown


@given(st.text(st.characters()))
def test_a_json_line_restores_any_text(text: str) -> None:
    """One line of UTF-8 that parses to the original text, also with lone surrogates."""
    line = json_line({"name": text})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line.decode("utf-8")) == {"name": text}


# Bidirectional marks, embeddings, overrides and isolates; the marks are in the class of letters.
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters() | st.sampled_from("\u2028\u2029\u202e\u2066\u2069\x1b\n")))
def test_shown_text_has_no_control_characters(text: str) -> None:
    """No name can move the cursor, colour the screen or end the line."""
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in shown(text))
    assert len(shown(text).splitlines()) <= 1
    assert not any(unicodedata.bidirectional(char) in DIRECTIONS for char in shown(text))


def test_shown_text_has_letters_of_all_scripts() -> None:
    """Only control characters are escaped."""
    assert shown("zaufgeräumt-日本-😀") == "zaufgeräumt-日本-😀"
    assert shown("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert shown("a\u2028b\u202ec\u200f\u061c") == "a\\u2028b\\u202ec\\u200f\\u061c"


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1", "C.UTF-8"])
def test_names_are_safe_in_every_locale(locale: str) -> None:
    """JSON stays UTF-8, text falls back to escapes; nothing fails."""
    code = (
        "import click, sys, authorizer.cli.main as main, authorizer.cli.rendering.output as output\n"
        "@click.command()\n"
        "def names():\n"
        "    name = '\\u65e5\\U0001f600'\n"  # the code itself must not depend on the locale
        "    output.print_json({'name': name}); click.echo(name)\n"
        "main.COMMANDS['names'] = None\n"
        "main.Commands.get_command = lambda *_: names\n"
        "main.main(['names'])\n"
    )
    environment = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": ""}
    if locale == "en_US.ISO-8859-1":  # not installed everywhere; this has the same effect
        environment["PYTHONIOENCODING"] = "latin-1"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    first, second = done.stdout.splitlines()
    assert json.loads(first.decode("utf-8")) == {"name": "日😀"}
    assert second in ("日😀".encode(), rb"\u65e5\U0001f600")


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A script's stderr has no progress without the flag."""
    with Progress("reading") as progress:
        progress._every_s = 0
        progress.at(1, 2)
    assert capsys.readouterr().err == ""


def test_progress_is_printed_with_the_flag() -> None:
    """--progress prints plain lines to stderr, never to stdout."""

    @click.command()
    @progress_option
    def command() -> None:
        with Progress("reading") as progress:
            progress._every_s = 0
            progress.at(1_000, 4_000)

    printed = CliRunner().invoke(command, ["--progress"])
    assert printed.stdout == ""
    assert printed.stderr.startswith("reading: 1,000 of 4,000 (25 %), ")
