"""Findings of ``aclog lint``, computed once for each displayed state."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.lint import Lint
from authorizer.analysis.lint_rules import LintRules
from authorizer.api.acl_json import acl_json
from authorizer.sidecar.http.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
    from records.ids import Uuid
    from snapshot.image import AclsImage

#: Maximum number of ACLs that are linted for a page, which takes seconds.
ACLS_MAXIMUM: Final = 200_000


class FindingsCache:
    """The findings of the last requested state. Thread-safe; callers wait for a running computation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: tuple[AuthorizerState, Mapping[Uuid, list[dict[str, Any]]]] | None = None

    def get(self, state: AuthorizerState) -> Mapping[Uuid, list[dict[str, Any]]]:
        """Return the findings by ACL id.

        Raises:
            HttpError: 400, there are too many ACLs to lint for a page.
        """
        image = state.index.image
        if len(image) > ACLS_MAXIMUM:
            raise invalid_request(
                f"{len(image)} ACLs are too many for findings here (at most {ACLS_MAXIMUM}): use `aclog lint`"
            )
        with self._lock:
            if self._cached is None or self._cached[0].index is not state.index:
                self._cached = state, findings_json(state.index.image, state.settings)
            return self._cached[1]


def findings_json(image: AclsImage, settings: AuthorizerSettings) -> dict[Uuid, list[dict[str, Any]]]:
    """Return all findings of a state, by ACL id."""
    lint = Lint(
        image.merged().columns,
        settings.with_version_of(image),
        LintRules(),
        topics=image.metadata.known_topics,
    )
    found: dict[Uuid, list[dict[str, Any]]] = {}
    for finding in lint.findings():
        entry = {
            "rule": finding.rule,
            "severity": finding.severity,
            "because": finding.reason,
            "by": [acl_json(each) for each in finding.by],
            "can_go": finding.is_removable,
        }
        for acl_id in finding.ids:
            found.setdefault(acl_id, []).append(entry)
    return found
