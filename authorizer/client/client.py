"""Client and AsyncClient: clients of a sidecar, for threads and for the tasks of an event loop."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final, Literal, Self, TypeVar

import tenacity

from authorizer.api.errors import SidecarError, SidecarUnavailableError
from authorizer.api.http.answers.node import NodeState
from authorizer.client import calls
from authorizer.client.address import Address, Credentials
from authorizer.client.cache import CacheSettings, DecisionCache
from authorizer.client.calls import REQUESTS_MAXIMUM, Call, decision, decisions
from authorizer.client.change_stream import ChangeStreamTask, ChangeStreamThread
from authorizer.client.exchange import (
    JSON_HEADERS,
    TRANSPORT_ERRORS,
    error_of_transport,
    retries,
    value_of_response,
)
from authorizer.client.messages import UNAVAILABLE, AuthorizationRequest, Decision

#: What a client does if no sidecar is available: raise an error or return DENIED. Never ALLOWED.
WhenUnavailable = Literal["raise", "deny"]


class DecisionBatch:
    """Starts with the cached decisions; ``add`` takes those of the sidecar."""

    def __init__(
        self,
        requests: Sequence[AuthorizationRequest],
        cache: DecisionCache | None,
        *,
        min_offset: int | None,
        at_offset: int | None,
        when_unavailable: WhenUnavailable,
    ) -> None:
        # The cache has decisions of the newest state only.
        self._cache = cache if at_offset is None else None
        self._requests = requests
        self._min_offset = min_offset
        self._at_offset = at_offset
        self._deny = when_unavailable == "deny"
        get = None if self._cache is None else self._cache.get
        self._decisions: list[Decision | None] = [
            None if get is None else get(request, min_offset) for request in requests
        ]
        self._stamp = None if self._cache is None else self._cache.stamp()

    def missing(self) -> Iterator[list[AuthorizationRequest]]:
        """Return the requests without a decision, as many at a time as one HTTP request takes."""
        missing = [
            request for request, known in zip(self._requests, self._decisions, strict=True) if known is None
        ]
        for start in range(0, len(missing), REQUESTS_MAXIMUM):
            yield missing[start : start + REQUESTS_MAXIMUM]

    def call(self, requests: Sequence[AuthorizationRequest]) -> Call[Sequence[Decision | SidecarError]]:
        """Return the call for some of ``missing``; a single request's error is raised by the sender."""
        if len(requests) > 1:
            return decisions(requests, min_offset=self._min_offset, at_offset=self._at_offset)
        single = decision(requests[0], min_offset=self._min_offset, at_offset=self._at_offset)
        return single.then(lambda only: [only])

    def add(
        self, requests: Sequence[AuthorizationRequest], answers: Sequence[Decision | SidecarError]
    ) -> None:
        """Store the answers to some of ``missing``, in its order. Raises the SidecarError of a request."""
        missing = [index for index, known in enumerate(self._decisions) if known is None]
        for index, request, answer in zip(missing[: len(requests)], requests, answers, strict=True):
            if isinstance(answer, SidecarError):
                raise answer
            self._decisions[index] = answer
            if self._cache is not None and self._stamp is not None:
                self._cache.put(self._stamp, request, answer)

    def fail(self, error: SidecarUnavailableError) -> None:
        """Raise ``error``, or deny what is missing."""
        if not self._deny:
            raise error
        denied = Decision(is_allowed=False, rule=UNAVAILABLE, reason=str(error), offset=None)
        self._decisions = [denied if known is None else known for known in self._decisions]

    def decisions(self) -> list[Decision]:
        return [known for known in self._decisions if known is not None]


_T = TypeVar("_T")

#: For a call with all its attempts; a sidecar waits up to five seconds for a min_offset.
_TIMEOUT_S: Final = 10.0
#: Minimum timeout of an attempt.
_ATTEMPT_TIMEOUT_MIN_S: Final = 0.05


