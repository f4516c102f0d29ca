"""Report of ``aclog lint``: findings, each with its proof and its fix."""

from __future__ import annotations

import shlex
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.lint.rules import RULES
from authorizer.api.acl_json import acl_json
from authorizer.cli.rendering.acls import acl_line
from authorizer.cli.rendering.output import JsonLines, answer, shown, step
from authorizer.cli.rendering.terminal import good
from authorizer.engine.explanation.fix import change_flags, removal_flags
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from authorizer.analysis.lint.findings import Finding, FoundRow, Lint

# Most words are repeated many times.
_quoted: Final = lru_cache(1 << 12)(shlex.quote)
_INDENT: Final = "  "


def commands(finding: Finding, program: Sequence[str]) -> list[str]:
    """The fix as shell commands; none for information, and for an ACL that kafka-acls cannot name."""
    removal = removal_flags(finding.acl) if finding.is_defect else None
    if removal is None:
        return []
    lines = [removal]
    if finding.rule == "duplicate":
        # A removal removes all ids.
        lines.append(("--add", *(change_flags(finding.acl) or ())))
    return [" ".join(map(_quoted, (*program, *words))) for words in lines]


def finding_json(finding: Finding, program: Sequence[str]) -> dict[str, Any]:
    """A finding as a line of ``--json``."""
    acl = acl_json(finding.acl)
    return {
        "finding": finding.rule,
        "severity": finding.severity,
        "reason": finding.reason,
        "acl": acl,
        "ids": [acl["id"]] if len(finding.ids) == 1 else [uuid_to_string(each) for each in finding.ids],
        "by": [acl_json(each) for each in finding.by],
        "canGo": finding.is_removable,
        "alone": finding.is_independent,
        "byResourceType": "same" if finding.keeps_by_resource_type else "may differ",
        "commands": commands(finding, program),
    }


def print_json_lines(lint: Lint, found_rows: Iterable[FoundRow], program: Sequence[str]) -> bool:
    """Print all findings and a summary; returns whether there is no defect."""
    counts: Counter[str] = Counter()
    is_clean = True
    with JsonLines() as lines:
        for finding in map(lint.finding, found_rows):
            counts[finding.rule] += 1
            is_clean = is_clean and not finding.is_defect
            lines.write(finding_json(finding, program))
        lines.write(
            {
                "clean": is_clean,
                "acls": len(lint.acls),
                "needed": len(lint.acls) - len(lint.removable),
                "findings": {rule: counts[rule] for rule in RULES},
                "accepted": lint.accepted,
            }
        )
    return is_clean


def print_text(lint: Lint, found_rows: Iterable[FoundRow], limit: int, program: Sequence[str]) -> bool:
    """Print at most ``limit`` findings of each rule and a summary; returns whether there is no defect."""
    counts: Counter[str] = Counter()
    informative: set[str] = set()
    for found in found_rows:
        is_defect = lint.is_defect(found)
        if not counts[found.rule]:
            step(found.rule if is_defect else f"{found.rule} (information, no defect)")
        counts[found.rule] += 1
        if not is_defect:
            informative.add(found.rule)
        if not limit or counts[found.rule] <= limit:
            _print(lint.finding(found), program)
    answer("")
    for rule in RULES:
        if counts[rule]:
            left_out = max(counts[rule] - limit, 0) if limit else 0
            more = f", {left_out:,} of them not shown (--limit 0 shows all)" if left_out else ""
            answer(f"{rule:16}{counts[rule]:,}{more}", 16)
    is_clean = not counts.keys() - informative
    if is_clean:
        answer(f"{good('clean')}: no defects in {len(lint.acls):,} ACLs")
    if lint.removable:
        answer(
            f"{len(lint.removable):,} of {len(lint.acls):,} ACLs can be removed together: every request has "
            "the same answer as before",
            indent=2,
        )
    if lint.accepted:
        answer(f"{lint.accepted:,} findings are accepted by the rules")
    return is_clean


def _print(finding: Finding, program: Sequence[str]) -> None:
    answer(f"{_INDENT}{acl_line(finding.acl)}", indent=6)
    answer(f"{_INDENT * 2}{shown(finding.reason)}", indent=6)
    for each in finding.by:
        answer(f"{_INDENT * 3}{acl_line(each)}", indent=8)
    if not finding.keeps_by_resource_type:
        answer(f"{_INDENT * 2}without it authorize-by-resource-type may answer differently", indent=6)
    ids = ", ".join(map(uuid_to_string, finding.ids))
    if len(finding.ids) > 1:
        answer(f"{_INDENT * 2}ids {ids}", indent=6)
    lines = commands(finding, program)
    for line in lines:
        answer(f"{_INDENT * 2}$ {shown(line)}", indent=6)
    if finding.is_defect and not lines:
        answer(f"{_INDENT * 2}kafka-acls cannot name it; its id: {ids}", indent=6)
