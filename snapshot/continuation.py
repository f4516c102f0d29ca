"""Why a log cannot be continued from a stored state: asked by a node's recovery and by a job's batch.

The answers are texts for people; None where it can be continued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from records.log.base import MetadataLog


class StateEnd(Protocol):
    """Where a state stands in its log: a Provenance says it, and the offer of a snapshot."""

    @property
    def end_offset(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def empty_tail(self) -> int: ...


def reason_too_old(
    log_end_time_ms: int | None, *, now_ms: int, removal_retention_ms: int | None
) -> str | None:
    """Why removals since then may have been forgotten (I10).

    Args:
        log_end_time_ms: the last time at which the state's end was the log's end; None if not recorded.
        now_ms: the same clock's time now.
        removal_retention_ms: of the log; None if it forgets none.
    """
    if removal_retention_ms is None:
        return None
    if log_end_time_ms is None:
        return "it does not say when its end was the log's end, and the log forgets removals"
    age_ms = now_ms - log_end_time_ms
    if age_ms * 2 < removal_retention_ms:
        return None
    return (
        f"its end was last the log's end {age_ms} ms ago, and the log forgets removals "
        f"after {removal_retention_ms} ms"
    )


def reason_diverged(log: MetadataLog, state: StateEnd) -> str | None:
    """How the log's history differs there from that of the state that stands there (I9, I11).

    Raises:
        LogError: the log cannot be read.
    """
    match log.is_history(state.end_offset, state.epoch, empty_tail=state.empty_tail):
        case True:
            return None
        case False:
            return (
                f"it ends in epoch {state.epoch}, and the log goes on there in another one: "
                "it may have been truncated and written on"
            )
        case None:
            return "nothing that can be decoded in the log shows that it belongs there"
