"""The generated pages of docs/ are current: ``make docs`` was run after a change of what they describe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from authorizer.api.http.error_code import ErrorCode
from authorizer.cli.reference import COMMANDS_FILE, ERRORS_FILE, commands_page, errors_page
from authorizer.sidecar import reference as http_reference
from authorizer.sidecar.app import NODE_OPERATIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("file", "page"),
    [
        (COMMANDS_FILE, commands_page),
        (ERRORS_FILE, errors_page),
        (http_reference.FILE, http_reference.reference),
    ],
    ids=["cli", "errors", "http-endpoints"],
)
def test_generated_pages_are_current(file: Path, page: Callable[[], str]) -> None:
    assert (ROOT / file).read_text(encoding="utf-8") == page(), "run: make docs"


def test_every_endpoint_is_listed() -> None:
    text = (ROOT / http_reference.FILE).read_text(encoding="utf-8")

    for method, path in NODE_OPERATIONS:
        assert f"\n## {method} {path}\n" in text


def test_every_error_code_has_an_entry() -> None:
    text = (ROOT / ERRORS_FILE).read_text(encoding="utf-8")

    for code in ErrorCode:
        assert f"\n### `{code}`\n\nStatus {code.status.value}. " in text
