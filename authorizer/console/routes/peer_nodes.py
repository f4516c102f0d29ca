"""State of the other nodes of the same log (``aclog.console.peers``), and whether they agree with this node.

The node queries them concurrently while the page is open, with a limit on the time and size of each answer.
It follows no redirect. Two nodes agree if they have the same digest at the same offset. A node that is ahead
is compared when this node reaches its offset.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import httpcore
import msgspec

from authorizer.api.errors import SidecarAnswerError, SidecarError, SidecarUnreachedError
from authorizer.client.address import Address, Credentials, bearer_token
from authorizer.client.calls import Call
from authorizer.client.exchange import TRANSPORT_ERRORS, error_of_transport, value_of_response
from authorizer.console.threads import run_in_console_thread
from records.ids import uuid_to_string
from snapshot.digest import digest_to_string

if TYPE_CHECKING:
    from authorizer.configuration.load import Config
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node

#: Time limit of one query, and how long the results are cached.
TIMEOUT_S: Final = 2.0
_CACHE_TTL_S: Final = 2.0
#: A node's answer has a few kilobytes.
_ANSWER_BYTES_MAX: Final = 64 * 1024
_REASON_MAX: Final = 300

_Text = Annotated[str, msgspec.Meta(max_length=1000)]
_Count = Annotated[int, msgspec.Meta(ge=0)]

#: away: not reachable; other log: not comparable; unknown: not compared yet.
Verdict = Literal["agrees", "differs", "other log", "unknown", "away"]


class Release(msgspec.Struct, frozen=True):
    """The Kafka release whose rules a node follows; None if unknown."""

    version: _Text | None


class PeerState(msgspec.Struct, frozen=True):
    """The fields of a node's ``/v1/state`` that are compared or shown."""

    cluster_id: _Text | None
    topic_id: _Text | None
    offset: _Count
    lag_records: int | None
    acl_count: _Count
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    ready: bool
    reason: _Text | None
    kafka_version: Release


class PeerNode(msgspec.Struct, frozen=True):
    """One node's result."""

    url: str
    verdict: Verdict
    why: str
    state: PeerState | None = None


class PeerNodes:
    """Polls the configured nodes. Use from the event loop only."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._peers = [_Peer(url, node.config) for url in node.config.console_peers]
        self._results: tuple[PeerNode, ...] = ()
        self._polled_at_s: float | None = None
        self._lock = asyncio.Lock()

    async def poll(self) -> tuple[PeerNode, ...]:
        """Return the results in the configuration's order; concurrent callers share one poll."""
        async with self._lock:
            if self._polled_at_s is None or time.monotonic() - self._polled_at_s >= _CACHE_TTL_S:
                self._results = tuple(await asyncio.gather(*(each.poll(self._node) for each in self._peers)))
                self._polled_at_s = time.monotonic()
            return self._results


class _Peer:
    def __init__(self, url: str, config: Config) -> None:
        self._url = url
        self._config = config
        #: The previous answer: if it was ahead of this node, it may be comparable now.
        self._previous: PeerState | None = None

    async def poll(self, node: Node) -> PeerNode:
        try:
            state = await self._fetch_state()
        except SidecarError as error:
            return PeerNode(self._url, "away", str(error)[:_REASON_MAX])
        earlier, self._previous = self._previous, state
        if earlier is not None and earlier.offset > state.offset:
            earlier = None  # its log was truncated, or it was restarted
        identity, current = node.status().identity, node.authorizer.state
        if identity is None or (state.cluster_id, state.topic_id) != (
            identity.cluster_id,
            uuid_to_string(identity.topic_id),
        ):
            return PeerNode(self._url, "other log", "it follows another log than this node", state)
        for each in (state, earlier):
            if each is not None and (digest := _digest_at(node, current, each.offset)) is not None:
                return self._compare(each, digest, state)
        return PeerNode(self._url, "unknown", _unknown_reason(current, state), state)

    def _compare(self, compared: PeerState, digest: str, state: PeerState) -> PeerNode:
        if compared.digest == digest:
            return PeerNode(self._url, "agrees", f"the same ACLs at offset {compared.offset - 1}", state)
        reason = (
            f"different ACLs at offset {compared.offset - 1}: digest {compared.digest} there, {digest} here"
        )
        return PeerNode(self._url, "differs", reason, state)

    async def _fetch_state(self) -> PeerState:
        """Raises SidecarError: there is no answer, or no valid one."""
        call = Call("GET", "/v1/state", msgspec.json.Decoder(PeerState).decode)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                address = await run_in_console_thread(self._address)
                return value_of_response(self._url, call, await self._exchange(call, address))
        except TimeoutError as error:
            raise SidecarAnswerError(
                f"{self._url} sent no complete answer within {TIMEOUT_S:.0f} s"
            ) from error
        except TRANSPORT_ERRORS as error:
            raise error_of_transport(self._url, call, error) from error

    def _address(self) -> Address:
        """The address with the current credentials. Raises SidecarError: they cannot be used."""
        config = self._config
        token, ca, certificate = (
            None if each is None else Path(each)
            for each in (
                config.console_peers_token_file,
                config.console_peers_ca_file,
                config.console_peers_certificate_file,
            )
        )
        try:
            text = None if token is None else bearer_token(token.read_text("utf-8", "replace"))
            credentials = Credentials(token=text, ca_file=ca, certificate_file=certificate)
            return Address(self._url, credentials)
        except (OSError, ValueError) as error:
            raise SidecarUnreachedError(
                f"{self._url}: cannot use the credentials or the address: {error}"
            ) from error

    async def _exchange(self, call: Call[PeerState], address: Address) -> httpcore.Response:
        body = bytearray()
        with ExitStack() as opened:
            request = address.request(call.method, call.target, {}, timeout_s={})
            async with (
                address.async_pool(opened) as pool,
                pool.stream(**request) as response,
            ):
                async for part in response.aiter_stream():
                    body += part
                    if len(body) > _ANSWER_BYTES_MAX:
                        raise SidecarAnswerError(
                            f"{self._url} sent more than {_ANSWER_BYTES_MAX} bytes: not an answer of a node"
                        )
        complete = httpcore.Response(response.status, headers=response.headers, content=bytes(body))
        complete.read()
        return complete


def _digest_at(node: Node, current: AuthorizerState, offset: int) -> str | None:
    """This node's digest at an offset; None if that state is not retained."""
    state = current if offset == current.end_offset else node.recent_states.at(offset)
    return None if state is None else digest_to_string(state.index.image.digest)


def _unknown_reason(current: AuthorizerState, state: PeerState) -> str:
    if state.offset > current.end_offset:
        return f"it is ahead of this node, which is at offset {current.end_offset - 1}: not compared yet"
    return (
        f"this node no longer holds the state at offset {state.offset - 1}, only its last published ones: "
        "not compared"
    )
