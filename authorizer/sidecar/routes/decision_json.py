"""A decision as AuthZEN's JSON: ``decision``, and in ``context`` the reason and the offset.

``end_offset`` is that of the state that decided; ``offset`` is the same number, by its earlier name.
``notes`` name what is not known and could change a denial.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.http.answers.acls import Acl
from authorizer.api.http.answers.decisions import Decision as DecisionAnswer
from authorizer.api.http.answers.decisions import EvaluationContext, EvaluationError
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG
from authorizer.engine.decisions.decision import BY_SUPER_USER, DecidedAction
from authorizer.engine.decisions.notes import notes
from authorizer.engine.decisions.rules import Rule

if TYPE_CHECKING:
    from authorizer.sidecar.http.errors import HttpError
    from records.columns.acl_table import AppliedAcl


_REASONS: Final = (
    (True, Rule.SUPER_USER, "the principal is a super user"),
    (True, Rule.MATCHING_ACL, "an ACL allows it"),
    (False, Rule.MATCHING_ACL, "an ACL denies it"),
    (True, Rule.DEFAULT_ALLOW, f"no ACL covers the resource, and {ALLOW_EVERYONE_CONFIG} is true"),
    (False, Rule.DEFAULT_DENY, "no ACL allows it"),
)

_ALLOWED: Final = AuthorizationResult.ALLOWED
_END: Final = b"}}"
_encode: Final = msgspec.json.Encoder().encode


def decision_json(decided: DecidedAction, encoded: tuple[bytes, ...], *, explained: bool) -> bytes:
    """Encode a decision; its ACL is looked for if ``explained``."""
    by_super_user, allowed, denied, allowed_by_default, denied_by_default = encoded
    if decided.answer:
        text = allowed if decided.result is _ALLOWED else denied
    elif decided.cached_decision is BY_SUPER_USER:
        text = by_super_user
    else:
        text = allowed_by_default if decided.result is _ALLOWED else denied_by_default
    if decided.result is not _ALLOWED and (found := notes(decided)):
        text = text[: -len(_END)] + _encode_notes(found)
    acl = decided.decision().acl if explained else None
    return text if acl is None else text[: -len(_END)] + _encode_acl(acl)


def refusal_json(error: HttpError) -> bytes:
    """Encode the error of an invalid evaluation in a batch."""
    refusal = EvaluationError(int(error.code.status), error.code.value, error.message)
    return _encode(DecisionAnswer(False, EvaluationContext(error=refusal)))


@lru_cache(maxsize=16)  # most are by the newest state
def encoded_decisions_at(end_offset: int) -> tuple[bytes, ...]:
    """Every possible decision of a state, without the deciding ACL."""
    return tuple(
        _encode(DecisionAnswer(is_allowed, EvaluationContext(rule, end_offset, end_offset, reason)))
        for is_allowed, rule, reason in _REASONS
    )


@lru_cache(maxsize=64)
def _encode_notes(found: tuple[str, ...]) -> bytes:
    """The end of a decision, with its notes."""
    return b',"notes":%b%b' % (_encode(found), _END)


@lru_cache(maxsize=4096)  # a few ACLs decide most of what is asked
def _encode_acl(acl: AppliedAcl) -> bytes:
    """The end of a decision, with the deciding ACL."""
    return b',"acl":%b,"written_at_offset":%b%b' % (_encode(Acl.of(acl.record)), _encode(acl.offset), _END)
