"""Machine-readable reports: JSON lines, and CSV in one table."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.permissions.request_class import (
    describe_hosts,
    describe_names,
    describe_operation_set,
    describe_operations,
    describe_principal,
    describe_witness,
)
from authorizer.analysis.request_space.host_answers import masks_by_host, operations_of
from authorizer.api.acl_json import applied_acl_json
from authorizer.cli.rendering.acls import decided_by
from authorizer.cli.rendering.output import json_line, shown, utc
from authorizer.cli.sets.diff_report import changed_rows
from snapshot.files.csv_cell import cell_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.request_space.host_answers import Answer
    from authorizer.cli.report.content import Report

#: Stands for all principals without a column.
EVERYONE: Final = "*"
_HEADER: Final = (
    "section",
    "kind",
    "principal",
    "operations",
    "resourceType",
    "name",
    "patternType",
    "hosts",
    "offset",
    "time",
    "detail",
)


def json_lines(report: Report) -> Iterator[bytes]:
    """As ``aclog report --help`` describes them."""
    return map(json_line, _objects(report))


def _objects(report: Report) -> Iterator[dict[str, Any]]:
    yield {"report": report.facts()}
    counts = {
        "access": 0,
        "acls": len(report.acls),
        "findings": 0,
        "changes": 0,
        "flips": len(report.decision_changes),
    }
    for matrix in report.matrices:
        for principal in matrix.principals:
            for (text, is_name), answer in matrix.answers(principal):
                counts["access"] += 1
                yield {
                    "access": matrix.resource_type.name,
                    "principal": principal or EVERYONE,
                    "name" if is_name else "prefix": text,
                } | _answer_json(answer)
    for acl in report.acls.acls():
        found = report.findings_of(acl.record.id)
        counts["findings"] += len(found)
        yield {"acl": "inForce"} | applied_acl_json(acl) | {"findings": found}
    for line in report.changes():
        counts["changes"] += 1
        yield {
            "change": line["kind"],
            "offset": line["offset"],
            "endOffset": line["end_offset"],
            "timestamp": line["timestamp"],
            "acl": line["acl"],
        }
    yield from changed_rows(report.decided())
    yield {"summary": counts}


def _answer_json(answer: Answer | None) -> dict[str, Any]:
    if answer is None:
        return {"as": EVERYONE}
    allowed = {
        host or "*": [each.name for each in operations_of(mask)] for host, (mask,) in masks_by_host(answer)
    }
    return {"allowed": allowed}


def csv_lines(report: Report, *, raw_cells: bool) -> Iterator[bytes]:
    """All sections in one table; cells that a spreadsheet could run as formulas are escaped."""
    text = io.StringIO()
    lines = csv.DictWriter(text, _HEADER, restval="", lineterminator="\r\n")
    lines.writeheader()
    for row in _rows(report):
        lines.writerow(row if raw_cells else {name: _cell(value) for name, value in row.items()})
        yield text.getvalue().encode("utf-8", "backslashreplace")
        text.seek(0)
        text.truncate()


def _cell(value: Any) -> Any:
    return shown(cell_of_text(value)) if isinstance(value, str) else value


def _rows(report: Report) -> Iterator[dict[str, Any]]:
    for name, value in report.facts().items():
        yield {"section": "report", "kind": name, "detail": _fact_text(value)}
    for matrix in report.matrices:
        for principal in matrix.principals:
            for (text, is_name), answer in matrix.answers(principal):
                common = {
                    "section": "access",
                    "principal": principal or EVERYONE,
                    "resourceType": matrix.resource_type.name,
                    "name": text,
                    "patternType": "LITERAL" if is_name else "PREFIXED",
                }
                if answer is None:
                    yield common | {"kind": "as everyone"}
                    continue
                for host, (mask,) in masks_by_host(answer):
                    allowed = {
                        "operations": describe_operation_set(operations_of(mask)),
                        "hosts": host or "*",
                    }
                    yield common | {"kind": "allowed" if mask else "nothing"} | allowed
    for acl in report.acls.acls():
        fields = _acl_row(applied_acl_json(acl))
        yield {"section": "acl"} | fields
        for finding in report.findings_of(acl.record.id):
            yield {"section": "finding"} | fields | {"kind": finding["rule"], "detail": finding["because"]}
    for line in report.changes():
        offset = "" if line["offset"] is None else line["offset"]
        written = {"offset": offset, "time": utc(line["timestamp"])}
        permission = line["acl"]["permissionType"]
        yield (
            {"section": "change"}
            | _acl_row(line["acl"])
            | written
            | {
                "kind": line["kind"],
                "detail": permission,
            }
        )
    for change, (first, *_) in report.decided():
        request_class = change.request_class
        before, after = (f"{each.result.value} by {decided_by(each)}" for each in first)
        yield {
            "section": "flip",
            "kind": change.direction,
            "principal": describe_principal(request_class),
            "operations": describe_operations(request_class),
            "resourceType": request_class.resource_type.name,
            "name": describe_names(request_class),
            "hosts": describe_hosts(request_class),
            "detail": f"for example {describe_witness(request_class)}: before {before}; after {after}",
        }


def _acl_row(acl: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": acl["permissionType"],
        "principal": acl["principal"],
        "operations": acl["operation"],
        "resourceType": acl["resourceType"],
        "name": acl["resourceName"],
        "patternType": acl["patternType"],
        "hosts": acl["host"],
        "offset": "" if acl["offset"] is None else acl["offset"],
        "time": utc(acl["timestamp"]) if acl["timestamp"] else "",
        "detail": acl["id"],
    }


def _fact_text(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value).decode().rstrip("\n")
