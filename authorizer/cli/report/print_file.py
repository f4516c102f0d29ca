"""The report for printing: static tables with repeated heads, without a script."""

from __future__ import annotations

import base64
import hashlib
import html
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.permissions.request_class import (
    describe_class,
    describe_operation_set,
    describe_principal,
    describe_witness,
)
from authorizer.analysis.request_space.host_answers import masks_by_host, operations_of
from authorizer.api.acl_json import acl_json, applied_acl_json
from authorizer.api.acl_text import literal_text, pattern_text
from authorizer.cli.rendering.output import utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from authorizer.analysis.request_space.host_answers import Answer
    from authorizer.analysis.request_space.name_space import Key
    from authorizer.cli.report.content import Report
    from authorizer.cli.report.matrix_table import MatrixTable
    from authorizer.engine.decisions.decision import Decision

_STYLE: Final = """
@page { size: A4; margin: 16mm 14mm 18mm;
  @bottom-left { content: "aclog report"; font: 8pt sans-serif; }
  @bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; } }
html { font: 9pt/1.35 sans-serif; color: #000; background: #fff; }
body { margin: 0 auto; max-width: 190mm; padding: 4mm; }
h1 { font-size: 16pt; margin: 0 0 4mm; } h2 { font-size: 12pt; margin: 8mm 0 2mm; break-after: avoid; }
section + section { break-before: page; margin-top: 12mm; }
p { margin: 0 0 3mm; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; }
thead { display: table-header-group; } tr { break-inside: avoid; }
th, td { text-align: left; vertical-align: top; padding: 1mm 1.5mm; border-bottom: .2mm solid #999;
  overflow-wrap: anywhere; }
thead th { border-bottom: .4mm solid #000; }
.rule { font-weight: 700; } .quiet { color: #444; }
@media print { body { padding: 0; max-width: none; } section + section { margin-top: 0; } }
"""
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src '{hash}'; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""
_END: Final = "</main>\n</body>\n</html>\n"
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def pages(report: Report) -> Iterator[bytes]:
    """The file, piece by piece."""
    return (each.encode() for each in _pieces(report))


def _pieces(report: Report) -> Iterator[str]:
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    yield _PAGE.format(hash=f"sha256-{digest}", style=_STYLE, title=_text(report.title))
    yield f"<section><h1>{_text(report.title)}</h1>"
    yield from _table("The state", ("Fact", "Value"), (30, 70), _facts(report.facts()))
    yield "</section>"
    for matrix in report.matrices:
        if len(matrix.rows) > 1 or matrix.rows[0].is_key:
            yield f"<section><h1>{matrix.resource_type.title}</h1>"
            yield (
                "<p>The most specific row of a principal applies: the row of the name, else of its longest "
                "prefix. Without such a row, the row of everyone else applies.</p>"
            )
            yield from _table(None, ("Principal", "Names", "May"), (28, 32, 40), _access(matrix))
            yield "</section>"
    yield f"<section><h1>{len(report.acls):,} ACLs</h1>"
    head = ("ACL", "Host", "Written", "Findings")
    yield from _table(None, head, (40, 12, 18, 30), _acls(report))
    yield "</section>"
    if report.before is not None:
        yield "<section><h1>What changed</h1>"
        heads = ("Change", "ACL", "Written")
        yield from _table("ACL changes, the newest first", heads, (12, 66, 22), _changes(report))
        yield from _table(
            f"{len(report.decision_changes):,} classes of requests whose decision changed",
            ("Change", "Who and what", "Example, before and after"),
            (12, 40, 48),
            _decision_changes(report),
        )
        yield "</section>"
    yield _END


