"""Requests that were refused, counted by reason and logged, without anything of their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from authorizer.sidecar.auth.rejection import Reason

if TYPE_CHECKING:
    from authorizer.sidecar.auth.rejection import RefusalError
    from authorizer.sidecar.http.request_origin import Origin

log = structlog.get_logger(__name__)

#: A reason is logged at most this often; how often it was not is in the next line.
LOGGED_EVERY_S: Final = 10.0


class Refusals:
    """Those of one sidecar. Not thread-safe: the event loop's.

    Attributes:
        counts: by reason, each from the start on.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Reason, 0)
        self._logged: dict[Reason, tuple[float, int]] = {}

    def add(self, refusal: RefusalError, origin: Origin, now_s: float) -> None:
        """Count it, and log it unless its reason was logged a short time ago."""
        reason = refusal.reason
        self.counts[reason] += 1
        count = self.counts[reason]
        logged_at_s, count_then = self._logged.get(reason, (float("-inf"), 0))
        if now_s - logged_at_s < LOGGED_EVERY_S:
            return
        self._logged[reason] = now_s, count
        log.warning(
            "caller_refused",
            reason=reason.value,
            message=refusal.message,
            address=origin.address,
            listener=origin.listener.name,
            since_last_line=count - count_then,
        )
