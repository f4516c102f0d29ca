"""Findings of ``aclog lint``, computed once for each displayed state."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.analysis.files.lint_file import parse_rules
from authorizer.analysis.files.parsing import FileFormatError
from authorizer.analysis.lint.findings import Finding, FoundRow, Lint
from authorizer.analysis.lint.rules import RULES, LintRules
from authorizer.api.acl_json import acl_json
from authorizer.configuration.keys.names import CONSOLE_LINT_RULES
from authorizer.console.routes.list_filters import AclRecordFilter
from authorizer.sidecar.http.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import Container

    from authorizer.analysis.matrix.teams import Teams
    from authorizer.console.routes.queries import LintQuery
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
    from records.ids import Uuid
    from snapshot.image import AclsImage

#: Maximum number of ACLs that are linted for a page, which takes a second.
ACLS_MAXIMUM: Final = 200_000


class Findings(NamedTuple):
    """The findings of a state.

    ``found``: all findings, by rule, without their proofs: only those of a page are computed.
    """

    lint: Lint
    found: list[FoundRow]
    accepted: list[tuple[FoundRow, str]]

    @classmethod
    def of(
        cls,
        image: AclsImage,
        settings: AuthorizerSettings,
        rules: LintRules,
        previous: Findings | None = None,
    ) -> Findings:
        """Lint a state; ``previous``: the findings of another one."""
        lint = Lint(
            image.merged().columns,
            settings.with_version_of(image),
            rules,
            topics=image.metadata.known_topics,
            previous=None if previous is None else previous.lint,
        )
        return cls(lint, [*lint.found_rows()], [*lint.accepted_rows()])

    def page(self, query: LintQuery, teams: Teams) -> dict[str, Any]:
        """Return a page of the selected findings, and the number of all of them by rule."""
        lint = self.lint
        accepted = self.accepted if query.accepted else []
        reasons = {(each.rule, each.row): reason for each, reason in accepted}
        shown = [each for each, _ in accepted] if query.accepted else self.found
        selected = [
            each
            for each in shown
            if query.rule in (None, each.rule)
            and query.severity in (None, lint.severity(each))
            and (not query.can_go or lint.is_removable(each))
        ]
        acl_filter = AclRecordFilter(query, teams)
        if not acl_filter.selects_all:
            selected = [*compress(selected, map(acl_filter.selects_acl, lint.records_of(selected)))]
        counts = Counter(each.rule for each in shown)
        page = selected[query.first : query.first + query.count]
        return {
            "acls": len(lint.acls),
            "can_go": len(lint.removable),
            "accepted": len(self.accepted),
            "rules": {rule: counts[rule] for rule in RULES},
            "total": len(selected),
            "first": query.first,
            "findings": [
                {
                    "acl": acl_json(each.acl),
                    **_finding_json(each),
                    "accepted": reasons.get((found.rule, found.row)),
                }
                for found, each in zip(page, lint.findings_of(page), strict=True)
            ],
        }


def read_lint_rules(path: str | None) -> LintRules:
    """Read a file of rules. Raises FileFormatError and OSError, which name it."""
    return LintRules() if path is None else parse_rules(Path(path).read_bytes(), path)


class FindingsCache:
    """The findings of the last requested state. Thread-safe; callers wait for a running computation."""

    def __init__(self, rules_file: str | None) -> None:
        self._lock = threading.Lock()
        self._rules_file = rules_file
        self._cached: tuple[AuthorizerState, LintRules, Findings] | None = None

    def get(self, state: AuthorizerState) -> Findings:
        """Return the findings of a state. HttpError 400: too many ACLs, or a wrong file of rules."""
        image = state.index.image
        if len(image) > ACLS_MAXIMUM:
            raise invalid_request(
                f"{len(image)} ACLs are too many for findings here (at most {ACLS_MAXIMUM}): use `aclog lint`"
            )
        try:
            rules = read_lint_rules(self._rules_file)
        except (FileFormatError, OSError) as error:
            raise invalid_request(f"{CONSOLE_LINT_RULES}: {error}") from error
        with self._lock:
            cached = self._cached
            if cached is None or cached[0].index is not state.index or cached[1] != rules:
                previous = None if cached is None else cached[2]
                cached = self._cached = state, rules, Findings.of(image, state.settings, rules, previous)
            return cached[2]


def findings_by_acl(findings: Findings, acl_ids: Container[Uuid]) -> dict[Uuid, list[dict[str, Any]]]:
    """Return the findings about some ACLs, by ACL id."""
    lint = findings.lint
    selected = [(found, each) for found in findings.found for each in lint.ids_of(found) if each in acl_ids]
    by_id: dict[Uuid, list[dict[str, Any]]] = {}
    for (_, acl_id), finding in zip(selected, lint.findings_of([each for each, _ in selected]), strict=True):
        by_id.setdefault(acl_id, []).append(_finding_json(finding))
    return by_id


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "because": finding.reason,
        "by": [acl_json(each) for each in finding.by],
        "can_go": finding.is_removable,
        "alone": finding.is_independent,
        "keeps_by_type": finding.keeps_by_resource_type,
    }