class ClientBase(ABC):
    """Settings, cache and requests of a client. A subclass sends requests and reads the stream of changes."""

    def __init__(
        self,
        url: str,
        *,
        cluster: str | None = None,
        credentials: Credentials | None = None,
        timeout_s: float = _TIMEOUT_S,
        cache: CacheSettings | None = None,
        when_unavailable: WhenUnavailable = "raise",
        retries_unanswered: bool = True,
    ) -> None:
        """Prepare connections; with a cache, also read the stream of changes.

        A Client starts its thread in the constructor, an AsyncClient its task in ``async with``.

        Args:
            url: ``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:PATH``.
            cluster: name of the cluster, for a sidecar of several; the same as ``/clusters/NAME`` at the end
                of ``url``.
            credentials: of the caller, and trusted authorities; ANONYMOUS and the system's if None.
            timeout_s: for a call with all its attempts.
            cache: limits of a cache; the stream of changes requires Describe on the cluster.
            when_unavailable: what ``decide`` and ``decide_all`` do if no sidecar is available: raise
                SidecarUnavailableError or return DENIED.
            retries_unanswered: retry also if nothing answers, for example while a sidecar restarts.

        Raises:
            ValueError: an invalid URL or cluster name, or a token that would cross a network in the clear.
            OSError: a file of the credentials cannot be read.
        """
        self._address = Address(url, credentials, cluster)
        self._timeout_s = timeout_s
        self._when_unavailable = when_unavailable
        self._retries_unanswered = retries_unanswered
        self._opened = ExitStack()
        self._cache = None if cache is None else DecisionCache(cache)
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Open the connection pool; register what the client must close in ``_opened``."""

    @property
    def serves_from_cache(self) -> bool:
        """Whether the stream of changes has caught up, so that the cache serves decisions."""
        return self._cache is not None and self._cache.serves

    def _batch(
        self, requests: Sequence[AuthorizationRequest], min_offset: int | None, at_offset: int | None
    ) -> DecisionBatch:
        return DecisionBatch(
            requests,
            self._cache,
            min_offset=min_offset,
            at_offset=at_offset,
            when_unavailable=self._when_unavailable,
        )

    def _deadline_and_retries(self, timeout_s: float | None) -> tuple[float, dict[str, Any]]:
        """Return the deadline of a call that begins now (monotonic clock) and its rules for tenacity."""
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        return time.monotonic() + limit_s, retries(limit_s, unanswered=self._retries_unanswered)

    def _request(self, call: Call[_T], deadline_s: float) -> dict[str, Any]:
        """Return httpcore's arguments for one attempt of a call."""
        remaining_s = max(deadline_s - time.monotonic(), _ATTEMPT_TIMEOUT_MIN_S)
        return self._address.request(
            call.method,
            call.target,
            JSON_HEADERS if call.body is not None else {},
            timeout_s=dict.fromkeys(("connect", "read", "write", "pool"), remaining_s),
            body=call.body,
        )


class Client(ClientBase):
    """A client of a sidecar, for any number of threads. Use it as a context manager; it reuses connections.

    Every method may raise a SidecarError (``authorizer.api.errors``). A call is retried until ``timeout_s``
    is over while the sidecar is unreachable, not ready or overloaded; a change only if nothing was done.
    """

    def _open(self) -> None:
        self._pool = self._address.pool(self._opened)
        if self._cache is not None:
            self._opened.callback(ChangeStreamThread(self._address, self._cache).close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    def wait_until_ready(self, timeout_s: float) -> NodeState:
        """Return once the sidecar is ready to decide. Raises SidecarUnavailableError, with the reason."""
        return self.ask(calls.readiness(), timeout_s)

    def decide(
        self, request: AuthorizationRequest, *, min_offset: int | None = None, at_offset: int | None = None
    ) -> Decision:
        """Return one decision.

        Args:
            request: what to decide.
            min_offset: decide on a state with all records below it, such as the offset of a change.
            at_offset: decide on the state after the record at this offset, if the node still holds it.
        """
        [decision] = self.decide_all([request], min_offset=min_offset, at_offset=at_offset)
        return decision

    def decide_all(
        self,
        requests: Sequence[AuthorizationRequest],
        *,
        min_offset: int | None = None,
        at_offset: int | None = None,
    ) -> list[Decision]:
        """Return a decision for each request, in order.

        Each 5,000 that the cache does not have are decided on one state.

        Raises:
            SidecarRefusedError: the caller may not send one of the requests; there is no decision then.
        """
        batch = self._batch(requests, min_offset, at_offset)
        try:
            for missing in batch.missing():
                batch.add(missing, self.ask(batch.call(missing)))
        except SidecarUnavailableError as error:
            batch.fail(error)
        return batch.decisions()

    def ask(self, call: calls.Call[_T], timeout_s: float | None = None) -> _T:
        """Send a call of ``authorizer.client.calls`` to the sidecar, never to the cache; return its value.

        Raises:
            SidecarOutcomeUnknownError: a change was sent and not answered; it may be in the log.
        """
        deadline_s, rules = self._deadline_and_retries(timeout_s)
        answer: _T = tenacity.Retrying(**rules)(self._attempt, call, deadline_s)
        return answer

    def _attempt(self, call: calls.Call[_T], deadline_s: float) -> _T:
        try:
            response = self._pool.request(**self._request(call, deadline_s))
        except TRANSPORT_ERRORS as error:
            raise error_of_transport(self._address.url, call, error) from error
        return value_of_response(self._address.url, call, response)


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
