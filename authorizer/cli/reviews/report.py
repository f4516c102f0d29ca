"""Report of a review: a summary, the ACLs to remove and to keep, and the changes that lead there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from authorizer.api.acl_json import acl_json
from authorizer.api.acl_text import pattern_text
from authorizer.cli.rendering.output import JsonLines, answer, json_line, shown, utc
from authorizer.cli.rendering.table import UNKNOWN, Column, Row, table_lines
from authorizer.cli.rendering.terminal import bad, doubtful, good, width
from records.ids import uuid_to_string
from snapshot.files.atomic_file import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from authorizer.analysis.review import RequestCounts, Review
    from authorizer.cli.acl_sources.acl_source import AclSet
    from records.entries import AccessControlEntryRecord
    from records.request_line import Request
    from records.request_traffic import Coverage, Window

_Item = TypeVar("_Item")

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

    def changes(self) -> Iterator[dict[str, Any]]:
        """What leads to the set that is needed, as ``aclog diff --json`` says it."""
        for each in self.found.unused:
            yield {"acl": "removed"} | acl_json(each.acl)

    def to_json(self) -> Iterator[dict[str, Any]]:
        """The changes, then why; ACLs to keep; requests that are answered otherwise now; a summary."""
        of_cluster = {} if self.cluster is None else {"cluster": self.cluster}
        for line in self._lines():
            yield of_cluster | line

    def _lines(self) -> Iterator[dict[str, Any]]:
        found, coverage = self.found, self.coverage
        yield from self.changes()
        for each in found.unused:
            yield {"review": "unneeded", "id": uuid_to_string(each.acl.id), "why": each.reason}
        for kept in found.retained:
            example = None if kept.example is None else _request_json(kept.example)
            yield {
                "review": "kept",
                "why": kept.reason,
                "requests": kept.requests,
                "example": example,
                "acl": acl_json(kept.acl),
            }
        for turned in found.changed_decisions:
            yield {
                "review": "turned",
                "request": _request_json(turned.request),
                "decisions": turned.decisions,
                "before": _result(not turned.is_allowed_now),
                "now": _result(turned.is_allowed_now),
            }
        least = found.cover
        yield {
            "review": "summary",
            "acls": self.acls.name,
            "aclsUnneeded": len(found.unused),
            "aclsKept": len(found.retained),
            "least": "narrowest" if least is None else "fewest",
            "exact": least is None or not least.inexact_groups,
            "allowedByAcls": _answers_json(found.by_acls),
            "allowedToSuperUsers": _answers_json(found.by_super_users),
            "allowedByDefault": _answers_json(found.by_default),
            "denied": _answers_json(found.denied),
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
        """The same for people, the summary first; at most ``limit`` of each list, 0 for all."""
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
        self._print_acl_counts()
        if found.changed_decisions:
            _labelled("changed", f"{len(found.changed_decisions):,} requests are answered otherwise now")
        for turned in _first(found.changed_decisions, limit):
            result = bad("denied now") if not turned.is_allowed_now else doubtful("allowed now")
            before = "denied" if turned.is_allowed_now else "allowed"
            what = f"{_request(turned.request)}, {turned.decisions:,} times {before}"
            _labelled("", f"{result}: {shown(what)}")
        _note_left_out(len(found.changed_decisions), limit, "requests that are answered otherwise now")
        removable = [_row(bad("remove"), each.reason, each.acl, UNKNOWN) for each in found.unused]
        needed = []
        for kept in found.retained:
            requests = f"{kept.requests:,}" if kept.reason == "needed" else UNKNOWN
            remark = None if kept.example is None else f"for {shown(_request(kept.example))}"
            needed.append(_row(good("keep"), kept.reason, kept.acl, requests, remark))
        for rows, what in ((removable, "ACLs to remove"), (needed, "ACLs to keep")):
            if rows:
                for line in table_lines(_COLUMNS, _first(rows, limit), width()):
                    click.echo(line)
                _note_left_out(len(rows), limit, what)

    def _print_acl_counts(self) -> None:
        removable, kept = self.found.unused, self.found.retained
        goes = f"{len(removable):,} can be removed" if removable else "none can be removed"
        reasons = _reasons(each.reason for each in removable)
        total = f"{len(removable) + len(kept):,} in {shown(self.acls.name)}"
        _labelled("ACLs", f"{total}: {doubtful(goes) if removable else good(goes)}{reasons}")
        _labelled("", f"{len(kept):,} to keep{_reasons(each.reason for each in kept)}: {self._least()}")

    def write_changes(self, path: Path) -> None:
        """For ``aclog plan``."""
        with atomic_write(path) as file:
            for line in self.changes():
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
        least = self.found.cover
        if least is None:
            return "the narrowest that allow all that was allowed"
        if not least.inexact_groups:
            return "the fewest that allow all that was allowed"
        return (
            "few that allow all that was allowed: "
            f"in {least.inexact_groups:,} of {least.groups:,} groups of requests fewer may do"
        )


def _first(items: Sequence[_Item], limit: int) -> Sequence[_Item]:
    return items[:limit] if limit else items


def _note_left_out(count: int, limit: int, what: str) -> None:
    if limit and count > limit:
        answer(f"... and {count - limit:,} more {what} (--limit 0 shows all)")


def _reasons(why: Iterable[str]) -> str:
    """`` (covered 3, unused 12)``."""
    counts = sorted(Counter(why).items())
    return f" ({', '.join(f'{each} {count:,}' for each, count in counts)})" if counts else ""


def _labelled(label: str, text: str) -> None:
    answer(f"{label:{_LABEL}}{text}", _LABEL)


def _counted(answers: RequestCounts) -> str:
    return f"{answers.decisions:,} requests, {answers.requests:,} different"


def _row(goes: str, why: str, acl: AccessControlEntryRecord, requests: str, remark: str | None = None) -> Row:
    known = acl_json(acl)
    cells = (
        why,
        known["permissionType"],
        known["operation"],
        pattern_text(known),
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


def _answers_json(answers: RequestCounts) -> dict[str, int]:
    return {"decisions": answers.decisions, "requests": answers.requests}


def _result(is_allowed: bool) -> str:
    return "ALLOWED" if is_allowed else "DENIED"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else utc(at_ms)


def print_report(report: Report, *, as_json: bool, limit: int) -> None:
    """As JSON lines, or for people, at most ``limit`` of each list."""
    if not as_json:
        report.print(limit)
        return
    with JsonLines() as lines:
        for line in report.to_json():
            lines.write(line)
