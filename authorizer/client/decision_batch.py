"""DecisionBatch: the decisions of one call, from the cache or from the sidecar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from authorizer.api.errors import SidecarError, SidecarUnavailableError
from authorizer.client.cache import DecisionCache
from authorizer.client.calls import REQUESTS_MAXIMUM, Call, decision, decisions
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
