"""Moments of a past and what they changed, as the page lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from authorizer.api.acl_json import applied_acl_json

if TYPE_CHECKING:
    from authorizer.console.history.history_states import Change, HistoryState
    from authorizer.engine.decisions.state import AuthorizerState


def state_offset_json(state: AuthorizerState) -> dict[str, int]:
    """Which state an answer is of: its end offset, and the time of its last record (0: not known)."""
    where = state.index.image.provenance
    return {"end_offset": where.end_offset, "timestamp": max(0, where.timestamp_ms)}


def history_state_json(moment: HistoryState) -> dict[str, Any]:
    """When it was, and how much it changed."""
    return {
        "end_offset": moment.end_offset,
        "timestamp": moment.timestamp_ms,
        "added": moment.added,
        "removed": moment.removed,
        "acls": len(moment.image),
        "unknown_from": moment.unknown_from,
        "first_record": moment.first_record,
    }


def change_entries(moment: HistoryState) -> list[dict[str, Any]]:
    """What one moment changed, ACL by ACL, the newest first; one line for all where that is not held.

    ``offset`` is that of the record that made the change, null where that is not known.
    """
    at = {"end_offset": moment.end_offset, "timestamp": moment.timestamp_ms}
    if moment.changes is None:
        return [at | {"kind": "many", "offset": None, "added": moment.added, "removed": moment.removed}]
    return [
        at | {"kind": _kind(each), "offset": each.offset, "acl": applied_acl_json(acl)}
        for each in sorted(moment.changes, key=lambda each: each.offset or 0, reverse=True)
        if (acl := each.after or each.before) is not None
    ]


def _kind(change: Change) -> str:
    if change.after is None:
        return "removed"
    return "added" if change.before is None else "replaced"
