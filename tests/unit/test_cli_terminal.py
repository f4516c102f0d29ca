"""Output on a terminal: wrapped lines, wrapped commands that can be pasted, tables."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from click import unstyle
from hypothesis import given
from hypothesis import strategies as st

from authorizer.cli.rendering.terminal import (
    UNKNOWN,
    Column,
    Row,
    bad,
    colour,
    good,
    table_lines,
    wrapped,
    wrapped_command,
)

WORDS = st.lists(st.text("ab-' $\"\\", min_size=1, max_size=30), min_size=1, max_size=12)


def test_a_line_breaks_between_words() -> None:
    """Continuation lines are indented, and runs of spaces, which align labels, do not change."""
    line = "  because     ACLs cover the resource, but none of them matches"
    assert wrapped(line, 40, 14).split("\n") == [
        "  because     ACLs cover the resource,",
        "              but none of them matches",
    ]


def test_a_pipe_gets_one_line() -> None:
    """A line of any length is not wrapped."""
    line = "word " * 100
    assert wrapped(line, None, 4) == line


def test_an_id_is_not_split() -> None:
    """A word longer than the screen is not split, so that users can copy it."""
    assert wrapped("digest bf5d654a6ef53028698747039fabd2eb", 20, 2).split("\n") == [
        "digest",
        "  bf5d654a6ef53028698747039fabd2eb",
    ]


def test_colours_take_no_room() -> None:
    """A styled line breaks where the plain one does."""
    plain, styled = f"{'DENIED'} by DefaultDeny at end", f"{bad('DENIED')} by DefaultDeny at end"
    assert unstyle(wrapped(styled, 22, 2)) == wrapped(plain, 22, 2) == "DENIED by DefaultDeny\n  at end"


@given(WORDS, st.integers(1, 60))
def test_a_wrapped_command_is_the_same_command(words: list[str], columns: int) -> None:
    """A shell reads the wrapped lines like the single line."""
    text = wrapped_command(words, columns, indent=4)
    assert shlex.split(text.replace("\\\n", "")) == words


def test_bash_reads_a_wrapped_command() -> None:
    """A flag and its value are on one line."""
    words = ["printf", "%s|", "--topic", "my topic", "--add", "--allow-principal", "User:al ice"]
    text = wrapped_command(words, 30)
    assert "--topic 'my topic'" in text
    assert "\\\n" in text
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "--topic|my topic|--add|--allow-principal|User:al ice|"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, None),
        ({"FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colour_depends_on_variables_and_stream(
    env: dict[str, str], expected: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR has precedence over FORCE_COLOR; otherwise the stream decides."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert colour() is expected


COLUMNS = (Column("STATE", -8), Column("COUNT", 6), Column("DIGEST", -1))
ROWS = [Row((good("valid"), "7", "d" * 12)), Row(("bad", "10", UNKNOWN), "a part is missing")]


def test_a_table_in_a_pipe_has_fixed_widths() -> None:
    """The width does not depend on the cells."""
    assert [unstyle(line) for line in table_lines(COLUMNS, ROWS, None)] == [
        "STATE     COUNT DIGEST",
        "valid         7 dddddddddddd",
        "bad          10 -",
        "    a part is missing",
    ]


def test_a_table_on_a_terminal_has_narrow_columns() -> None:
    """Cells without room follow below with their column name; nothing is truncated or empty."""
    assert [unstyle(line) for line in table_lines(COLUMNS, ROWS, 80)][1] == "valid     7 dddddddddddd"
    assert [unstyle(line) for line in table_lines(COLUMNS, ROWS, 20)] == [
        "STATE COUNT",
        "valid     7",
        "    digest dddddddddddd",
        "bad      10",
        "    a part is\n    missing",
    ]
