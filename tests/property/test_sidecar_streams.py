"""The sidecar's protocol, compared with stock uvicorn: random streams get the same answers in the same order.

Both have the same application. `support.driven_protocols` lists the intended differences of our protocol:
an answer before its request is complete is the last one, garbage is refused after the answers
to earlier requests, and the application gets an evaluation when it is complete.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from authorizer.listeners.connection_peer import Peer
from authorizer.listeners.listener import Listener
from authorizer.node.node import Node
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.auth.authenticator import Authenticator
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from authorizer.sidecar.http.limits import LoadLimiter
from authorizer.sidecar.http.protocol import SidecarProtocol
from authorizer.sidecar.http.request_metrics import RequestMetrics
from authorizer.sidecar.http.request_origin import Origin
from records.principal import ANONYMOUS, KafkaPrincipal
from support.driven_protocols import (
    ConnectionOutcome,
    FakeTransport,
    StockProtocol,
    protocol_settings,
    run_connection,
    server_state,
    when_complete,
)
from support.example_counts import examples
from support.http_streams import EVALUATION, EVALUATIONS, random_stream
from support.node_acls import topic_acl
from support.nodes import config_of, create, running_node

LISTENER = Listener(name="PLAINTEXT", url="http://localhost:8181", checks_names=True)
CALLERS = ("alice", "bob", "ANONYMOUS")

STREAMS = examples(gate=2_000, deep=20_000)


class Both:
    """One application behind two protocols; it knows tokens of alice and bob."""

    def __init__(self, node: Node, tokens_file: Path) -> None:
        self.tokens = []
        for name in CALLERS[:2]:
            token, stored = new_token(KafkaPrincipal("User", name))
            TOKENS_FILE.put(tokens_file, stored)
            self.tokens.append(token.encode())
        config = config_of(auth_tokens_file=tokens_file)
        self._load = LoadLimiter(config)
        self._requests = RequestMetrics()
        self._authenticator = Authenticator(config)
        app = SidecarApp(node, self._authenticator, self._load, self._requests)
        self._ours = protocol_settings(app)
        self._stock = protocol_settings(when_complete(app, (EVALUATION, EVALUATIONS)))

    async def learn_tokens(self) -> None:
        """Cache the tokens, so that no thread checks one and answers do not depend on its speed."""
        for token in self.tokens:
            await self._authenticator.caller([b"Bearer " + token], Origin(LISTENER, ANONYMOUS, "127.0.0.1"))

    async def by_ours(self, reads: tuple[bytes, ...]) -> ConnectionOutcome:
        of_uvicorn: dict[str, Any] = {
            "config": self._ours,
            "server_state": server_state(),
            "app_state": {},
        }
        admission = self._load.connections.admit(LISTENER, "127.0.0.1")
        assert admission is not None
        protocol = SidecarProtocol(LISTENER, self._requests, self._load, admission, **of_uvicorn)
        outcome = await run_connection(protocol, FakeTransport(), reads)
        assert self._load.waiting == 0
        return outcome

    async def by_stock(self, reads: tuple[bytes, ...]) -> ConnectionOutcome:
        state = {"peer": Peer(LISTENER, ANONYMOUS, is_proxy=False)}
        protocol = StockProtocol(self._stock, server_state(), state)
        return await run_connection(protocol, FakeTransport(), reads)

    def close(self) -> None:
        self._authenticator.close()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    with running_node(tmp_path / "log", log_mode="create", audit_level="OFF") as node:
        create(node, [topic_acl("orders")])
        both = Both(node, tmp_path / "tokens")
        yield both
        both.close()


@pytest.mark.slow
def test_random_streams_are_answered_as_by_stock_uvicorn(both: Both) -> None:
    """Callers, decisions, order, and the end of the connection are compared."""
    seen: Counter[str] = Counter()

    async def compare() -> None:
        await both.learn_tokens()
        for seed in range(STREAMS):
            stream = random_stream(seed, both.tokens, CALLERS)
            stock = await both.by_stock(stream.for_stock)
            ours = await both.by_ours(stream.reads)
            assert ours == stock, (seed, stream.reads)
            seen.update(str(answer.status) for answer in ours.answers)
            seen["closed"] += ours.is_closed
            seen["answers"] += len(ours.answers)

    asyncio.run(compare())
    print(f"{STREAMS} streams: {dict(seen)}")
    # The streams contain answers to compare.
    assert seen["answers"] > 2 * STREAMS
    assert min(seen[status] for status in ("100", "200", "400", "401", "403", "404", "405", "421")) > 0
    assert STREAMS / 10 < seen["closed"] < STREAMS
