"""Client: a client of a sidecar, for threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

import tenacity

from authorizer.api.errors import SidecarUnavailableError
from authorizer.api.http.answers.node import NodeState
from authorizer.client import calls
from authorizer.client.base import ClientBase
from authorizer.client.change_stream import ChangeStreamThread
from authorizer.client.exchange import TRANSPORT_ERRORS, error_of_transport, value_of_response
from authorizer.client.messages import AuthorizationRequest, Decision

_T = TypeVar("_T")


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
