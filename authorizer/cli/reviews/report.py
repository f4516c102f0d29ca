"""What a review prints: its coverage, what goes and what stays, and the plan that leads there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from authorizer.acl_json import acl_json
from authorizer.cli.output import JsonLines, answer, json_line, shown, utc
from authorizer.cli.table import UNKNOWN, Column, Row, table_lines
from authorizer.cli.terminal import bad, doubtful, good, width
from records.ids import uuid_to_string
from snapshot.files.atomic_file import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from authorizer.analysis.review import Answers, Review
    from authorizer.cli.sets.source import AclSet
    from records.entries import AccessControlEntryRecord
    from records.request_line import Request
    from records.request_traffic import Coverage, Window

_LABEL: Final = 10
_COLUMNS: Final = (
    Column("ACL", -6),
    Column("WHY", -14),
    Column("PERMISSION", -10),
    Column("OPERATION", -16),
    Column("RESOURCE", -40),
    Column("PRINCIPAL", -24),
    Column("HOST", -15),
    Column("REQUESTS", 8),
)


class Report(NamedTuple):
    """A review of one set of ACLs; of a fleet that of ``cluster``."""

    acls: AclSet
    found: Review
    coverage: Coverage
    window: Window
    cluster: str | None = None

    def plan(self) -> Iterator[dict[str, Any]]:
        """What leads to the set that is needed, as ``aclog diff --json`` says it."""
        for each in self.found.unneeded:
            yield {"acl": "removed"} | acl_json(each.acl)

    def to_json(self) -> Iterator[dict[str, Any]]:
        """The plan, then why; what stays; what is answered otherwise now; and what all of that is of."""
        of_cluster = {} if self.cluster is None else {"cluster": self.cluster}
        for line in self._lines():
            yield of_cluster | line

    def _lines(self) -> Iterator[dict[str, Any]]:
        found, coverage = self.found, self.coverage
        yield from self.plan()
        for each in found.unneeded:
            yield {"review": "unneeded", "id": uuid_to_string(each.acl.id), "why": each.why}
        for kept in found.kept:
            example = None if kept.example is None else _request_json(kept.example)
            yield {
                "review": "kept",
                "why": kept.why,
                "requests": kept.requests,
                "example": example,
                "acl": acl_json(kept.acl),
            }
        for turned in found.turned:
            yield {
                "review": "turned",
                "request": _request_json(turned.request),
                "decisions": turned.decisions,
                "before": _result(not turned.is_allowed_now),
                "now": _result(turned.is_allowed_now),
            }
        least = found.least
        yield {
            "review": "summary",
            "acls": self.acls.name,
            "aclsUnneeded": len(found.unneeded),
            "aclsKept": len(found.kept),
            "least": "narrowest" if least is None else "fewest",
            "exact": least is None or not least.guessed,
            "allowedByAcls": _answers_json(found.by_acls),
            "allowedToSuperUsers": _answers_json(found.by_super_users),
            "allowedByDefault": _answers_json(found.by_default),
            "denied": _answers_json(found.denied),
            "turned": len(found.turned),
            "since": _time(self.window.since_ms),
            "until": _time(self.window.until_ms),
            "first": _time(coverage.first_ms),
            "last": _time(coverage.last_ms),
            "lines": coverage.lines,
            "requests": coverage.requests,
            "outside": coverage.outside,
            "untimed": coverage.untimed,
            "other": coverage.other,
            "notUnderstood": coverage.not_understood,
            "badLines": coverage.bad_lines,
            "sampled": coverage.sampled,
        }

    def print(self) -> None:
        """The same for people."""
        if self.cluster is not None:
            _labelled("cluster", shown(self.cluster))
        self._print_coverage()
        found = self.found
        for label, answers in (
            ("by ACLs", found.by_acls),
            ("by super users", found.by_super_users),
            ("by default", found.by_default),
        ):
            if answers.requests:
                _labelled("allowed", f"{label}: {_counted(answers)}")
        _labelled("denied", _counted(found.denied))
        for turned in found.turned:
            result = bad("denied now") if not turned.is_allowed_now else doubtful("allowed now")
            before = "denied" if turned.is_allowed_now else "allowed"
            what = f"{_request(turned.request)}, {turned.decisions:,} times {before}"
            _labelled("turned", f"{result}: {shown(what)}")
        unneeded, kept = len(found.unneeded), len(found.kept)
        goes = doubtful(f"{unneeded:,} could go") if unneeded else good("none could go")
        _labelled(
            "ACLs", f"{unneeded + kept:,} in {shown(self.acls.name)}: {goes}, {kept:,} stay, {self._least()}"
        )
        rows = [_row(bad("goes"), each.why, each.acl, UNKNOWN) for each in found.unneeded]
        for stays in found.kept:
            requests = f"{stays.requests:,}" if stays.why == "needed" else UNKNOWN
            remark = None if stays.example is None else f"for {shown(_request(stays.example))}"
            rows.append(_row(good("stays"), stays.why, stays.acl, requests, remark))
        if rows:
            for line in table_lines(_COLUMNS, rows, width()):
                click.echo(line)

    def write_plan(self, path: Path) -> None:
        """For ``aclog plan``."""
        with atomic_write(path) as file:
            for line in self.plan():
                file.write(json_line(line))

    def _print_coverage(self) -> None:
        coverage = self.coverage
        span = f"{_time(coverage.first_ms) or 'unknown'} to {_time(coverage.last_ms) or 'unknown'}"
        _labelled("window", f"{span}: {coverage.requests:,} requests in {coverage.lines:,} lines")
        for count, what in (
            (coverage.outside, "lines are before or behind it"),
            (coverage.untimed, "lines have no time, and are left out"),
            (coverage.other, "lines are not about requests"),
            (coverage.not_understood, f"lines were not understood: {'; '.join(coverage.bad_lines)}"),
        ):
            if count:
                _labelled("", f"{count:,} {shown(what)}")
        if coverage.sampled:
            what = f"{coverage.sampled:,} events are a sample: requests that it left out are not known"
            _labelled("", doubtful(what))

    def _least(self) -> str:
        least = self.found.least
        if least is None:
            return "the narrowest that allow all that was allowed"
        if not least.guessed:
            return "the fewest that allow all that was allowed"
        return (
            "few that allow all that was allowed: "
            f"in {least.guessed:,} of {least.groups:,} groups of requests fewer may do"
        )


def _labelled(label: str, text: str) -> None:
    answer(f"{label:{_LABEL}}{text}", _LABEL)


def _counted(answers: Answers) -> str:
    return f"{answers.decisions:,} requests, {answers.requests:,} different"


def _row(goes: str, why: str, acl: AccessControlEntryRecord, requests: str, remark: str | None = None) -> Row:
    known = acl_json(acl)
    star = "*" if known["patternType"] == "PREFIXED" else ""
    cells = (
        why,
        known["permissionType"],
        known["operation"],
        f"{known['resourceType']} {known['resourceName']}{star}",
        known["principal"],
        known["host"],
    )
    return Row((goes, *map(shown, cells), requests), remark)


def _request(request: Request) -> str:
    name = request.resource_name or "(the empty name)"
    return (
        f"{request.principal} {request.operation.title} {request.resource_type.name} {name} "
        f"from {request.host}"
    )


def _request_json(request: Request) -> dict[str, str]:
    return {
        "principal": request.principal,
        "host": request.host,
        "operation": request.operation.name,
        "resourceType": request.resource_type.name,
        "resourceName": request.resource_name,
    }


def _answers_json(answers: Answers) -> dict[str, int]:
    return {"decisions": answers.decisions, "requests": answers.requests}


def _result(is_allowed: bool) -> str:
    return "ALLOWED" if is_allowed else "DENIED"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else utc(at_ms)


def print_report(report: Report, *, as_json: bool) -> None:
    """As JSON lines, or for people."""
    if not as_json:
        report.print()
        return
    with JsonLines() as lines:
        for line in report.to_json():
            lines.write(line)
