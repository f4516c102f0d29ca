"""``/openapi.json``: the endpoints as an OpenAPI 3.1 document.

Schemas come from the types that decode requests and encode answers. HEAD is served where GET is, but not
listed.
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
from authorizer.api.http.answers import acls, confluent, decisions
from authorizer.api.http.answers import node as node_answers
from authorizer.api.http.answers.node import COMPONENTS
from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.request_response import (
    AUTHZEN_PATH,
    CONFLUENT_PATH,
    JSON,
    PROBLEM_JSON,
    REQUEST_ID_BYTES_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from authorizer.sidecar.routes.endpoint import Endpoint

#: A JSON schema (2020-12).
Schema = dict[str, Any]

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

#: Types of the answers, by the names of their schemas.
_ANSWER_TYPES: Final = vars(acls) | vars(confluent) | vars(decisions) | vars(node_answers)
#: What a fleet has before a node's paths.
CLUSTER_PREFIX: Final = CLUSTERS_PATH + "{cluster}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_TEXT: Final[Schema] = {"type": "string"}
#: Media type of an error, and the schema of its body.
_ErrorForm = tuple[str, Schema]
_PROBLEM_FORM: Final[_ErrorForm] = (PROBLEM_JSON, {"$ref": f"{COMPONENTS}Problem"})
_AUTHZEN_FORM: Final[_ErrorForm] = (JSON, _TEXT)
_CONFLUENT_FORM: Final[_ErrorForm] = (JSON, {"$ref": f"{COMPONENTS}ConfluentError"})
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
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "Any user name, and a token as the password, for Confluent's clients",
    },
}
#: A caller with neither is ANONYMOUS.
_SECURITY: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"mutualTLS": []}, {}]


def openapi_document(
    operations: Mapping[tuple[str, str], Endpoint], public_paths: Collection[str]
) -> dict[str, Any]:
    """The document of a node; ``public_paths`` need no authentication."""
    return _document(_paths(operations, public_paths), operations.values())


def fleet_document(
    fleet: Mapping[tuple[str, str], Endpoint],
    node: Mapping[tuple[str, str], Endpoint],
    public_paths: Collection[str],
) -> dict[str, Any]:
    """The document of a fleet: its own operations, and those of a node under the path of a cluster."""
    of_cluster = {
        key: replace(found, errors=(*found.errors, ErrorCode.NOT_FOUND, ErrorCode.AUTHORIZER_NOT_READY))
        for key, found in node.items()
    }
    paths = {**_paths(fleet, public_paths), **_paths(of_cluster, public_paths, CLUSTER_PREFIX)}
    return _document(paths, (*fleet.values(), *node.values()), (node_answers.FailedCluster,))


def _paths(
    operations: Mapping[tuple[str, str], Endpoint], public_paths: Collection[str], prefix: str = ""
) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for (method, path), operation in operations.items():
        is_open = path in public_paths
        paths[prefix + path][method.lower()] = _operation_object(
            method, prefix + path, operation, is_open=is_open, error_form=_error_form(path)
        )
    return paths


def _document(
    paths: Mapping[str, Mapping[str, Any]], endpoints: Iterable[Endpoint], more_answers: Sequence[Any] = ()
) -> dict[str, Any]:
    endpoints = list(endpoints)
    requests = [
        found.request
        for found in endpoints
        if found.request and found.methods != ("GET",) and not found.in_query
    ]
    answer_types = [kind for found in endpoints for kind in found.answer]
    _, of_requests = _schemas(requests)
    _, of_answers = _schemas([*answer_types, *more_answers, node_answers.Problem, confluent.ConfluentError])
    for name, schema in of_answers.items():
        # An answer has all members but those that its encoder leaves out.
        schema["required"] = _encoded_members(_ANSWER_TYPES[name])
    schemas = {**of_requests, **of_answers}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "aclog",
            "version": version("aclog"),
            "description": "Kafka's ACL decisions outside the broker. The header aclog-error has an error's "
            "code; its body is RFC 9457's. Below /access/v1/ it is the message alone, as AuthZEN 1.0 has it, "
            "and below /kafka/v3/ that of Confluent's Kafka REST API.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {"RequestId": _REQUEST_ID},
            "securitySchemes": _SECURITY_SCHEMES,
        },
        "security": _SECURITY,
    }


def _operation_object(
    method: str, path: str, operation: Endpoint, *, is_open: bool, error_form: _ErrorForm
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
    if operation.request and (method == "GET" or operation.in_query):
        parameters += _query_parameters(operation.request, operation.example)
        errors.add(ErrorCode.INVALID_REQUEST)
    elif operation.request:
        required = {"required": operation.required} if operation.required else {}
        schema = {"$ref": COMPONENTS + operation.request.__name__, **required}
        content = {JSON: {"schema": schema, "example": operation.example}}
        shown["requestBody"] = {"required": True, "content": content}
        errors.update(_OF_BODIES)
    shown["responses"] = _responses(operation, errors, error_form)
    if error_form is _CONFLUENT_FORM:
        shown["security"] = [*_SECURITY, {"basic": []}]
    return shown | ({"security": []} if is_open else {})


def _query_parameters(request: type[msgspec.Struct], example: Mapping[str, Any]) -> list[dict[str, Any]]:
    _, schemas = msgspec.json.schema_components([request])
    schema = schemas[request.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": member}
        | ({"example": example[name]} if name in example else {})
        for name, member in schema["properties"].items()
    ]


def _error_form(path: str) -> _ErrorForm:
    if path.startswith(AUTHZEN_PATH):
        return _AUTHZEN_FORM
    return _CONFLUENT_FORM if path.startswith(CONFLUENT_PATH) else _PROBLEM_FORM


def _responses(operation: Endpoint, errors: set[ErrorCode], error_form: _ErrorForm) -> dict[str, Any]:
    by_status = defaultdict(list)
    for code in sorted(errors):
        by_status[code.status].append(code)
    responses = {
        str(int(status)): _error_response(status, by_status[status], error_form)
        for status in sorted(by_status)
    }
    answer: dict[str, Any] = {"description": operation.description}
    if operation.status == HTTPStatus.OK:
        answer["content"] = {operation.media_type: {"schema": _answer_schema(operation.answer)}}
    responses = {str(int(operation.status)): answer, **responses}
    if operation.not_ready:
        content = {JSON: {"schema": _answer_schema((operation.not_ready,))}}
        responses["503"] = {"description": "It may not, or does not, and why", "content": content}
    return responses


def _answer_schema(types: Sequence[Any]) -> Schema:
    found, _ = _schemas(types)
    return {} if not found else found[0] if len(found) == 1 else {"anyOf": list(found)}


def _schemas(types: Sequence[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(types, ref_template=COMPONENTS + "{name}")


def _encoded_members(kind: type[msgspec.Struct]) -> list[str]:
    """The members that every JSON object of an answer type has."""
    tag = kind.__struct_config__.tag_field
    tags = [] if tag is None else [tag]
    return tags + [
        found.encode_name
        for found in msgspec.structs.fields(kind)
        if found.required or not (found.default is msgspec.UNSET or kind.__struct_config__.omit_defaults)
    ]


def _error_response(status: HTTPStatus, codes: list[ErrorCode], error_form: _ErrorForm) -> dict[str, Any]:
    forms = dict(_PROBLEM_FORM if code in _OF_THE_WIRE else error_form for code in codes)
    headers = {"aclog-error": {"required": True, "schema": {"enum": codes}}}
    if status in _ERROR_HEADERS:
        headers[_ERROR_HEADERS[status]] = {"schema": _TEXT}
    return {
        "description": f"{status.phrase}: {', '.join(codes)}",
        "headers": headers,
        "content": {form: {"schema": forms[form]} for form in sorted(forms)},
    }
