"""ClientBase: what a client has, for threads as for tasks: its settings, the cache, and what it sends."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar

from authorizer.client.address import Address, Credentials
from authorizer.client.asking import Asked, WhenUnavailable
from authorizer.client.cache import CacheSettings, DecisionCache
from authorizer.client.exchange import JSON, retries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.client.answers import Question
    from authorizer.client.calls import Call

_T = TypeVar("_T")

#: Seconds for a call with all its tries; a sidecar waits up to five for a min_offset.
_TIMEOUT_S: Final = 10.0
#: The last try has at least so long.
_LEAST_S: Final = 0.05


class ClientBase(ABC):
    """A subclass sends, and follows the changes."""

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
        """Nothing is sent yet; with a cache, the changes are followed.

        A Client has a thread of its own for that from now on, an AsyncClient a task from ``async with`` on.

        Args:
            url: ``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:PATH``.
            cluster: which one is asked, where the sidecar follows several; ``/clusters/NAME`` at the end of
                ``url`` says the same.
            credentials: who asks, and whom to trust; ANONYMOUS, and the system's authorities, if None.
            timeout_s: for a call with all its tries.
            cache: keep decisions, for so long; to follow the changes takes Describe on the cluster.
            when_unavailable: what ``decide`` and ``decide_all`` do when no sidecar can be asked:
                raise SidecarUnavailableError, or answer DENIED.
            retries_unanswered: also try again where nothing answers, as while a sidecar is started anew.

        Raises:
            ValueError: the URL is none of these, the cluster no name, or a token would be seen by others.
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
        """Make what sends; what is to be closed with the client goes into ``_opened``."""

    @property
    def serves_from_cache(self) -> bool:
        """Whether the changes are heard, so that the cache serves."""
        return self._cache is not None and self._cache.serves

    def _asked(self, questions: Sequence[Question], min_offset: int | None, at_offset: int | None) -> Asked:
        return Asked(
            questions,
            self._cache,
            min_offset=min_offset,
            at_offset=at_offset,
            when_unavailable=self._when_unavailable,
        )

    def _tries(self, timeout_s: float | None) -> tuple[float, dict[str, Any]]:
        """When a call that begins now ends, by the monotonic clock; and tenacity's rules for its tries."""
        within_s = self._timeout_s if timeout_s is None else timeout_s
        return time.monotonic() + within_s, retries(within_s, unanswered=self._retries_unanswered)

    def _request(self, call: Call[_T], ends_s: float) -> dict[str, Any]:
        """One try of a call, as httpcore takes it."""
        left_s = max(ends_s - time.monotonic(), _LEAST_S)
        return self._address.request(
            call.method,
            call.target,
            JSON if call.body is not None else {},
            timeout_s=dict.fromkeys(("connect", "read", "write", "pool"), left_s),
            body=call.body,
        )
