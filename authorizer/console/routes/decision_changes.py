"""Decision changes between two states, in classes of requests, and their JSON."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from authorizer.analysis.acl_comparison import ChangedAcls
from authorizer.analysis.decision_changes import decision_changes_between, decision_changes_of_states
from authorizer.analysis.effective_permissions import EffectivePermissions, never_cancelled
from authorizer.analysis.request_class_text import describe_class, describe_principal
from authorizer.analysis.witness import decide_witness, state_for_witnesses
from records.columns.acl_table import AclTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.analysis.decision_changes import DecisionChange
    from authorizer.analysis.witness import Witness
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.console.history.history_scan import History
    from authorizer.console.history.history_states import HistoryState
    from authorizer.engine.decisions.state import AuthorizerState


def find_decision_changes(
    before: AuthorizerState,
    after: AuthorizerState,
    history: History | None = None,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[DecisionChange]:
    """Every class of requests that two states decide differently.

    ``history``: of the log, if both are its states. An error of ``check_cancelled`` ends the comparison.
    """
    old, new = (each.index.image.merged().columns for each in (before, after))
    old_settings, new_settings = (each.settings.with_version_of(each.index.image) for each in (before, after))
    if old_settings != new_settings:
        # Under the rules of another release any decision may change.
        meanings = (
            EffectivePermissions.of(table, settings, check_cancelled=check_cancelled)
            for table, settings in ((old, old_settings), (new, new_settings))
        )
        return list(decision_changes_between(*meanings, check_cancelled=check_cancelled))
    changed = None if history is None else _changed_between(history, before.end_offset, after.end_offset)
    changed = changed or ChangedAcls.between(old, new)
    return decision_changes_of_states(changed, old, new, new_settings, check_cancelled)


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
    flips: Sequence[DecisionChange], count: int, before: AuthorizerState, after: AuthorizerState
) -> dict[str, Any]:
    """The number of changes, and the first ones with the deciding ACL or rule on both sides."""
    granted = sum(flip.direction == "granted" for flip in flips)
    shown = []
    for version, some in groupby(flips[:count], key=attrgetter("version")):
        group = list(some)
        pair = before, after
        if version is not None:  # neither state was decided by the rules of this release
            about = [flip.request_class.witness for flip in group]
            pair = _by_rules_of(before, version, about), _by_rules_of(after, version, about)
        shown += [_decision_change_json(flip, *pair) for flip in group]
    return {
        "total": len(flips),
        "granted": granted,
        "revoked": len(flips) - granted,
        "flips": shown,
    }


def _by_rules_of(state: AuthorizerState, version: KafkaVersion, about: Sequence[Witness]) -> AuthorizerState:
    table = state.index.image.merged().columns
    return state_for_witnesses(table, about, state.settings.with_version(version))


def _decision_change_json(
    flip: DecisionChange, before: AuthorizerState, after: AuthorizerState
) -> dict[str, Any]:
    """The class in words, with its witness."""
    questions = flip.request_class
    operation = questions.operations[0]
    witness = questions.witness
    return {
        "direction": flip.direction,
        "releases": flip.releases,
        "who": describe_principal(questions),
        "what": describe_class(questions),
        "witness": {
            "principal": witness.principal,
            "operation": operation.name,
            "type": witness.resource_type.name,
            "name": witness.name,
            "host": witness.host,
        },
        "before": decide_witness(before, questions.witness, operation).to_json(),
        "after": decide_witness(after, questions.witness, operation).to_json(),
    }
