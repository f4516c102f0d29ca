"""Decision changes between two states, in classes of requests, and their JSON."""

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
    history: History | None = None,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[Flip]:
    """Every class of requests that two states decide differently.

    ``history``: of the log, if both are its states. An error of ``check_cancelled`` ends the comparison.
    """
    old, new = (each.index.image.merged().columns for each in (before, after))
    old_settings, new_settings = (each.settings.with_version_of(each.index.image) for each in (before, after))
    if old_settings != new_settings:
        # Under the rules of another release any decision may change.
        meanings = (
            Meaning.of(table, settings, check_cancelled=check_cancelled)
            for table, settings in ((old, old_settings), (new, new_settings))
        )
        return list(flips_between(*meanings, check_cancelled=check_cancelled))
    changed = None if history is None else _changed_between(history, before.end_offset, after.end_offset)
    changed = changed or ChangedAcls.between(old, new)
    return flips_of_states(changed, old, new, new_settings, check_cancelled)


def _changed_between(history: History, first: int, last: int) -> ChangedAcls | None:
    """The ACLs changed in between, even if changed back; None if not all changes are held."""
    first, last = min(first, last), max(first, last)
    if history.index_at(first) is None or history.index_at(last) is None:
        return None
    between = [each for each in history.states if first < each.end_offset <= last]
    if any(each.changes is None for each in between):
        return None
    return ChangedAcls(_table(between, after=False), _table(between, after=True))


def _table(states: Sequence[HistoryState], *, after: bool) -> AclTable:
    acls = (each.after if after else each.before for state in states for each in state.changes or ())
    return AclTable.of([acl for acl in acls if acl is not None])


def decision_changes_json(
    flips: Sequence[Flip], count: int, before: AuthorizerState, after: AuthorizerState
) -> dict[str, Any]:
    """The number of changes, and the first ones with the deciding ACL or rule on both sides."""
    granted = sum(flip.direction == "granted" for flip in flips)
    shown = []
    for version, some in groupby(flips[:count], key=attrgetter("version")):
        group = list(some)
        pair = before, after
        if version is not None:  # neither state was decided by the rules of this release
            about = [flip.questions for flip in group]
            pair = _by_rules_of(before, version, about), _by_rules_of(after, version, about)
        shown += [_decision_change_json(flip, *pair) for flip in group]
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
    """The class in words, with its witness."""
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
