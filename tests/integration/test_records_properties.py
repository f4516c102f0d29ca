"""Properties files as java.util.Properties reads them."""

from __future__ import annotations

import base64
import re
import subprocess
from random import Random

import pytest

from records.properties import escape_property, parse_properties
from support.data import TESTS

PROGRAM = TESTS / "support" / "LoadProperties.java"
# What the format is made of, and little else, so that it meets in every way.
LETTERS = " \t\f\r\n\\\\\\=:#!abu0té😀"
PIECES = (*LETTERS, "\r\n", "\\u", "\\u0041", "\\uD83D\\uDE00", "\\ud83d")
# Of a last line that is nothing but a backslash Java makes an empty key, or none, as the line's end has it.
LONE_BACKSLASH = re.compile(r"(\A|[\r\n])[ \t\f]*\\(\r\n|\r|\n)?\Z")
TEXTS = 5_000


def texts(random: Random) -> list[str]:
    made = ("".join(random.choices(PIECES, k=random.randrange(1, 25))) for _ in range(TEXTS))
    return [text for text in made if not LONE_BACKSLASH.search(text)]


def found_by_java(given: list[str]) -> list[dict[str, str] | None]:
    lines = [base64.b64encode(text.encode("utf-16-be", "surrogatepass")).decode() for text in given]
    done = subprocess.run(
        ["java", str(PROGRAM)], input="\n".join(lines), capture_output=True, text=True, check=True, timeout=60
    )
    return [None if line == "refused" else pairs(line) for line in done.stdout.split("\n")[:-1]]


def pairs(line: str) -> dict[str, str]:
    words = [bytes.fromhex(word[1:]).decode("utf-16-be", "surrogatepass") for word in line.split()]
    return dict(zip(words[::2], words[1::2], strict=True))


def found_by_us(text: str) -> dict[str, str] | None:
    try:
        return parse_properties(text)
    except ValueError:
        return None


@pytest.mark.integration
def test_properties_are_read_as_in_java() -> None:
    """Whatever the text is: the same pairs, or refused by both."""
    given = texts(Random(1))  # the same ones each time
    theirs = found_by_java(given)
    assert [found_by_us(text) for text in given] == theirs
    assert sum(found is None for found in theirs) > TEXTS / 20
    assert sum(len(found or ()) > 1 for found in theirs) > TEXTS / 20


@pytest.mark.integration
def test_java_reads_escaped_properties() -> None:
    """A key and a text of any characters come back, from there and from here."""
    random = Random(2)
    values = ["".join(random.choices(" \t\f\r\n\\=:#!aé😀\x00\x7f\u2028", k=12)) for _ in range(500)]
    given = [f"{escape_property(value)}={escape_property(value)}\n" for value in values]
    assert all(text.isascii() for text in given)
    expected: list[dict[str, str] | None] = [{value: value} for value in values]
    assert found_by_java(given) == expected
    assert [found_by_us(text) for text in given] == expected
