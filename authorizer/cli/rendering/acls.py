"""ACLs and decisions in text: one notation for all commands (``authorizer.api.acl_text``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.acl_json import acl_json
from authorizer.api.acl_text import acl_text
from authorizer.cli.rendering.output import answer, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.engine.decisions.decision import Decision
    from records.entries import AccessControlEntryRecord


def acl_line(acl: AccessControlEntryRecord) -> str:
    """``ALLOW User:bob READ on TOPIC:LITERAL:orders from *``; control characters are escaped."""
    return shown(acl_text(acl_json(acl)))


def decided_by(decision: Decision) -> str:
    """The rule, with the ACL that decided: ``MatchingAcl (ALLOW User:bob ...)``, ``DefaultDeny``."""
    rule = decision.rule.value
    return rule if decision.acl is None else f"{rule} ({acl_line(decision.acl.record)})"


def print_changed_acls(
    removed: Iterable[AccessControlEntryRecord], added: Iterable[AccessControlEntryRecord]
) -> None:
    """A line for each ACL: ``-`` removed, ``+`` added."""
    for sign, acls in (("-", removed), ("+", added)):
        for acl in acls:
            answer(f"  {sign} {acl_line(acl)}", indent=6)
