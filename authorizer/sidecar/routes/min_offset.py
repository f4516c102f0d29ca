"""``min_offset``: a request waits until a write is visible here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import RETRY, HttpError, invalid_request

if TYPE_CHECKING:
    from authorizer.node.node import Node

#: Seconds that a request waits at most.
MIN_OFFSET_TIMEOUT_S: Final = 5.0
#: Records that an offset may be beyond the end of the log, as far as the node knows it: what others may write
#: before it looks again.
AHEAD_MAX: Final = 1_000_000


async def wait_for_offset(node: Node, end_offset: int) -> None:
    """Return when everything below ``end_offset`` is visible.

    Raises:
        HttpError: 503, it is not after MIN_OFFSET_TIMEOUT_S; 400, it cannot be: the log is not that long.
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


def visible_end(node: Node) -> int:
    """The end offset of the state that decisions are made on now."""
    return node.authorizer.state.index.image.provenance.end_offset
