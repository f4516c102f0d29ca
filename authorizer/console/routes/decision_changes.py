"""What the changes between two states mean, in classes of questions and in words."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from authorizer.analysis.acl_comparison import ChangedAcls
from authorizer.analysis.classes import decided, decision_json, state_about, what, who
from authorizer.analysis.decision_changes import flips_between, flips_of_states
from authorizer.analysis.effective_permissions import Meaning, never_cancelled
from records.columns.acl_table import AclTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.analysis.access_queries import Questions
    from authorizer.analysis.decision_changes import Flip
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.console.history.history_scan import History
    from authorizer.console.history.history_states import HistoryState
    from authorizer.engine.decisions.state import AuthorizerState


def find_decision_changes(
    before: AuthorizerState,
    after: AuthorizerState,
    walked: History | None = None,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[Flip]:
    """Every class of questions that two states answer differently.

    ``walked`` is the log that both are of, if it is one; what ``check_cancelled`` raises ends it.
    """
    old, new = (each.index.image.merged().columns for each in (before, after))
    ours, theirs = (each.settings.with_version_of(each.index.image) for each in (before, after))
    if ours != theirs:
        # By the rules of another release any answer may be another one.
        meanings = (
            Meaning.of(table, settings, check_cancelled=check_cancelled)
            for table, settings in ((old, ours), (new, theirs))
        )
        return list(flips_between(*meanings, check_cancelled=check_cancelled))
    changed = None if walked is None else _changed(walked, before.end_offset, after.end_offset)
    changed = changed or ChangedAcls.between(old, new)
    return flips_of_states(changed, old, new, theirs, check_cancelled)


def _changed(walked: History, first: int, last: int) -> ChangedAcls | None:
    """What was changed in between, and maybe back again; None where not all of it is held."""
    first, last = min(first, last), max(first, last)
    if walked.at(first) is None or walked.at(last) is None:
        return None
    between = [each for each in walked.moments if first < each.end_offset <= last]
    if any(each.changes is None for each in between):
        return None
    return ChangedAcls(_table(between, after=False), _table(between, after=True))


def _table(moments: Sequence[HistoryState], *, after: bool) -> AclTable:
    acls = (each.after if after else each.before for moment in moments for each in moment.changes or ())
    return AclTable.of([acl for acl in acls if acl is not None])


def decision_changes_json(
    flips: Sequence[Flip], count: int, before: AuthorizerState, after: AuthorizerState
) -> dict[str, Any]:
    """How many there are, and the first ones, with what decides on both sides."""
    granted = sum(flip.direction == "granted" for flip in flips)
    shown = []
    for version, some in groupby(flips[:count], key=attrgetter("version")):
        same = list(some)
        pair = before, after
        if version is not None:  # one that is not followed: neither state is by its rules
            about = [flip.questions for flip in same]
            pair = _by_rules_of(before, version, about), _by_rules_of(after, version, about)
        shown += [_decision_change_json(flip, *pair) for flip in same]
    return {
        "total": len(flips),
        "granted": granted,
        "revoked": len(flips) - granted,
        "flips": shown,
    }


def _by_rules_of(
    state: AuthorizerState, version: KafkaVersion, about: Sequence[Questions]
) -> AuthorizerState:
    table = state.index.image.merged().columns
    return state_about(table, about, state.settings.by_rules_of(version))


def _decision_change_json(flip: Flip, before: AuthorizerState, after: AuthorizerState) -> dict[str, Any]:
    """In words, with the question that stands for the class."""
    questions = flip.questions
    operation = questions.operations[0]
    witness = questions.witness
    return {
        "direction": flip.direction,
        "releases": flip.releases,
        "who": who(questions),
        "what": what(questions),
        "witness": {
            "principal": witness.principal,
            "operation": operation.name,
            "type": witness.resource_type.name,
            "name": witness.name,
            "host": witness.host,
        },
        "before": decision_json(decided(before, questions, operation)),
        "after": decision_json(decided(after, questions, operation)),
    }
