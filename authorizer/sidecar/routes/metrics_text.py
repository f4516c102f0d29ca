"""MetricsText: the metrics as Prometheus reads them, rendered off the event loop and at most once a second.

Health and metrics are never refused, so a thousand scrapes at a time must not cost a thousand renderings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import prometheus_client
from starlette.responses import Response

#: Seconds for which a text is answered with, before it is rendered again.
TEXT_TTL_S: Final = 1.0


class MetricsText:
    """The text for one application; used on the event loop only."""

    def __init__(self, collect: Callable[[], Awaitable[Any]], lock: asyncio.Lock) -> None:
        """``collect`` returns what ``prometheus_client.generate_latest`` takes.

        ``lock`` is held while a text is rendered: one at a time in a process.
        """
        self._collect = collect
        self._lock = lock
        self._rendering: asyncio.Task[bytes] | None = None
        self._rendered_s = 0.0

    async def response(self) -> Response:
        """The text; requests within TEXT_TTL_S share it."""
        rendering = self._rendering
        if rendering is None or (rendering.done() and not self._is_fresh(rendering)):
            rendering = self._rendering = asyncio.create_task(self._render())
        # A client that goes away does not end it for the others.
        text = await asyncio.shield(rendering)
        return Response(text, headers={"content-type": prometheus_client.CONTENT_TYPE_LATEST})

    def _is_fresh(self, rendering: asyncio.Task[bytes]) -> bool:
        has_failed = rendering.cancelled() or rendering.exception() is not None
        return not has_failed and asyncio.get_running_loop().time() - self._rendered_s < TEXT_TTL_S

    async def _render(self) -> bytes:
        collected = await self._collect()
        async with self._lock:
            text = await asyncio.to_thread(prometheus_client.generate_latest, collected)
        self._rendered_s = asyncio.get_running_loop().time()
        return text
