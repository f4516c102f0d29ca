"""``/access/v1/evaluation`` and ``/access/v1/evaluations``: AuthZEN's decisions.

Rules:
- Until the node is ready (I4) the answer is 503, never ``decision: false``; except for super users on
  early-start listeners.
- All decisions of a request are made on one state, whose offset they have (I1).
- Small requests that need not wait are answered inline (``answer_inline``). Waiting for an offset needs no
  thread, and a large batch yields to other requests every few milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from itertools import chain
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.api.http.answers.decisions import Decision as DecisionAnswer
from authorizer.api.http.answers.decisions import Decisions
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.http.request_decoding import decode_body
from authorizer.sidecar.http.request_response import JSON, origin_of, read_json
from authorizer.sidecar.routes.authzen import (
    AuthzenAliases,
    Evaluation,
    EvaluationsRequest,
    action_of,
    context_of,
    with_defaults,
)
from authorizer.sidecar.routes.decision_json import decision_json, encoded_decisions_at, refusal_json
from authorizer.sidecar.routes.endpoint import STATE_ERRORS, declare_endpoint
from authorizer.sidecar.routes.request_state import RequestStates, visible_end
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from starlette.requests import Request

    from authorizer.api.authorizer_api import Action
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node
    from authorizer.sidecar.http.limits import LoadLimiter
    from authorizer.sidecar.http.request_origin import Origin

EVALUATION_PATH: Final = "/access/v1/evaluation"
EVALUATIONS_PATH: Final = "/access/v1/evaluations"

_REQUEST_TYPES: Final = {EVALUATION_PATH: Evaluation, EVALUATIONS_PATH: EvaluationsRequest}

_EXAMPLE: Final = {
    "subject": {"type": "User", "id": "alice"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}

#: Evaluations of one request that are answered inline: a millisecond or two.
INLINE_MAX: Final = 100
#: Evaluations about one client in one call of the authorizer: a tenth of a slice.
RUN_MAX: Final = 100
#: Seconds for which a larger batch is decided before others have their turn.
SLICE_S: Final = 0.005

#: At which decision a batch stops.
_STOP_AT: Final = {"execute_all": None, "deny_on_first_deny": False, "permit_on_first_permit": True}


class Evaluations:
    """Answers for one node; ``path`` is one of the two."""

    def __init__(self, node: Node, load: LoadLimiter, states: RequestStates) -> None:
        self._node = node
        self._load = load
        self._states = states
        self._aliases = AuthzenAliases.of(node.config)

    def answer_one_inline(self, path: str, body: bytes, origin: Origin) -> bytes | None:
        """The JSON answer to one evaluation; None if it has to wait; nothing is decided then.

        Raises:
            HttpError: the request is invalid, or this caller may not ask.
            AuthorizerNotReadyError: not loaded, and no early-start listener.
        """
        evaluation = decode_body(body, Evaluation, path)
        context = evaluation.context
        if (
            context is not None
            and (context.min_offset or context.at_offset is not None)
            and self._must_wait(context.min_offset, context.at_offset)
        ):
            return None
        state = self._node.authorizer.state
        if not state.is_ready:
            _require_early_start(state, origin)
        return self._decide_one(evaluation, state, state, origin)

    def answer_inline(self, path: str, body: bytes, origin: Origin) -> bytes | None:
        """The same for a batch; None also if it is large. Raises as ``answer_one_inline``."""
        request = decode_body(body, EvaluationsRequest, path)
        batch = self._require_batch(request)
        if len(batch) > INLINE_MAX or self._must_wait(*_offsets(request, batch)):
            return None
        state = self._node.authorizer.state
        if not state.is_ready:
            _require_early_start(state, origin)
        if not batch:
            return self._decide_one(request, state, state, origin)
        caller = self._batch_caller(state, origin)
        return _join(chain.from_iterable(self._decide_batch(request, batch, state, caller)))

    def _must_wait(self, min_offset: int | None, at_offset: int | None) -> bool:
        return at_offset is not None or bool(min_offset and min_offset > visible_end(self._node))

    async def answer(self, path: str, body: bytes, origin: Origin) -> bytes:
        """The answer's JSON. Raises as ``answer_one_inline``."""
        evaluation = decode_body(body, _REQUEST_TYPES[path], path)
        batch = self._require_batch(evaluation)
        min_offset, at_offset = _offsets(evaluation, batch)
        state, now = await self._states.states(
            origin,
            lambda now: self._require_any_subject(evaluation, batch, self._batch_caller(now, origin)),
            min_offset=min_offset,
            at_offset=at_offset,
            early_start=origin.listener.early_start,
        )
        if not batch:
            return self._decide_one(evaluation, state, now, origin)
        answers: list[bytes] = []
        ends_s = time.perf_counter() + SLICE_S
        for part in self._decide_batch(evaluation, batch, state, self._batch_caller(now, origin)):
            answers += part
            if time.perf_counter() >= ends_s:
                await asyncio.sleep(0)
                ends_s = time.perf_counter() + SLICE_S
        return _join(answers)

    @declare_endpoint(
        "POST",
        EVALUATION_PATH,
        "AuthZEN 1.0: one decision",
        DecisionAnswer,
        description="The decision; a DENIED is no error",
        request=Evaluation,
        example=_EXAMPLE,
        required=("subject", "action", "resource"),
        errors=STATE_ERRORS,
    )
    @declare_endpoint(
        "POST",
        EVALUATIONS_PATH,
        "AuthZEN 1.0: up to 10,000 decisions on one state",
        Decisions,
        DecisionAnswer,
        description="The decisions in the order of the evaluations; one decision if there are no evaluations",
        request=EvaluationsRequest,
        example={**_EXAMPLE, "evaluations": [{}, {"action": {"name": "WRITE"}}]},
        errors=STATE_ERRORS,
    )
    async def handle(self, request: Request) -> Response:
        answer = await self.answer(request.scope["path"], await read_json(request), origin_of(request))
        return Response(answer, media_type=JSON)

    def _require_batch(self, evaluation: Evaluation) -> Sequence[Evaluation]:
        """The evaluations; a batch without any is a single evaluation (AuthZEN 1.0, section 7.1)."""
        batch = evaluation.evaluations if isinstance(evaluation, EvaluationsRequest) else None
        if not batch:
            return ()
        self._load.require_item_count(len(batch), "evaluations")
        return batch

    def _decide_one(
        self, evaluation: Evaluation, state: AuthorizerState, now: AuthorizerState, origin: Origin
    ) -> bytes:
        """Decide on ``state``; the current ACLs authorize the caller."""
        caller = Caller(self._node, now, origin, "AuthZenEvaluation")
        action = action_of(evaluation, self._aliases)
        context = context_of(evaluation, self._aliases, caller)
        if not caller.may_ask_about(context.principal):
            raise caller.refusal_about(context.principal)
        (decided,) = self._node.authorizer.answer_all(context, (action,), state)
        explained = evaluation.context is not None and evaluation.context.explain
        # `state.end_offset`, without the call of a property.
        end_offset = state.index.image.provenance.end_offset
        return decision_json(decided, encoded_decisions_at(end_offset), explained=explained)

    def _require_any_subject(
        self, evaluation: Evaluation, batch: Sequence[Evaluation], caller: Caller
    ) -> None:
        """HttpError 403 if the caller may ask about none of the principals of the batch."""
        items = with_defaults(batch, evaluation) if batch else (evaluation,)
        subjects = {(item.subject.type, item.subject.id) for item in items if item.subject is not None}
        principals = [KafkaPrincipal(self._aliases.principal_type(kind), name) for kind, name in subjects]
        if principals and not any(map(caller.may_ask_about, principals)):
            caller.require_may_ask_about(principals[0])

    def _batch_caller(self, now: AuthorizerState, origin: Origin) -> Caller:
        return Caller(self._node, now, origin, "AuthZenEvaluations")

    def _decide_batch(
        self, evaluation: Evaluation, batch: Sequence[Evaluation], state: AuthorizerState, caller: Caller
    ) -> Iterator[list[bytes]]:
        """The answers of a batch on one state, as many as its semantic needs; decided in chunks."""
        options = evaluation.options if isinstance(evaluation, EvaluationsRequest) else None
        stop_at = _STOP_AT[options.evaluations_semantic if options else "execute_all"]
        # What comes after the one that stops it is not decided.
        run_max = RUN_MAX if stop_at is None else 1
        for run, actions in self._runs_by_client(with_defaults(batch, evaluation), run_max):
            is_allowed, answers = self._decide(run, actions, state, caller)
            yield answers
            if is_allowed is stop_at:
                return

    def _runs_by_client(
        self, batch: Sequence[Evaluation], run_max: int
    ) -> Iterator[tuple[list[Evaluation], list[Action] | HttpError]]:
        """Split the batch into runs about one client, each decided by one call of the authorizer.

        Yields the evaluations and their actions; an invalid evaluation is a run of its own, with its error.
        """
        run: list[Evaluation] = []
        actions: list[Action] = []
        subject, host = None, None
        for evaluation in batch:
            of_subject, of_host = evaluation.subject, evaluation.context and evaluation.context.host
            if run and (len(run) == run_max or of_host != host or of_subject != subject):
                yield run, actions
                run, actions = [], []
            subject, host = of_subject, of_host
            try:
                actions.append(action_of(evaluation, self._aliases))
            except HttpError as error:
                if run:
                    yield run, actions
                    run, actions = [], []
                yield [evaluation], error
            else:
                run.append(evaluation)
        if run:
            yield run, actions

    def _decide(
        self,
        run: list[Evaluation],
        actions: list[Action] | HttpError,
        state: AuthorizerState,
        caller: Caller,
    ) -> tuple[bool, list[bytes]]:
        """Return whether the last one is allowed, and all answers; an error does not affect other runs.

        Source: AuthZEN 1.0, section 7.2.1.
        """
        try:
            if isinstance(actions, HttpError):
                raise actions
            context = context_of(run[0], self._aliases, caller)
            caller.require_may_ask_about(context.principal)
        except HttpError as error:
            return False, [refusal_json(error)] * len(run)
        answered = self._node.authorizer.answer_all(context, actions, state)
        encoded = encoded_decisions_at(state.end_offset)
        answers: list[bytes] = []
        for decided, item in zip(answered, run, strict=True):
            explained = item.context is not None and item.context.explain
            answers.append(decision_json(decided, encoded, explained=explained))
        return answered[-1].is_allowed, answers


def _require_early_start(state: AuthorizerState, origin: Origin) -> None:
    """Raise AuthorizerNotReadyError, for a state that is not ready, on other than early-start listeners."""
    if not origin.listener.early_start:
        raise AuthorizerNotReadyError(state.not_ready_reason)


def _offsets(evaluation: Evaluation, batch: Sequence[Evaluation]) -> tuple[int, int | None]:
    """What must be visible before any decision, and the end of the state that is asked, if not now's."""
    context = evaluation.context
    if not batch:
        return (0, None) if context is None else (context.min_offset or 0, context.at_offset)
    items = [item.context or evaluation.context for item in batch]
    min_offset, at_offset = 0, items[0].at_offset if items[0] else None
    for context in items:
        if context is not None and context.min_offset is not None:
            min_offset = max(min_offset, context.min_offset)
        if (context.at_offset if context else None) != at_offset:
            raise invalid_request("context.at_offset must be the same for all evaluations of a request")
    return min_offset, at_offset


def _join(answers: Iterable[bytes]) -> bytes:
    return b'{"evaluations":[%b]}' % b",".join(answers)
