"""docs/http.md names every error code of the sidecar."""

from __future__ import annotations

import re

from authorizer.api.http.error_code import ErrorCode
from support.data import TESTS

PAGE = (TESTS.parent / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_code_is_there() -> None:
    """In the table of errors, and no other."""
    table = PAGE.partition("| code | status |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([A-Z_]+)`", table)) == {code.value for code in ErrorCode}
