"""The state of a request: the current one, or the one at ``at_offset``; and waiting for ``min_offset``.

The current ACLs decide the caller's rights in either case: a caller must not regain a lost right by a request
about the past.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final, TypeVar

from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.api.http.error_code import ErrorCode
from authorizer.listeners.connection_limiter import FairShare
from authorizer.sidecar.http.errors import RETRY, HttpError, invalid_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node
    from authorizer.sidecar.http.limits import LoadLimiter
    from authorizer.sidecar.http.request_origin import Origin

_T = TypeVar("_T")

#: Seconds that a request waits at most.
MIN_OFFSET_TIMEOUT_S: Final = 5.0
#: Records that an offset may be beyond the end of the log, as far as the node knows it: what others may write
#: before it looks again.
AHEAD_MAX: Final = 1_000_000


async def wait_for_offset(node: Node, end_offset: int) -> None:
    """Return when everything below ``end_offset`` is visible.

    HttpError: 503, after MIN_OFFSET_TIMEOUT_S; 400, the offset is far beyond the log's end.
    """
    if end_offset <= visible_end(node):
        return
    known_end = max(node.status().high_watermark or 0, visible_end(node))
    if end_offset > known_end + AHEAD_MAX:
        raise invalid_request(
            f"offset {end_offset} is more than {AHEAD_MAX} beyond the end of the log, which is {known_end} "
            f"as far as this node knows: wait for an offset that a write to this log was answered with"
        )
    waiting = asyncio.wrap_future(node.visible(end_offset))
    try:
        is_visible = await asyncio.wait_for(waiting, MIN_OFFSET_TIMEOUT_S)
    except TimeoutError:
        is_visible = False
    if not is_visible:
        raise HttpError(
            ErrorCode.OFFSET_NOT_VISIBLE,
            f"min_offset {end_offset} is not visible here after {MIN_OFFSET_TIMEOUT_S:g} s; "
            f"this node has applied the log up to {visible_end(node)}",
            RETRY,
        )


async def results_and_end(node: Node, futures: Sequence[Future[_T]]) -> tuple[list[_T], int]:
    """Wait for a change of ACLs; return its results and the end offset at which it is visible."""
    results = await asyncio.gather(*map(asyncio.wrap_future, futures))
    return results, visible_end(node)


def visible_end(node: Node) -> int:
    """The end offset of the state that decisions are made on now."""
    return node.authorizer.state.index.image.provenance.end_offset


class RequestStates:
    """Finds the states of requests to one node, and limits the requests that wait for one."""

    def __init__(self, node: Node, load: LoadLimiter) -> None:
        self._node = node
        self._load = load
        self._waiting = FairShare()

    async def states(
        self,
        origin: Origin,
        require: Callable[[AuthorizerState], object],
        *,
        min_offset: int | None = None,
        at_offset: int | None = None,
        early_start: bool = False,
    ) -> tuple[AuthorizerState, AuthorizerState]:
        """The requested state and the current one, often the same; used for the complete request (I1).

        ``require`` raises HttpError 403 if the caller may not ask that by a state. It is called before the
        request waits: a caller without the right takes no place. Afterwards the rights are checked again by
        who calls this, on the state of then. ``min_offset``: what must be visible in the state; waited for.
        ``at_offset``: the last record that counts, inclusive, as `--at-offset`; None: the current state.
        ``early_start``: also a state that is not ready, for super users (KIP-801).

        HttpError: 503, not visible yet, or too many wait; 410, not held any more; 400, no offset of the log.
        """
        end_offset = max(min_offset or 0, 0 if at_offset is None else at_offset + 1)
        if end_offset > visible_end(self._node):
            require(self._current_state(early_start=early_start))
            await self.wait(origin, end_offset)
        now = self._current_state(early_start=early_start)
        return (now if at_offset is None else _retained_state(self._node, at_offset)), now

    async def wait(self, origin: Origin, end_offset: int) -> None:
        """Wait until all below an offset is visible, in a place of the address; raises as ``states``."""
        address = origin.address
        if not self._waiting.take(address, self._load.offset_waits_max):
            raise self._load.offset_waits_error(self._waiting.taken)
        try:
            await wait_for_offset(self._node, end_offset)
        finally:
            self._waiting.release(address)

    def _current_state(self, *, early_start: bool) -> AuthorizerState:
        now = self._node.authorizer.state
        if not now.is_ready and not early_start:
            raise AuthorizerNotReadyError(now.not_ready_reason)
        return now


def ready_state(node: Node) -> AuthorizerState:
    """The current state. Raises AuthorizerNotReadyError."""
    state = node.authorizer.state
    if not state.is_ready:
        raise AuthorizerNotReadyError(state.not_ready_reason)
    return state


def _retained_state(node: Node, at_offset: int) -> AuthorizerState:
    state = node.recent_states.at(at_offset + 1)
    if state is None:
        command = ["aclog", "check", "--log", node.log.url, "--at-offset", str(at_offset)]
        first = node.recent_states.first
        held = "none yet" if not first else f"the earliest is at offset {first - 1}"
        raise HttpError(
            ErrorCode.OFFSET_NOT_HELD,
            f"the state at offset {at_offset} is not held here: a node holds the last states that it has "
            f"published, {held}. Ask the log: {shlex.join(command)}",
        )
    return state
