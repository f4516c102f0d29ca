"""``/openapi.json``: the sidecar's routes as an OpenAPI 3.1 document.

The routes are the application's own, and what a body or a query may be is what the Struct that decodes it
says (``operations``): the document cannot say otherwise. HEAD is offered where GET is, and not listed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import msgspec

from authorizer.api.cluster_name import CLUSTERS_PATH
from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.request_response import AUTHZEN_PATH, JSON, PROBLEM_JSON, REQUEST_ID_BYTES_MAX
from authorizer.sidecar.routes.operations import ANSWER_COMPONENTS, COMPONENTS, FLEET_OPERATIONS, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from starlette.routing import Route

    from authorizer.sidecar.routes.operations import Operation, Schema

#: Answered where no path is known: in the same form on all paths.
_OF_THE_WIRE: Final = (
    ErrorCode.INVALID_HTTP,
    ErrorCode.REQUEST_TIMEOUT,
    ErrorCode.HEAD_TOO_LARGE,
    ErrorCode.TOO_MANY_CONNECTIONS,
)
_ALWAYS: Final = (
    *_OF_THE_WIRE,
    ErrorCode.INVALID_HEADER,
    ErrorCode.NO_PRINCIPAL,
    ErrorCode.MISDIRECTED_REQUEST,
    ErrorCode.OVERLOADED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
_OF_TOKENS: Final = (ErrorCode.UNAUTHENTICATED, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.NO_TOKEN_KEYS)
_OF_BODIES: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_JSON, ErrorCode.CONTENT_TOO_LARGE)

#: What a fleet has before a node's paths.
CLUSTER_PREFIX: Final = CLUSTERS_PATH + "{cluster}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_TEXT: Final[Schema] = {"type": "string"}
_ERROR_BODIES: Final = {JSON: {"schema": _TEXT}, PROBLEM_JSON: {"schema": {"$ref": f"{COMPONENTS}Problem"}}}
#: Headers that an error with the status may have.
_ERROR_HEADERS: Final = {
    HTTPStatus.UNAUTHORIZED: "www-authenticate",
    HTTPStatus.TOO_MANY_REQUESTS: "retry-after",
    HTTPStatus.SERVICE_UNAVAILABLE: "retry-after",
}
_REQUEST_ID: Final = {
    "name": "X-Request-ID",
    "in": "header",
    "description": "Repeated in the answer",
    "schema": {"type": "string", "maxLength": REQUEST_ID_BYTES_MAX, "pattern": "^[ -~]*$"},
}
_SECURITY_SCHEMES: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the sidecar's file of tokens, or of the OpenID provider that it trusts",
    },
    "mutualTLS": {"type": "mutualTLS", "description": "On a listener with TLS"},
}


def openapi_document(routes: Iterable[Route], for_everyone: Collection[str]) -> dict[str, Any]:
    """The document of a node; ``for_everyone``: paths that are answered without asking who the caller is.

    Raises:
        KeyError: a route is not among OPERATIONS.
    """
    return _document(_paths(_described(routes, OPERATIONS), for_everyone))


def fleet_document(routes: Iterable[Route], for_everyone: Collection[str]) -> dict[str, Any]:
    """The document of a fleet: ``routes`` are its own, and behind a cluster's name there are a node's."""
    of_any = {
        asked: replace(each, errors=(*each.errors, ErrorCode.NOT_FOUND, ErrorCode.AUTHORIZER_NOT_READY))
        for asked, each in OPERATIONS.items()
    }
    of_clusters = _paths(of_any, for_everyone, CLUSTER_PREFIX)
    return _document({**_paths(_described(routes, FLEET_OPERATIONS), for_everyone), **of_clusters})


def _described(
    routes: Iterable[Route], operations: Mapping[tuple[str, str], Operation]
) -> dict[tuple[str, str], Operation]:
    """What the routes do, in their order."""
    return {
        (method, route.path): operations[method, route.path]
        for route in routes
        for method in sorted((route.methods or set()) - {"HEAD"})
    }


def _paths(
    operations: Mapping[tuple[str, str], Operation], for_everyone: Collection[str], prefix: str = ""
) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for (method, path), operation in operations.items():
        is_open = path in for_everyone
        paths[prefix + path][method.lower()] = _operation_object(
            method, prefix + path, operation, is_open=is_open, in_authzen=path.startswith(AUTHZEN_PATH)
        )
    return paths


def _document(paths: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    asked = [operation.asks for key, operation in OPERATIONS.items() if key[0] != "GET" and operation.asks]
    _, schemas = msgspec.json.schema_components(asked, ref_template=COMPONENTS + "{name}")
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "aclog",
            "version": version("aclog"),
            "description": "Kafka's ACL decisions outside the broker. The header aclog-error has an error's "
            "code; its body is RFC 9457's, and below /access/v1/ the message alone, as AuthZEN 1.0 has it.",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas, **ANSWER_COMPONENTS},
            "parameters": {"RequestId": _REQUEST_ID},
            "securitySchemes": _SECURITY_SCHEMES,
        },
        # Either, or neither: then it is ANONYMOUS who asks.
        "security": [{"bearer": []}, {"mutualTLS": []}, {}],
    }


def _operation_object(
    method: str, path: str, operation: Operation, *, is_open: bool, in_authzen: bool
) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [{"$ref": "#/components/parameters/RequestId"}]
    parameters += [
        {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in _PARAMETER.findall(path)
    ]
    parameters += [
        {"name": name, "in": "header", "schema": schema} for name, schema in operation.headers.items()
    ]
    errors = {*_ALWAYS, *operation.errors, *(() if is_open else _OF_TOKENS)}
    shown: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{method.lower()}{path}").strip("_"),
        "summary": operation.summary,
        "parameters": parameters,
    }
    if operation.asks and method == "GET":
        parameters += _query_parameters(operation.asks, operation.example)
        errors.add(ErrorCode.INVALID_REQUEST)
    elif operation.asks:
        needs = {"required": operation.needs} if operation.needs else {}
        schema = {"$ref": COMPONENTS + operation.asks.__name__, **needs}
        content = {JSON: {"schema": schema, "example": operation.example}}
        shown["requestBody"] = {"required": True, "content": content}
        errors.update(_OF_BODIES)
    shown["responses"] = _responses(operation, errors, in_authzen=in_authzen)
    return shown | ({"security": []} if is_open else {})


def _query_parameters(asks: type[msgspec.Struct], example: Mapping[str, Any]) -> list[dict[str, Any]]:
    _, schemas = msgspec.json.schema_components([asks])
    schema = schemas[asks.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": member}
        | ({"example": example[name]} if name in example else {})
        for name, member in schema["properties"].items()
    ]


def _responses(operation: Operation, errors: set[ErrorCode], *, in_authzen: bool) -> dict[str, Any]:
    by_status = defaultdict(list)
    for code in sorted(errors):
        by_status[code.status].append(code)
    responses = {
        str(int(status)): _error_response(status, by_status[status], in_authzen=in_authzen)
        for status in sorted(by_status)
    }
    answer = {operation.media: {"schema": operation.answer}}
    responses = {"200": {"description": operation.says, "content": answer}, **responses}
    if operation.unready:
        content = {JSON: {"schema": operation.unready}}
        responses["503"] = {"description": "It may not, and why", "content": content}
    return responses


def _error_response(status: HTTPStatus, codes: list[ErrorCode], *, in_authzen: bool) -> dict[str, Any]:
    forms = {JSON if in_authzen and code not in _OF_THE_WIRE else PROBLEM_JSON for code in codes}
    headers = {"aclog-error": {"required": True, "schema": {"enum": codes}}}
    if status in _ERROR_HEADERS:
        headers[_ERROR_HEADERS[status]] = {"schema": _TEXT}
    return {
        "description": f"{status.phrase}: {', '.join(codes)}",
        "headers": headers,
        "content": {form: _ERROR_BODIES[form] for form in sorted(forms)},
    }
