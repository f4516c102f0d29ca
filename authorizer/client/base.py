"""ClientBase: settings, cache and requests of a client, for threads and for tasks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from authorizer.client.address import Address, Credentials
from authorizer.client.cache import CacheSettings, DecisionCache
from authorizer.client.calls import Call
from authorizer.client.decision_batch import DecisionBatch, WhenUnavailable
from authorizer.client.exchange import JSON_HEADERS, retries
from authorizer.client.messages import AuthorizationRequest

_T = TypeVar("_T")

#: For a call with all its attempts; a sidecar waits up to five seconds for a min_offset.
_TIMEOUT_S: Final = 10.0
#: Minimum timeout of an attempt.
_ATTEMPT_TIMEOUT_MIN_S: Final = 0.05


class ClientBase(ABC):
    """A subclass sends requests and reads the stream of changes."""

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
