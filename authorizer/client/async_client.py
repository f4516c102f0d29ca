"""AsyncClient: a client of a sidecar, for the tasks of an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

import tenacity

from authorizer.api.errors import SidecarUnavailableError
from authorizer.api.http.answers.node import NodeState
from authorizer.client import calls
from authorizer.client.base import ClientBase
from authorizer.client.change_stream import ChangeStreamTask
from authorizer.client.exchange import TRANSPORT_ERRORS, error_of_transport, value_of_response
from authorizer.client.messages import AuthorizationRequest, Decision

_T = TypeVar("_T")


class AsyncClient(ClientBase):
    """A client of a sidecar, for the tasks of one event loop.

    Use it as an asynchronous context manager; it reuses connections.

    Every method may raise a SidecarError (``authorizer.api.errors``). A call is retried until ``timeout_s``
    is over while the sidecar is unreachable, not ready or overloaded; a change only if nothing was done.
    """

    def _open(self) -> None:
        self._pool = self._address.async_pool(self._opened)
        self._change_stream: ChangeStreamTask | None = None

    async def __aenter__(self) -> Self:
        if self._cache is not None:
            self._change_stream = ChangeStreamTask(self._address, self._cache)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._change_stream is not None:
            await self._change_stream.close()
        await self._pool.aclose()
        self._opened.close()

    async def wait_until_ready(self, timeout_s: float) -> NodeState:
        """Return once the sidecar is ready to decide. Raises SidecarUnavailableError, with the reason."""
        return await self.ask(calls.readiness(), timeout_s)

    async def decide(
        self, request: AuthorizationRequest, *, min_offset: int | None = None, at_offset: int | None = None
    ) -> Decision:
        [decision] = await self.decide_all([request], min_offset=min_offset, at_offset=at_offset)
        return decision

    async def decide_all(
        self,
        requests: Sequence[AuthorizationRequest],
        *,
        min_offset: int | None = None,
        at_offset: int | None = None,
    ) -> list[Decision]:
        batch = self._batch(requests, min_offset, at_offset)
        try:
            for missing in batch.missing():
                batch.add(missing, await self.ask(batch.call(missing)))
        except SidecarUnavailableError as error:
            batch.fail(error)
        return batch.decisions()

    async def ask(self, call: calls.Call[_T], timeout_s: float | None = None) -> _T:
        deadline_s, rules = self._deadline_and_retries(timeout_s)
        return await tenacity.AsyncRetrying(**rules)(self._attempt, call, deadline_s)

    async def _attempt(self, call: calls.Call[_T], deadline_s: float) -> _T:
        try:
            response = await self._pool.request(**self._request(call, deadline_s))
        except TRANSPORT_ERRORS as error:
            raise error_of_transport(self._address.url, call, error) from error
        return value_of_response(self._address.url, call, response)