def _table(
    title: str | None, head: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
    """Cells are HTML; widths are percentages."""
    if title is not None:
        yield f"<h2>{_text(title)}</h2>"
    columns = "".join(f'<col width="{width}%">' for width in widths)
    heads = "".join(f'<th scope="col">{_text(each)}</th>' for each in head)
    yield f"<table><colgroup>{columns}</colgroup><thead><tr>{heads}</tr></thead><tbody>\n"
    count = 0
    for row in rows:
        count += 1
        yield f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>\n"
    if not count:
        yield f'<tr><td colspan="{len(head)}">nothing</td></tr>\n'
    yield "</tbody></table>\n"


def _facts(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    version, uncommitted_from = facts["kafkaVersion"]["version"], facts["uncommittedFrom"]
    rows = [
        ("From", facts["source"]),
        ("Cluster", facts["clusterId"] or "not known"),
        *_state_rows(facts),
        ("Digest of effective permissions", facts["meaning"] or "not for a part of the ACLs"),
        ("Rules of", f"Kafka {version or 'release not known'}"),
        (
            "Committed",
            "all records" if uncommitted_from is None else f"before offset {uncommitted_from}",
        ),
        ("Super users", ", ".join(facts["superUsers"]) or "none"),
        (
            "Resources without ACLs",
            "allowed to everyone" if facts["allowEveryoneIfNoAclFound"] else "denied to everyone",
        ),
        ("Scope", ", ".join(facts["narrowedTo"]) or "all principals and names"),
    ]
    if facts["since"] is not None:
        rows += [(f"Compared with: {name}", value) for name, value in _state_rows(facts["since"])]
    rows += [
        ("Left out", "; ".join(facts["leftOut"]) or "nothing"),
        ("Made", f"{utc(facts['made'])} by aclog {facts['aclogVersion']}"),
    ]
    return ((_text(name), _name(value)) for name, value in rows)


def _state_rows(state: dict[str, Any]) -> list[tuple[str, str]]:
    epoch, time = state["epoch"], state["timestamp"]
    end = state["endOffset"]
    offset = str(end - 1) if end else "not of a log" if epoch is None else "before the log's first record"
    return [
        ("Offset", offset if epoch is None else f"{offset}, epoch {epoch}"),
        ("Time", "unknown" if time is None else utc(time)),
        ("ACLs", f"{state['aclCount']:,}"),
        ("Digest", state["digest"]),
    ]


def _access(matrix: MatrixTable) -> Iterator[tuple[str, ...]]:
    for principal in matrix.principals:
        whose = "everyone else" if principal is None else _name(principal)
        if principal in matrix.super_users:
            whose += " (super user)"
        for key, answer in matrix.answers(principal):
            yield whose, _key(key), "as everyone else" if answer is None else _answer(answer)


def _answer(answer: Answer) -> str:
    (_, (other_hosts,)), *named = masks_by_host(answer)
    parts = [describe_operation_set(operations_of(other_hosts)) or "nothing"]
    parts += [
        f"from {host}: {describe_operation_set(operations_of(mask)) or 'nothing'}" for host, (mask,) in named
    ]
    return "".join(f"<div>{_text(each)}</div>" for each in parts)


def _key(key: Key) -> str:
    text, is_name = key
    if is_name:
        return _name(literal_text(text))
    return f"{_name(text)}*" if text else "every name"


def _acls(report: Report) -> Iterator[tuple[str, ...]]:
    for acl in report.acls.acls():
        findings = [
            f'<div><span class="rule">{_text(each["rule"])}</span> {_name(each["because"])}</div>'
            for each in report.findings_of(acl.record.id)
        ]
        shown = applied_acl_json(acl)
        yield (
            _acl(shown),
            "any" if shown["host"] == "*" else _name(shown["host"]),
            _written(shown["offset"], shown["timestamp"]),
            "".join(findings),
        )


def _acl(acl: dict[str, Any]) -> str:
    kind = f"{acl['permissionType']} {acl['operation']} on"
    return (
        f"{_name(acl['principal'])} <b>{_text(kind)}</b> {_name(pattern_text(acl))}"
        f' <span class="quiet">{_text(acl["id"])}</span>'
    )


def _changes(report: Report) -> Iterator[tuple[str, ...]]:
    for line in report.changes():
        acl = line["acl"]
        host = "any host" if acl["host"] == "*" else _name(acl["host"])
        yield _text(line["kind"]), f"{_acl(acl)} from {host}", _written(line["offset"], line["timestamp"])


def _decision_changes(report: Report) -> Iterator[tuple[str, ...]]:
    for change, (first, *_) in islice(report.decided(), report.lines_maximum):
        request_class = change.request_class
        answers = [
            f"<div>{label}: {_decision(each)}</div>"
            for label, each in zip(("before", "after"), first, strict=True)
        ]
        yield (
            _text(change.direction),
            f"{_name(describe_principal(request_class))}: {_name(describe_class(request_class))}",
            f"<div>{_name(describe_witness(request_class))}</div>{''.join(answers)}",
        )


def _decision(decision: Decision) -> str:
    acl = decision.acl
    by = _text(decision.rule.value) if acl is None else _acl(acl_json(acl.record))
    return f"{decision.result.value} by {by}"


def _written(offset: int | None, timestamp_ms: int) -> str:
    parts = [] if offset is None else [f"offset {offset}"]
    return ", ".join([*parts, utc(timestamp_ms)] if timestamp_ms else parts)


def _text(text: str) -> str:
    """As HTML; invisible characters and those that change the text direction are escaped, as on the page."""
    visible = "".join(
        f"\\u{{{ord(each):x}}}" if unicodedata.category(each) in _INVISIBLE else each for each in text
    )
    return html.escape(visible)


def _name(text: str) -> str:
    return f"<bdi>{_text(text)}</bdi>"
