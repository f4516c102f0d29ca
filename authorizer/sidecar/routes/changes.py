"""``/v1/changes``: changes of ACLs as server-sent events.

    start       the following changes are those after this offset
    change      the removed and added ACLs; its offset is the event's id
    current     all changes up to its offset were sent: after they were, and while there are no changes
    reload      the client must discard its ACLs and list all ACLs again, at this offset or later
    not-ready   the state is not reliable from now on, with the reason
    ready       the state is reliable again

The rules:

- The caller needs Describe on the cluster. The stream ends when it loses that right; and after an hour,
  because a token may have expired. A client reconnects with the last id.
- ``Last-Event-ID`` continues after that event, or after a listing of that offset, as far back as changes are
  retained (``change_feed``); otherwise the first event is a reload. A client that is too slow gets one, too.
- A client needs no more memory than the events that are being sent to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.errors import RETRY, HttpError, invalid_request
from authorizer.sidecar.http.request_response import origin_of
from authorizer.sidecar.routes.endpoint import GUARD_ERRORS, declare_endpoint
from authorizer.sidecar.routes.request_state import RequestStates, ready_state
from records.acl import AclOperation

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from authorizer.node.change_feed import RetainedChanges
    from authorizer.node.node import Node
    from authorizer.sidecar.http.request_origin import Origin

#: Clients that follow at the same time.
STREAMS_MAXIMUM: Final = 100
#: Seconds after which a quiet stream says that it is alive.
HEARTBEAT_S: Final = 15.0

#: Seconds after which a stream ends: who comes again is asked again who it is.
STREAM_S: Final = 3_600.0

_HEADERS: Final = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))
_DESCRIPTION: Final = (
    "Server-sent events: start, change, current, reload, not-ready and ready, whose data is a JSON object. "
    "The id of an event is the offset to continue after. The data of a change has its offset, and the ACLs "
    "that it removed and added."
)
_HEARTBEAT: Final = b":\n\n"
_REQUEST_NAME: Final = "FollowChanges"
# ACLs of a change that are encoded on the event loop; more take milliseconds.
_ENCODED_AT_ONCE: Final = 100
#: Digits of an int64.
_OFFSET_DIGITS_MAXIMUM: Final = 19


class ChangeRoutes:
    """The handlers of one node, and its streams."""

    def __init__(self, node: Node, states: RequestStates) -> None:
        self._node = node
        self._states = states
        self._streams: set[ChangeStream] = set()

    # OpenAPI 3.1 cannot describe a stream of events.
    @declare_endpoint(
        "GET",
        "/v1/changes",
        "Follow the changes of ACLs",
        description=_DESCRIPTION,
        headers={"Last-Event-ID": {"type": "string", "pattern": "^([0-9]{1,19})?$"}},
        errors=(*GUARD_ERRORS, ErrorCode.INVALID_REQUEST, ErrorCode.TOO_MANY_STREAMS),
        media_type="text/event-stream",
    )
    async def changes(self, request: Request) -> ChangeStream:
        last = _last_event_id(request)
        origin = origin_of(request)
        Caller(self._node, ready_state(self._node), origin, _REQUEST_NAME).require_on_cluster(
            AclOperation.DESCRIBE
        )
        if len(self._streams) >= STREAMS_MAXIMUM:
            raise HttpError(
                ErrorCode.TOO_MANY_STREAMS,
                f"{len(self._streams)} clients follow the changes: at most {STREAMS_MAXIMUM} do at a time",
                RETRY,
            )
        if last is not None:
            # It may come from a node that is further on; or from a log that is not there any more.
            with contextlib.suppress(HttpError):
                await self._states.wait(origin, last)
        return ChangeStream(self._node, origin, last, self._streams)

    def close(self) -> None:
        """End all streams. For any thread."""
        for stream in tuple(self._streams):
            stream.close()


class ChangeStream:
    """One client's stream: an ASGI response."""

    def __init__(self, node: Node, origin: Origin, last: int | None, streams: set[ChangeStream]) -> None:
        """``last``: send the changes after this offset; None: from now on. ``streams``: the open ones."""
        self._node = node
        self._origin = origin
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._awake = asyncio.Event()
        self._is_over = False
        self._is_ready = True
        known = node.changes.retained
        self._generation = known.generation
        self._offset = known.end if last is None else last
        # What it says first.
        self._begin = known.since(self._offset) is not None

    def close(self) -> None:
        """End it soon. For any thread."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        # The server, and its loop, may be gone.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._awake.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client leaves, or may not follow any more."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if scope["method"] != "HEAD":
            self._streams.add(self)
            self._node.changes.subscribe(self._wake)
            leaving = asyncio.create_task(self._wait_for_leave(receive))
            try:
                await self._follow(send)
            finally:
                leaving.cancel()
                self._node.changes.unsubscribe(self._wake)
                self._streams.discard(self)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait_for_leave(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.close()

    async def _follow(self, send: Send) -> None:
        if self._begin:
            await self._send(send, _event("start", {"offset": self._offset}, self._offset))
        end_s = self._loop.time() + STREAM_S
        is_quiet = True
        while not self._is_over and self._loop.time() < end_s:
            self._awake.clear()
            await self._send_news(send)
            if self._is_over:
                return
            if is_quiet:
                is_quiet = not await self._send_current(send)
            try:
                await asyncio.wait_for(self._awake.wait(), HEARTBEAT_S)
            except TimeoutError:
                is_quiet = True

    async def _send_current(self, send: Send) -> bool:
        """Send ``current``, or a heartbeat while not ready; False: changes must be sent first."""
        if not self._is_ready:
            await self._send(send, _HEARTBEAT)
            return True
        known = self._node.changes.retained
        if self._is_behind(known):
            return False  # a change that has just come, and wakes the stream
        self._offset = known.end
        await self._send(send, _event("current", {"offset": known.end}, known.end))
        return True

    async def _send_news(self, send: Send) -> None:
        """Send all changes since the last event; none while the node is not ready."""
        state = self._node.authorizer.state
        if state.is_ready is not self._is_ready:
            self._is_ready = state.is_ready
            if state.is_ready:
                await self._send(send, _event("ready", {"offset": state.end_offset}))
            else:
                await self._send(send, _event("not-ready", {"reason": state.not_ready_reason}))
        known = self._node.changes.retained
        while self._is_ready and not self._is_over and self._is_behind(known):
            if not self._may_follow():
                self._is_over = True
                return
            await self._send_next(send, known)
            known = self._node.changes.retained

    def _is_behind(self, known: RetainedChanges) -> bool:
        return known.generation != self._generation or known.since(self._offset) != ()

    async def _send_next(self, send: Send, known: RetainedChanges) -> None:
        changes = known.since(self._offset) if known.generation == self._generation else None
        if changes is None:
            self._generation, self._offset = known.generation, known.end
            news = {
                "offset": known.end,
                "reason": "what changed before is not known here: list all ACLs anew",
            }
            await self._send(send, _event("reload", news, known.end))
            return
        change = changes[0]
        head, end = b"id: %d\nevent: change\ndata: " % change.offset, b"\n\n"
        self._offset = change.offset
        if len(change) <= _ENCODED_AT_ONCE:
            await self._send(send, head + change.json() + end)
            return
        data = await asyncio.to_thread(change.json)
        # Not joined: the data is the same for all streams.
        for each in (head, data, end):
            await self._send(send, each)

    def _may_follow(self) -> bool:
        """Whether the current ACLs allow it; true while the node is not ready."""
        try:
            caller = Caller(self._node, self._node.authorizer.state, self._origin, _REQUEST_NAME)
            return caller.may_list()
        except AuthorizerNotReadyError:
            return True

    async def _send(self, send: Send, event: bytes) -> None:
        await send({"type": "http.response.body", "body": event, "more_body": True})


def _event(name: str, data: dict[str, object], offset: int | None = None) -> bytes:
    shown = b"" if offset is None else b"id: %d\n" % offset
    return b"%bevent: %b\ndata: %b\n\n" % (shown, name.encode("ascii"), msgspec.json.encode(data))


def _last_event_id(request: Request) -> int | None:
    text = request.headers.get("last-event-id", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _OFFSET_DIGITS_MAXIMUM):
        raise invalid_request(f"Last-Event-ID must be an offset, not `{text[:80]}`")
    return int(text)
