"""What ``aclog lint`` finds amiss, worked out once for each state that is looked at."""

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

#: ACLs that are looked through for a page: that takes seconds.
ACLS_MAXIMUM: Final = 200_000


class FindingsCache:
    """Of the state that was looked at last. Thread-safe; who asks waits."""

    def __init__(self) -> None:
        self._working = threading.Lock()
        self._known: tuple[AuthorizerState, Mapping[Uuid, list[dict[str, Any]]]] | None = None

    def of(self, state: AuthorizerState) -> Mapping[Uuid, list[dict[str, Any]]]:
        """By the ids of ACLs.

        Raises:
            HttpError: 400, there are too many ACLs to look through for a page.
        """
        image = state.index.image
        if len(image) > ACLS_MAXIMUM:
            raise invalid_request(
                f"{len(image)} ACLs are too many to look for what is amiss here (at most {ACLS_MAXIMUM}): "
                "ask aclog lint"
            )
        with self._working:
            if self._known is None or self._known[0].index is not state.index:
                self._known = state, findings_json(state.index.image, state.settings)
            return self._known[1]


def findings_json(image: AclsImage, settings: AuthorizerSettings) -> dict[Uuid, list[dict[str, Any]]]:
    """All of a state, by the ids of ACLs."""
    lint = Lint(
        image.merged().columns,
        settings.with_version_of(image),
        LintRules(),
        topics=image.metadata.known_topics,
    )
    found: dict[Uuid, list[dict[str, Any]]] = {}
    for finding in lint.findings():
        shown = {
            "rule": finding.rule,
            "because": finding.because,
            "by": [acl_json(each) for each in finding.by],
            "can_go": finding.can_go,
        }
        for acl_id in finding.ids:
            found.setdefault(acl_id, []).append(shown)
    return found
