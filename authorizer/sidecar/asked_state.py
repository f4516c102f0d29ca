"""Which state a question is answered on: the current one, or an earlier one that it names (``at_offset``).

The caller's rights are decided by the ACLs of now in either case: who has lost one does not get it back by
asking about the past.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from authorizer.errors import AuthorizerNotReadyError
from authorizer.sidecar.errors import ErrorCode, HttpError
from authorizer.sidecar.min_offset import wait_for_offset

if TYPE_CHECKING:
    from authorizer.decisions.state import AuthorizerState
    from authorizer.node import Node


async def asked_states(
    node: Node, *, min_offset: int | None = None, at_offset: int | None = None, early_start: bool = False
) -> tuple[AuthorizerState, AuthorizerState]:
    """The state that is asked, and that of now: mostly the same one; for all of a request (I1).

    Args:
        node: whose.
        min_offset: what must be visible in it; waited for.
        at_offset: the last record that counts, inclusive, as `--at-offset`; None: the current state.
        early_start: also one that is not ready, for super users (KIP-801).

    Raises:
        AuthorizerNotReadyError: it is not, and no ``early_start``.
        HttpError: 503, not visible yet; 410, not held any more.
    """
    end_offset = 0 if at_offset is None else at_offset + 1
    await wait_for_offset(node, max(min_offset or 0, end_offset))
    now = node.authorizer.state
    if not now.is_ready and not early_start:
        raise AuthorizerNotReadyError(now.not_ready_reason)
    return (now if at_offset is None else _held(node, at_offset)), now


def ready_state(node: Node) -> AuthorizerState:
    """The state of now. Raises AuthorizerNotReadyError."""
    state = node.authorizer.state
    if not state.is_ready:
        raise AuthorizerNotReadyError(state.not_ready_reason)
    return state


def _held(node: Node, at_offset: int) -> AuthorizerState:
    state = node.recent.at(at_offset + 1)
    if state is None:
        command = ["aclog", "check", "--log", node.log.url, "--at-offset", str(at_offset)]
        first = node.recent.first
        held = "none yet" if not first else f"the earliest is at offset {first - 1}"
        raise HttpError(
            ErrorCode.OFFSET_NOT_HELD,
            f"the state at offset {at_offset} is not held here: a node holds the last states that it has "
            f"published, {held}. Ask the log: {shlex.join(command)}",
        )
    return state
