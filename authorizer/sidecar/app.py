"""The sidecar's ASGI application.

Rules:
- Health, state and metrics answer from the first moment: they show no ACL and decide nothing, and an
  orchestrator must be able to ask why a node is not ready.
- Decisions are refused with 503 until the node is ready (I4), but for super users on early-start listeners;
  never with ``decision: false``.
- Every decision of one request is made on one state, and says at which offset (I1).
- The caller is a principal, and Kafka's own ACLs guard it (``caller.py``). Its address is the peer's; a
  header says another one only where the peer is a trusted proxy. The Host header is never repeated.
"""

from __future__ import annotations

from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import prometheus_client
import structlog

from authorizer.errors import AuthorizerNotReadyError
from authorizer.host import host_address
from authorizer.sidecar.acls import AclRoutes
from authorizer.sidecar.authzen import (
    EVALUATIONS_MAX,
    Evaluation,
    EvaluationsRequest,
    to_kafka,
    with_defaults,
)
from authorizer.sidecar.caller import Caller
from authorizer.sidecar.decision_json import decision_json
from authorizer.sidecar.errors import RETRY, ErrorCode, HttpError
from authorizer.sidecar.http import (
    Listener,
    Request,
    Response,
    decode_body,
    error_response,
    json_response,
    read_body,
    request_id_of,
    send_response,
)
from authorizer.sidecar.min_offset import wait_for_offset
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from authorizer.decisions.state import AuthorizerState
    from authorizer.node import Node
    from authorizer.sidecar.http import Receive, Scope, Send

    Handler = Callable[[Request], Awaitable[Response]]

log = structlog.get_logger(__name__)

_INTERNAL_ERROR: Final = HttpError(ErrorCode.UNKNOWN_SERVER_ERROR, "internal error: see the sidecar's log")


