"""The limits of quarantine: at most three tests, each with an issue and a date at most seven days ahead."""

from __future__ import annotations

import ast
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MAXIMUM = 3
LONGEST = timedelta(days=7)
TODAY = datetime.now(UTC).date()


def quarantines(source: str) -> list[dict[str, object]]:
    """The arguments of each `pytest.mark.quarantine(...)` in a module."""
    return [
        {keyword.arg or "**": ast.literal_eval(keyword.value) for keyword in node.keywords}
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "quarantine"
    ]


def problems(arguments: dict[str, object], today: date) -> list[str]:
    """What is wrong with the arguments of one mark."""
    found = [f"no {name}" for name in ("issue", "until") if name not in arguments]
    if found:
        return found
    if not isinstance(arguments["issue"], int):
        found.append("issue is not a number")
    until = date.fromisoformat(str(arguments["until"]))
    if until < today:
        found.append("the date has passed")
    if until > today + LONGEST:
        found.append("the date is more than seven days ahead")
    return found


def test_the_quarantined_tests_are_few_and_each_has_an_issue_and_a_near_date() -> None:
    found = {
        f"{path.relative_to(TESTS)}: {arguments}": problems(arguments, TODAY)
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__)
        if "quarantine" in (source := path.read_text(encoding="utf-8"))
        for arguments in quarantines(source)
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert len(found) <= MAXIMUM, list(found)


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("quarantine(issue=31, until='2026-11-30')", []),
        ("quarantine(issue=31, until='2026-12-01')", []),
        ("quarantine(issue=31, until='2026-12-02')", ["the date is more than seven days ahead"]),
        ("quarantine(issue=31, until='2026-11-23')", ["the date has passed"]),
        ("quarantine(issue='soon', until='2026-11-24')", ["issue is not a number"]),
        ("quarantine()", ["no issue", "no until"]),
    ],
)
def test_a_mark_that_breaks_a_limit_is_found(mark: str, expected: list[str]) -> None:
    source = f"@pytest.mark.{mark}\ndef test_that_fails_now_and_then() -> None: ...\n"
    (arguments,) = quarantines(source)
    assert problems(arguments, date(2026, 11, 24)) == expected
