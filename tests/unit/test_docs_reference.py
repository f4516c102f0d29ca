"""The generated pages of docs/ are current: run ``make docs`` after a change of an endpoint or an error."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from authorizer.api.http.error_code import ErrorCode
from authorizer.cli import error_reference
from authorizer.sidecar import reference as http_reference
from authorizer.sidecar.app import NODE_OPERATIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", [error_reference, http_reference], ids=lambda page: page.FILE.name)
def test_generated_pages_are_current(page: ModuleType) -> None:
    assert (ROOT / page.FILE).read_text(encoding="utf-8") == page.reference(), "run: make docs"


def test_every_endpoint_is_listed() -> None:
    text = (ROOT / http_reference.FILE).read_text(encoding="utf-8")

    for method, path in NODE_OPERATIONS:
        assert f"\n## {method} {path}\n" in text


def test_every_error_code_has_an_entry() -> None:
    text = (ROOT / error_reference.FILE).read_text(encoding="utf-8")

    for code in ErrorCode:
        assert f"\n### `{code}`\n\nStatus {code.status.value}. " in text
