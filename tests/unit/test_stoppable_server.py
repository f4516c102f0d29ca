"""StoppableServer: ends when it is stopped, and wakes rarely until then."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn

from authorizer.sidecar.http.servers import StoppableServer

_TIMEOUT_S = 30.0


class CountingServer(StoppableServer):
    """Counts its ticks, and uses no socket."""

    def __init__(self) -> None:
        super().__init__(uvicorn.Config(_app, lifespan="off", log_config=None))
        self.ticks = 0
        self.has_ticked_often = asyncio.Event()

    async def on_tick(self, counter: int) -> bool:
        self.ticks += 1
        if self.ticks == 3:
            self.has_ticked_often.set()
        return await super().on_tick(counter)


async def _app(*_args: object) -> None:
    """Answer nothing."""


def test_stop_ends_the_main_loop_without_another_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Called in another thread, as ServerThread.close does."""
    monkeypatch.setattr("authorizer.sidecar.http.servers._TICK_INTERVAL_S", 10 * _TIMEOUT_S)

    async def run() -> int:
        server = CountingServer()
        running = asyncio.create_task(server.main_loop())
        await asyncio.sleep(0)
        assert [key for key, _ in server.server_state.default_headers] == [b"date"]
        await asyncio.to_thread(server.stop)
        await asyncio.wait_for(running, _TIMEOUT_S)
        return server.ticks

    assert asyncio.run(run()) == 2


def test_stop_before_the_main_loop_ends_it_immediately() -> None:
    async def run() -> int:
        server = CountingServer()
        server.stop()
        await asyncio.wait_for(server.main_loop(), _TIMEOUT_S)
        return server.ticks

    assert asyncio.run(run()) == 1


def test_stop_after_the_end_of_the_event_loop_does_nothing() -> None:
    server = CountingServer()
    server.stop()
    asyncio.run(server.main_loop())
    server.stop()
    assert server.should_exit


def test_the_date_header_is_renewed_at_each_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("authorizer.sidecar.http.servers._TICK_INTERVAL_S", 0.001)

    async def run() -> None:
        server = CountingServer()
        running = asyncio.create_task(server.main_loop())
        server.server_state.default_headers = []
        await asyncio.wait_for(server.has_ticked_often.wait(), _TIMEOUT_S)
        assert server.server_state.default_headers
        server.stop()
        await running

    asyncio.run(run())
