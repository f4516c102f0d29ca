"""A cell of CSV is no formula, and comes back as the text that it was."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot.files.csv_cell import cell_of_text, text_of_cell

TEXTS = st.text(st.characters() | st.sampled_from("=+-@'\t\r\n\x1b \uff1d"))


@given(TEXTS)
def test_a_text_comes_back(text: str) -> None:
    """Whatever it begins with, quotation marks too; in a file as well."""
    assert text_of_cell(cell_of_text(text)) == text
    if text.isprintable():
        file = io.StringIO()
        csv.writer(file).writerow([cell_of_text(text), "end"])
        ((read, _),) = csv.reader(io.StringIO(file.getvalue()))
        assert text_of_cell(read) == text


@given(TEXTS)
def test_no_cell_begins_as_a_formula(text: str) -> None:
    """But for an id, of whose characters no formula can be made."""
    cell = cell_of_text(text)
    assert not cell.startswith(("=", "+", "@", "\t", "\r", "\uff1d"))
    assert not cell.startswith("-") or len(cell) == 22


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ('=HYPERLINK("http://evil")', '\'=HYPERLINK("http://evil")'),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("a\x1b[2J", "'a\x1b[2J"),
        ("'=1", "''=1"),
        ("'quoted'", "'quoted'"),
        ("User:=1", "User:=1"),
        ("*", "*"),
        ("", ""),
        ("-9lVtQrqQ8SgPcbXnO5v4A", "-9lVtQrqQ8SgPcbXnO5v4A"),
    ],
)
def test_cells(text: str, cell: str) -> None:
    assert cell_of_text(text) == cell
    assert text_of_cell(cell) == text
