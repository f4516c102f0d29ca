"""Report of a review: a summary, the ACLs to remove and to keep, and the changes for `aclog plan`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from authorizer.api.acl_json import acl_json
from authorizer.api.acl_text import pattern_text
from authorizer.cli.acl_sources.plan_file import removal_json, write_removals
from authorizer.cli.output_file import output_file
from authorizer.cli.rendering.output import JsonLines, answer, print_fact, shown, utc
from authorizer.cli.rendering.terminal import UNKNOWN, Column, Row, bad, doubtful, good, table_lines, width
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from authorizer.analysis.reviews.review import RequestCounts, Review
    from authorizer.cli.acl_sources.acl_source import AclSet
    from records.entries import AccessControlEntryRecord
    from records.request_line import Request
    from records.request_traffic import Traffic, Window

_Item = TypeVar("_Item")

_LABEL_WIDTH: Final = 10
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
    """The review of a set of ACLs; ``cluster``: its cluster in a fleet."""

    acls: AclSet
    found: Review
    traffic: Traffic
    window: Window
    cluster: str | None = None

    def to_json(self) -> Iterator[dict[str, Any]]:
        """As JSON: changes, their reasons, ACLs to keep, requests with another answer now, a summary."""
        of_cluster = {} if self.cluster is None else {"cluster": self.cluster}
        for line in self._lines():
            yield of_cluster | line

    def _lines(self) -> Iterator[dict[str, Any]]:
        found, coverage = self.found, self.traffic.coverage
        yield from (removal_json(each.acl) for each in found.unused)
        for each in found.unused:
            yield {"review": "unneeded", "id": uuid_to_string(each.acl.id), "why": each.reason}
        for retained in found.retained:
            example = None if retained.example is None else _request_json(retained.example)
            yield {
                "review": "kept",
                "why": retained.reason,
                "requests": retained.requests,
                "example": example,
                "acl": acl_json(retained.acl),
            }
        for change in found.changed_decisions:
            yield {
                "review": "turned",
                "request": _request_json(change.request),
                "decisions": change.decisions,
                "before": _result(not change.is_allowed_now),
                "now": _result(change.is_allowed_now),
            }
        cover = found.cover
        yield {
            "review": "summary",
            "acls": self.acls.name,
            "aclsUnneeded": len(found.unused),
            "aclsKept": len(found.retained),
            "least": "narrowest" if cover is None else "fewest",
            "exact": cover is None or not cover.inexact_groups,
            "allowedByAcls": found.by_acls._asdict(),
            "allowedToSuperUsers": found.by_super_users._asdict(),
            "allowedByDefault": found.by_default._asdict(),
            "denied": found.denied._asdict(),
            "turned": len(found.changed_decisions),
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

    def print(self, limit: int) -> None:
        """Print it as text, the summary first; at most ``limit`` of each list, 0 for all."""
        if self.cluster is not None:
            print_fact("cluster", shown(self.cluster), _LABEL_WIDTH)
        self._print_coverage()
        found = self.found
        for label, answers in (
            ("by ACLs", found.by_acls),
            ("by super users", found.by_super_users),
            ("by default", found.by_default),
        ):
            if answers.requests:
                print_fact("allowed", f"{label}: {_counted(answers)}", _LABEL_WIDTH)
        print_fact("denied", _counted(found.denied), _LABEL_WIDTH)
        self._print_acl_counts()
        if found.changed_decisions:
            print_fact(
                "changed",
                f"{len(found.changed_decisions):,} requests are answered differently now",
                _LABEL_WIDTH,
            )
        for change in _first(found.changed_decisions, limit):
            result = bad("denied now") if not change.is_allowed_now else doubtful("allowed now")
            before = "denied" if change.is_allowed_now else "allowed"
            text = f"{_request(change.request)}, {change.decisions:,} times {before}"
            print_fact("", f"{result}: {shown(text)}", _LABEL_WIDTH)
        _note_left_out(len(found.changed_decisions), limit, "requests that are answered differently now")
        removable = [_row(bad("remove"), each.reason, each.acl, UNKNOWN) for each in found.unused]
        needed = []
        for retained in found.retained:
            requests = f"{retained.requests:,}" if retained.reason == "needed" else UNKNOWN
            remark = None if retained.example is None else f"for {shown(_request(retained.example))}"
            needed.append(_row(good("keep"), retained.reason, retained.acl, requests, remark))
        for rows, title in ((removable, "ACLs to remove"), (needed, "ACLs to keep")):
            if rows:
                for line in table_lines(_COLUMNS, _first(rows, limit), width()):
                    click.echo(line)
                _note_left_out(len(rows), limit, title)

    def _print_acl_counts(self) -> None:
        removable, retained = self.found.unused, self.found.retained
        count = f"{len(removable):,} can be removed" if removable else "none can be removed"
        reasons = _reasons(each.reason for each in removable)
        total = f"{len(removable) + len(retained):,} in {shown(self.acls.name)}"
        print_fact("ACLs", f"{total}: {doubtful(count) if removable else good(count)}{reasons}", _LABEL_WIDTH)
        reasons = _reasons(each.reason for each in retained)
        print_fact("", f"{len(retained):,} to keep{reasons}: {self._minimality()}", _LABEL_WIDTH)

    def write_changes(self, path: Path) -> None:
        write_removals((each.acl for each in self.found.unused), path)

    def write_requests(self, path: Path) -> None:
        with output_file(path) as file:
            file.writelines(self.traffic.event_lines())

    def _print_coverage(self) -> None:
        coverage = self.traffic.coverage
        span = f"{_time(coverage.first_ms) or 'unknown'} to {_time(coverage.last_ms) or 'unknown'}"
        print_fact(
            "window", f"{span}: {coverage.requests:,} requests in {coverage.lines:,} lines", _LABEL_WIDTH
        )
        for count, what in (
            (coverage.outside, "lines are before or after it"),
            (coverage.untimed, "lines have no time and are left out"),
            (coverage.other, "lines are not about requests"),
            (coverage.not_understood, f"lines were not understood: {'; '.join(coverage.bad_lines)}"),
        ):
            if count:
                print_fact("", f"{count:,} {shown(what)}", _LABEL_WIDTH)
        if coverage.sampled:
            text = f"{coverage.sampled:,} events are a sample: requests that it left out are not known"
            print_fact("", doubtful(text), _LABEL_WIDTH)

    def _minimality(self) -> str:
        cover = self.found.cover
        if cover is None:
            return "the narrowest that allow all that was allowed"
        if not cover.inexact_groups:
            return "the fewest that allow all that was allowed"
        return (
            "few that allow all that was allowed: "
            f"in {cover.inexact_groups:,} of {cover.groups:,} groups of requests fewer may suffice"
        )


def _first(items: Sequence[_Item], limit: int) -> Sequence[_Item]:
    return items[:limit] if limit else items


def _note_left_out(count: int, limit: int, what: str) -> None:
    if limit and count > limit:
        answer(f"... and {count - limit:,} more {what} (--limit 0 shows all)")


def _reasons(why: Iterable[str]) -> str:
    """Count reasons: `` (covered 3, unused 12)``."""
    counts = sorted(Counter(why).items())
    return f" ({', '.join(f'{each} {count:,}' for each, count in counts)})" if counts else ""


def _counted(answers: RequestCounts) -> str:
    return f"{answers.decisions:,} requests, {answers.requests:,} different"


def _row(
    action: str, why: str, acl: AccessControlEntryRecord, requests: str, remark: str | None = None
) -> Row:
    known = acl_json(acl)
    cells = (
        why,
        known["permissionType"],
        known["operation"],
        pattern_text(known),
        known["principal"],
        known["host"],
    )
    return Row((action, *map(shown, cells), requests), remark)


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


def _result(is_allowed: bool) -> str:
    return "ALLOWED" if is_allowed else "DENIED"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else utc(at_ms)


def print_report(report: Report, *, as_json: bool, limit: int) -> None:
    """Print JSON lines, or text with at most ``limit`` of each list."""
    if not as_json:
        report.print(limit)
        return
    with JsonLines() as lines:
        for line in report.to_json():
            lines.write(line)
