"""``/access/v1/evaluation`` and ``/access/v1/evaluations``: decisions, as AuthZEN asks for them.

Rules:
- Decisions are refused with 503 until the node is ready (I4), but for super users on early-start listeners;
  never with ``decision: false``.
- Every decision of one request is made on one state, and says at which offset (I1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from authorizer.sidecar.asked_state import asked_states
from authorizer.sidecar.authzen import (
    EVALUATIONS_MAX,
    Context,
    Evaluation,
    EvaluationsRequest,
    to_kafka,
    with_defaults,
)
from authorizer.sidecar.caller import Caller
from authorizer.sidecar.decision_json import decision_json
from authorizer.sidecar.errors import ErrorCode, HttpError, invalid_request
from authorizer.sidecar.http import json_response, origin_of, read_json
from authorizer.sidecar.json_body import decode_body
from authorizer.sidecar.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.decisions.state import AuthorizerState
    from authorizer.node import Node
    from authorizer.sidecar.origin import Origin

#: At which decision a batch stops.
_STOP_AT: Final = {"execute_all": None, "deny_on_first_deny": False, "permit_on_first_permit": True}


class EvaluationRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._default_host = node.config.sidecar_default_host
        self._words = Vocabulary.of(node.config)

    async def evaluation(self, request: Request) -> Response:
        """POST: one decision."""
        asked = decode_body(await read_json(request), Evaluation, request.url.path)
        return await self._one(asked, origin_of(request))

    async def evaluations(self, request: Request) -> Response:
        """POST: a batch of decisions, in order."""
        batch = decode_body(await read_json(request), EvaluationsRequest, request.url.path)
        if not batch.evaluations:
            # AuthZEN 1.0, section 7.1: without evaluations this is the single call.
            return await self._one(batch, origin_of(request))
        if len(batch.evaluations) > EVALUATIONS_MAX:
            raise HttpError(
                ErrorCode.CONTENT_TOO_LARGE,
                f"{len(batch.evaluations)} evaluations in one request: at most {EVALUATIONS_MAX}",
            )
        stop_at = _STOP_AT[batch.options.evaluations_semantic if batch.options else "execute_all"]
        items = [with_defaults(item, batch) for item in batch.evaluations]
        state, caller = await self._begin(items, origin_of(request), "AuthZenEvaluations")
        answers: list[dict[str, Any]] = []
        for item in items:
            try:
                answer = self._decide(state, caller, item)
            except HttpError as error:
                # One bad question does not take the others' answers away (section 7.2.1).
                answer = {
                    "decision": False,
                    "context": {
                        "error": {
                            "status": int(error.code.status),
                            "code": error.code,
                            "message": error.message,
                        }
                    },
                }
            answers.append(answer)
            if answer["decision"] is stop_at:
                break
        return json_response({"evaluations": answers})

    async def _one(self, asked: Evaluation, origin: Origin) -> Response:
        state, caller = await self._begin([asked], origin, "AuthZenEvaluation")
        return json_response(self._decide(state, caller, asked))

    async def _begin(
        self, evaluations: Sequence[Evaluation], origin: Origin, name: str
    ) -> tuple[AuthorizerState, Caller]:
        """The one state that a request is decided on, and who asks: with the rights of now."""
        contexts = [item.context or Context() for item in evaluations]
        at_offset = contexts[0].at_offset
        if any(context.at_offset != at_offset for context in contexts):
            raise invalid_request("context.at_offset must be the same for all evaluations of a request")
        state, now = await asked_states(
            self._node,
            min_offset=max(context.min_offset or 0 for context in contexts),
            at_offset=at_offset,
            early_start=origin.listener.early_start,
        )
        return state, Caller(self._node, now, origin, name)

    def _decide(self, state: AuthorizerState, caller: Caller, evaluation: Evaluation) -> dict[str, Any]:
        context, action = to_kafka(evaluation, self._words, self._default_host, caller.context)
        caller.require_may_ask_about(context.principal)
        decision = self._node.authorizer.decide(context, action, state)
        return decision_json(decision, state)
