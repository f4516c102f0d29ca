"""The other nodes of the same log (``aclog.console.peers``): where each stands, and whether it agrees.

The node asks them itself, when people look, all at once and each for a bounded time and answer. No
redirect is followed, and what they answer is taken for text. Two nodes agree when they have the same digest
at the same offset: that of another node is compared with the state that this one has there, or had. What
another node is ahead by is compared when this one has come there.
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
from authorizer.client.exchange import FAULTS, fault_of, value_of
from authorizer.console.process.thread_pool import run_in_console_thread
from records.ids import uuid_to_string
from snapshot.digest import digest_to_string

if TYPE_CHECKING:
    from authorizer.configuration.load import Config
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node

#: For how long one may take, in all; and how long what was found is given out.
TIMEOUT_S: Final = 2.0
_KEPT_S: Final = 2.0
#: A node's answer has some kilobytes.
_ANSWER_BYTES_MAX: Final = 64 * 1024
_REASON_MAX: Final = 300

_Text = Annotated[str, msgspec.Meta(max_length=1000)]
_Count = Annotated[int, msgspec.Meta(ge=0)]

#: away: nothing is known of it; other log: there is nothing to compare; unknown: not compared yet.
Verdict = Literal["agrees", "differs", "other log", "unknown", "away"]


class Release(msgspec.Struct, frozen=True):
    """Whose rules a node follows; None: it does not know which release's."""

    version: _Text | None


class PeerState(msgspec.Struct, frozen=True):
    """What is looked at of a node's ``/v1/state``."""

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
    """One of them at one moment.

    Attributes:
        verdict, why: whether it agrees with this node; in a sentence.
        state: as it answered; None if it has not.
    """

    url: str
    verdict: Verdict
    why: str
    state: PeerState | None = None


class PeerNodes:
    """Those of one node; from the event loop only."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._peers = [_Peer(url, node.config) for url in node.config.console_peers]
        self._found: tuple[PeerNode, ...] = ()
        self._found_at_s: float | None = None
        self._looking = asyncio.Lock()

    async def look(self) -> tuple[PeerNode, ...]:
        """All of them, in the configuration's order; who asks meanwhile gets the same answer."""
        async with self._looking:
            if self._found_at_s is None or time.monotonic() - self._found_at_s >= _KEPT_S:
                self._found = tuple(await asyncio.gather(*(each.look(self._node) for each in self._peers)))
                self._found_at_s = time.monotonic()
            return self._found


class _Peer:
    def __init__(self, url: str, config: Config) -> None:
        self._url = url
        self._config = config
        #: Its answer before: ahead of this node then, it may be comparable now.
        self._before: PeerState | None = None

    async def look(self, node: Node) -> PeerNode:
        try:
            state = await self._ask()
        except SidecarError as error:
            return PeerNode(self._url, "away", str(error)[:_REASON_MAX])
        earlier, self._before = self._before, state
        if earlier is not None and earlier.offset > state.offset:
            earlier = None  # its log was truncated, or it was started again
        identity, here = node.status().identity, node.authorizer.state
        if identity is None or (state.cluster_id, state.topic_id) != (
            identity.cluster_id,
            uuid_to_string(identity.topic_id),
        ):
            return PeerNode(self._url, "other log", "it follows another log than this node", state)
        for each in (state, earlier):
            if each is not None and (own := _digest_at(node, here, each.offset)) is not None:
                return self._compared(each, own, state)
        return PeerNode(self._url, "unknown", _why_unknown(here, state), state)

    def _compared(self, at: PeerState, own: str, state: PeerState) -> PeerNode:
        if at.digest == own:
            return PeerNode(self._url, "agrees", f"the same ACLs at offset {at.offset - 1}", state)
        why = f"other ACLs at offset {at.offset - 1}: digest {at.digest} there, {own} here"
        return PeerNode(self._url, "differs", why, state)

    async def _ask(self) -> PeerState:
        """Raises SidecarError: there is no answer, or none as a node gives it."""
        call = Call("GET", "/v1/state", msgspec.json.Decoder(PeerState).decode)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                address = await run_in_console_thread(self._address)
                return value_of(self._url, call, await self._exchange(call, address))
        except TimeoutError as error:
            raise SidecarAnswerError(
                f"{self._url} has not answered whole within {TIMEOUT_S:.0f} s"
            ) from error
        except FAULTS as error:
            raise fault_of(self._url, call, error) from error

    def _address(self) -> Address:
        """With the credentials as they are now. Raises SidecarError: they cannot be used."""
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
            raise SidecarUnreachedError(f"{self._url}: it cannot be asked: {error}") from error

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
                        raise SidecarAnswerError(f"{self._url} answers more than a node does: it is not read")
        whole = httpcore.Response(response.status, headers=response.headers, content=bytes(body))
        whole.read()
        return whole


def _digest_at(node: Node, here: AuthorizerState, offset: int) -> str | None:
    """This node's at an offset; None where its state there is not held."""
    state = here if offset == here.end_offset else node.recent.at(offset)
    return None if state is None else digest_to_string(state.index.image.digest)


def _why_unknown(here: AuthorizerState, state: PeerState) -> str:
    if state.offset > here.end_offset:
        return f"it is ahead of this node, which has come to offset {here.end_offset - 1}: not compared yet"
    return (
        f"this node does not hold the state at offset {state.offset - 1} any more, only the last ones that "
        "it has published: not compared"
    )
