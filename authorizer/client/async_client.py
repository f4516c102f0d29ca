"""AsyncClient: a sidecar, asked by an event loop's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

import tenacity

from authorizer.api.errors import SidecarUnavailableError
from authorizer.client import calls
from authorizer.client.base import ClientBase
from authorizer.client.exchange import FAULTS, fault_of, value_of
from authorizer.client.following import FollowingTask

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from authorizer.api.http.answers import NodeState
    from authorizer.client.answers import Decision, Question

_T = TypeVar("_T")


class AsyncClient(ClientBase):
    """A sidecar, for the tasks of one event loop. Use it as an asynchronous context manager, and keep it.

    Every method may raise a SidecarError (``authorizer.api.errors``). A call is tried again until
    ``timeout_s`` is over while the sidecar is not reached, not ready or overloaded; a change only where
    nothing was done.
    """

    def _open(self) -> None:
        self._pool = self._address.async_pool(self._opened)
        self._following: FollowingTask | None = None

    async def __aenter__(self) -> Self:
        if self._cache is not None:
            self._following = FollowingTask(self._address, self._cache)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._following is not None:
            await self._following.close()
        await self._pool.aclose()
        self._opened.close()

    async def wait_until_ready(self, timeout_s: float) -> NodeState:
        """Return once the sidecar may decide; SidecarUnavailableError, with the reason, if it does not."""
        return await self.ask(calls.readiness(), timeout_s)

    async def decide(
        self, question: Question, *, min_offset: int | None = None, at_offset: int | None = None
    ) -> Decision:
        """One decision.

        Args:
            question: what.
            min_offset: on a state that knows everything below it, such as the offset of a change.
            at_offset: on the state after the record at this offset, as far back as the node holds it.
        """
        [decision] = await self.decide_all([question], min_offset=min_offset, at_offset=at_offset)
        return decision

    async def decide_all(
        self, questions: Sequence[Question], *, min_offset: int | None = None, at_offset: int | None = None
    ) -> list[Decision]:
        """One for each, in order; what the cache does not have on one state for 5,000 at a time.

        Raises:
            SidecarRefusedError: the caller may not ask one of them; none is answered then.
        """
        asked = self._asked(questions, min_offset, at_offset)
        try:
            for part in asked.parts():
                asked.take(part, await self.ask(asked.call(part)))
        except SidecarUnavailableError as error:
            asked.unavailable(error)
        return asked.decisions()

    async def ask(self, call: calls.Call[_T], timeout_s: float | None = None) -> _T:
        """The answer to any call of ``authorizer.client.calls``, from the sidecar itself.

        Args:
            call: what.
            timeout_s: another one than the client's.

        Raises:
            SidecarOutcomeUnknownError: a change was sent and not answered; it may be in the log.
        """
        ends_s, rules = self._tries(timeout_s)
        return await tenacity.AsyncRetrying(**rules)(self._try, call, ends_s)

    async def _try(self, call: calls.Call[_T], ends_s: float) -> _T:
        try:
            response = await self._pool.request(**self._request(call, ends_s))
        except FAULTS as error:
            raise fault_of(self._address.url, call, error) from error
        return value_of(self._address.url, call, response)
