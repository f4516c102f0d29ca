"""Moments of a past and what they changed, as the page lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from authorizer.acl_json import applied_acl_json

if TYPE_CHECKING:
    from authorizer.sidecar.console.moments import Change, Moment


def moment_json(moment: Moment) -> dict[str, Any]:
    """When it was, and how much it changed."""
    return {
        "offset": moment.end_offset,
        "timestamp": moment.timestamp_ms,
        "added": moment.added,
        "removed": moment.removed,
        "acls": len(moment.image),
        "unknown_from": moment.unknown_from,
    }


def change_lines(moment: Moment) -> list[dict[str, Any]]:
    """What one moment changed, ACL by ACL; one line for all where that is not held."""
    at = {"offset": moment.end_offset, "timestamp": moment.timestamp_ms}
    if moment.changes is None:
        return [at | {"kind": "many", "added": moment.added, "removed": moment.removed}]
    return [
        at | {"kind": _kind(each), "acl": applied_acl_json(acl)}
        for each in moment.changes
        if (acl := each.after or each.before) is not None
    ]


def _kind(change: Change) -> str:
    if change.after is None:
        return "removed"
    return "added" if change.before is None else "replaced"