class SidecarApp:
    """ASGI 3 application for all listeners, which it knows by their ports."""

    def __init__(self, node: Node, listeners: Mapping[int | None, Listener]) -> None:
        """``listeners``: by their ports; the one without a port is the socket in the log's directory."""
        acls = AclRoutes(node)
        self._node = node
        self._listeners = listeners
        self._default_host = node.config.sidecar_default_host
        self._routes: dict[str, dict[str, Handler]] = {
            "/": {"GET": self._index},
            "/access/v1/evaluation": {"POST": self._evaluation},
            "/access/v1/evaluations": {"POST": self._evaluations},
            "/.well-known/authzen-configuration": {"GET": self._metadata},
            "/v1/acls": {"GET": acls.describe, "POST": acls.create, "DELETE": acls.delete},
            "/v1/state": {"GET": self._state},
            "/livez": {"GET": self._livez},
            "/readyz": {"GET": self._readyz},
            "/metrics": {"GET": self._metrics},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; WebSockets are not offered."""
        if scope["type"] != "http":
            raise TypeError(f"the sidecar speaks HTTP only, not {scope['type']}")
        path, headers = scope["path"], dict(scope["headers"])
        request_id = None
        try:
            request_id = request_id_of(headers)
            response = await self._dispatch(scope, headers, receive)
        except HttpError as error:
            response = error_response(error, path)
        except AuthorizerNotReadyError:
            response = error_response(_not_ready(self._node.authorizer.state.not_ready_reason), path)
        except ConnectionResetError:
            return
        except Exception:
            # The last line of defence: the client gets an error, never a decision.
            log.exception("request_failed", path=path)
            response = error_response(_INTERNAL_ERROR, path)
        await send_response(send, response, request_id)

    async def _dispatch(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> Response:
        path, method = scope["path"], scope["method"]
        methods = self._routes.get(path)
        if methods is None:
            raise HttpError(ErrorCode.NOT_FOUND, f"there is nothing at {path}; see {', '.join(self._routes)}")
        handler = methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join(methods)
            raise HttpError(
                ErrorCode.METHOD_NOT_ALLOWED,
                f"{path} takes {allowed}, not {method}",
                ((b"allow", allowed.encode("ascii")),),
            )
        body = await read_body(receive)
        request = Request(
            method,
            path,
            scope["query_string"],
            headers,
            body,
            _address(scope["client"]),
            self._listeners[scope["server"][1]],
        )
        return await handler(request)

    # -- decisions ---------------------------------------------------------------------------------

    async def _evaluation(self, request: Request) -> Response:
        evaluation = decode_body(request, Evaluation)
        await self._wait_for_min_offset([evaluation])
        state = self._ready_state(request)
        caller = Caller(self._node, state, request, "AuthZenEvaluation")
        return json_response(self._decide(state, caller, evaluation))

    async def _evaluations(self, request: Request) -> Response:
        batch = decode_body(request, EvaluationsRequest)
        if not batch.evaluations:
            # AuthZEN 1.0, section 7.1: without evaluations this is the single call.
            await self._wait_for_min_offset([batch])
            state = self._ready_state(request)
            caller = Caller(self._node, state, request, "AuthZenEvaluation")
            return json_response(self._decide(state, caller, batch))
        if len(batch.evaluations) > EVALUATIONS_MAX:
            raise HttpError(
                ErrorCode.CONTENT_TOO_LARGE,
                f"{len(batch.evaluations)} evaluations in one request: at most {EVALUATIONS_MAX}",
            )
        semantic = batch.options.evaluations_semantic if batch.options else "execute_all"
        stop_at = {"execute_all": None, "deny_on_first_deny": False, "permit_on_first_permit": True}[semantic]
        items = [with_defaults(item, batch) for item in batch.evaluations]
        await self._wait_for_min_offset(items)
        state = self._ready_state(request)
        caller = Caller(self._node, state, request, "AuthZenEvaluations")
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

    def _ready_state(self, request: Request) -> AuthorizerState:
        """The one state that this request is decided on.

        Raises:
            HttpError: 503, not ready and no early-start listener.
        """
        state = self._node.authorizer.state
        if not state.is_ready and not request.listener.early_start:
            raise _not_ready(state.not_ready_reason)
        return state

    def _decide(self, state: AuthorizerState, caller: Caller, evaluation: Evaluation) -> dict[str, Any]:
        context, action = to_kafka(evaluation, self._default_host, caller.context)
        caller.require_may_ask_about(context.principal)
        decision = self._node.authorizer.decide(context, action, state)
        return decision_json(decision, state)

    async def _wait_for_min_offset(self, evaluations: Iterable[Evaluation]) -> None:
        wanted = max((item.context.min_offset or 0 for item in evaluations if item.context), default=0)
        await wait_for_offset(self._node, wanted)

    # -- the node ----------------------------------------------------------------------------------

    async def _index(self, _request: Request) -> Response:
        return json_response(
            {
                "name": "aclog",
                "version": version("aclog"),
                "description": "Kafka's ACL decisions outside the broker, over HTTP (AuthZEN 1.0)",
                "paths": {path: list(methods) for path, methods in self._routes.items()},
            }
        )

    async def _metadata(self, request: Request) -> Response:
        base = self._node.config.sidecar_public_url or request.listener.url
        return json_response(
            {
                "policy_decision_point": base,
                "access_evaluation_endpoint": f"{base}/access/v1/evaluation",
                "access_evaluations_endpoint": f"{base}/access/v1/evaluations",
            }
        )

    async def _state(self, _request: Request) -> Response:
        status = self._node.status()
        identity = status.identity
        return json_response(
            {
                "cluster_id": None if identity is None else identity.cluster_id,
                "topic_id": None if identity is None else uuid_to_string(identity.topic_id),
                "log": status.log_url,
                "offset": status.end_offset,
                "epoch": status.epoch,
                "high_watermark": status.high_watermark,
                "high_watermark_is_guess": status.high_watermark_is_guess,
                "lag_records": status.lag_records,
                "lag_ms": status.lag_ms,
                "acl_count": status.acl_count,
                "digest": status.digest,
                "ready": status.ready,
                "reason": status.not_ready_reason,
                "writable": status.writable,
            }
        )

    async def _livez(self, _request: Request) -> Response:
        return json_response({"live": True})

    async def _readyz(self, _request: Request) -> Response:
        status = self._node.status()
        answer = {"ready": status.ready, "offset": status.end_offset, "lag_records": status.lag_records}
        if status.ready:
            return json_response(answer)
        return json_response({**answer, "reason": status.not_ready_reason}, HTTPStatus.SERVICE_UNAVAILABLE)

    async def _metrics(self, _request: Request) -> Response:
        return Response(
            HTTPStatus.OK,
            prometheus_client.generate_latest(self._node.metrics),
            prometheus_client.CONTENT_TYPE_LATEST.encode("ascii"),
        )


def _address(client: tuple[str, int] | None) -> str:
    """The peer's address as ACL hosts are written; empty when there is none (a UNIX socket).

    Raises:
        HttpError: 400, a trusted proxy has forwarded what is no address.
    """
    if client is None:
        return ""
    try:
        return host_address(client[0])
    except ValueError as error:
        raise HttpError(ErrorCode.INVALID_HEADER, f"X-Forwarded-For: {error}") from error


def _not_ready(reason: str) -> HttpError:
    return HttpError(ErrorCode.AUTHORIZER_NOT_READY, f"AUTHORIZER_NOT_READY: {reason}", RETRY)
