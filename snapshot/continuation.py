"""Checks whether a log can be continued from a stored state, for a node's recovery and for Spark batches.

The functions return the reason as text, or None if the log can be continued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from records.log.base import MetadataLog, StateEnd


def reason_too_old(
    log_end_time_ms: int | None, *, now_ms: int, removal_retention_ms: int | None
) -> str | None:
    """Why the log may have deleted removals that were written since (I10).

    ``removal_retention_ms`` is None if the log keeps all.
    """
    if removal_retention_ms is None:
        return None
    if log_end_time_ms is None:
        return "it does not record when its end was the log's end, and the log deletes old removals"
    age_ms = now_ms - log_end_time_ms
    if age_ms * 2 < removal_retention_ms:
        return None
    return (
        f"its end was last the log's end {age_ms} ms ago, and the log deletes removals "
        f"after {removal_retention_ms} ms"
    )


def reason_diverged(log: MetadataLog, state: StateEnd) -> str | None:
    """How the log's leader epochs differ from those of the state (I9, I11).

    Raises:
        LogError: the log cannot be read.
    """
    match log.is_history(state.end_offset, state.epoch, empty_tail=state.empty_tail):
        case True:
            return None
        case False:
            return (
                f"it ends in epoch {state.epoch}, but the log continues there in another epoch: "
                "the log may have been truncated and rewritten"
            )
        case None:
            return "the log has no decodable record that confirms its epoch there"
