"""ErrorCode: codes of HTTP errors for programs (header ``aclog-error``), with their statuses and meanings."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Self

import msgspec


class ErrorCode(StrEnum):
    """Kafka's name of the error where it has one (org.apache.kafka.common.protocol.Errors).

    Attributes:
        status: of answers with this code.
        meaning: Markdown for docs/errors.md.
    """

    status: HTTPStatus
    meaning: str

    def __new__(cls, code: str, status: HTTPStatus, meaning: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.status = status
        member.meaning = meaning
        return member

    AUTHORIZER_NOT_READY = (
        "AUTHORIZER_NOT_READY",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The log is not loaded, or its state cannot be trusted. `retry-after` says when to ask again.",
    )
    CLUSTER_AUTHORIZATION_FAILED = (
        "CLUSTER_AUTHORIZATION_FAILED",
        HTTPStatus.FORBIDDEN,
        "The caller is not authorized for the request. The text names the ways to authorize it.",
    )
    INVALID_CONFIG = (
        "INVALID_CONFIG",
        HTTPStatus.BAD_REQUEST,
        "The value of a setting is not allowed, or only a restart can change the setting.",
    )
    INVALID_REQUEST = ("INVALID_REQUEST", HTTPStatus.BAD_REQUEST, "A field is missing or has a wrong value.")
    NOT_CONTROLLER = (
        "NOT_CONTROLLER",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "This node cannot write to the log. Only for `/kafka/v3`: elsewhere each item has its own result.",
    )
    REQUEST_TIMED_OUT = (
        "REQUEST_TIMED_OUT",
        HTTPStatus.SERVICE_UNAVAILABLE,
        (
            "A write was not answered in time; the text says whether it may be in the log. Only for "
            "`/kafka/v3`: elsewhere each item has its own result."
        ),
    )
    UNKNOWN_SERVER_ERROR = (
        "UNKNOWN_SERVER_ERROR",
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "A defect in aclog. Its log has the traceback.",
    )
    # HTTP's own
    CONSOLE_AWAY = (
        "CONSOLE_AWAY",
        HTTPStatus.SERVICE_UNAVAILABLE,
        (
            "The [console's process](console.md#a-process-of-its-own) does not answer. The text has the "
            "reason, `retry-after` says when to ask again."
        ),
    )
    CONTENT_TOO_LARGE = (
        "CONTENT_TOO_LARGE",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        (
            "The body has more than 4 MiB, or more than 10,000 evaluations, names or ACLs "
            "([limits](http.md#limits))."
        ),
    )
    HEAD_TOO_LARGE = (
        "HEAD_TOO_LARGE",
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        (
            "The request line and the headers have more than 32 KiB, or there are more than 100 headers. "
            "The connection is closed."
        ),
    )
    INVALID_HEADER = (
        "INVALID_HEADER",
        HTTPStatus.BAD_REQUEST,
        (
            "Below `/access/v1/`: the `Content-Type` is not `application/json` (nor missing, nor curl's "
            "default). Or the `X-Request-ID` has more than 256 characters or is not printable ASCII. Or the "
            "`X-Forwarded-For` of a trusted proxy has no address."
        ),
    )
    INVALID_HTTP = (
        "INVALID_HTTP",
        HTTPStatus.BAD_REQUEST,
        (
            "The request is not valid HTTP, or its length is ambiguous (two lengths, or a length and "
            "chunks). The connection is closed."
        ),
    )
    INVALID_JSON = ("INVALID_JSON", HTTPStatus.BAD_REQUEST, "The body is not JSON.")
    METHOD_NOT_ALLOWED = (
        "METHOD_NOT_ALLOWED",
        HTTPStatus.METHOD_NOT_ALLOWED,
        "The path does not have this method. The header `allow` lists its methods.",
    )
    MISDIRECTED_REQUEST = (
        "MISDIRECTED_REQUEST",
        HTTPStatus.MISDIRECTED_REQUEST,
        "On a plaintext loopback listener: the `Host` is not one of the [sidecar's names](http.md#names).",
    )
    NOT_FOUND = ("NOT_FOUND", HTTPStatus.NOT_FOUND, "The path does not exist.")
    NO_PRINCIPAL = (
        "NO_PRINCIPAL",
        HTTPStatus.FORBIDDEN,
        (
            "No rule of `ssl.principal.mapping.rules` matches the client's certificate. Or its SPIFFE id is "
            "malformed, ambiguous, or missing where one is required."
        ),
    )
    NO_TOKEN_KEYS = (
        "NO_TOKEN_KEYS",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The issuer's keys have not been fetched yet, so its tokens cannot be verified.",
    )
    OFFSET_NOT_HELD = (
        "OFFSET_NOT_HELD",
        HTTPStatus.GONE,
        (
            "The node does not store the state at `at_offset` (any more). `aclog check --at-offset` reads it "
            "from the log."
        ),
    )
    OFFSET_NOT_VISIBLE = (
        "OFFSET_NOT_VISIBLE",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "`min_offset` did not become visible within 5 seconds.",
    )
    OVERLOADED = (
        "OVERLOADED",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The sidecar is at one of its [limits](http.md#limits). `retry-after` says when to ask again.",
    )
    REQUEST_TIMEOUT = (
        "REQUEST_TIMEOUT",
        HTTPStatus.REQUEST_TIMEOUT,
        "The request was not complete 30 seconds after its first byte. The connection is closed.",
    )
    TOO_MANY_CONNECTIONS = (
        "TOO_MANY_CONNECTIONS",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The limit of connections is reached, in total or for this address. The connection is closed.",
    )
    TOO_MANY_REQUESTS = (
        "TOO_MANY_REQUESTS",
        HTTPStatus.TOO_MANY_REQUESTS,
        (
            "This token is wrong, and so were too many others from this address; or too many tokens are "
            "being verified. `retry-after` says when to try again. A valid token is never refused for the "
            "failures of others."
        ),
    )
    TOO_MANY_STREAMS = (
        "TOO_MANY_STREAMS",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "100 clients follow the changes already.",
    )
    UNAUTHENTICATED = (
        "UNAUTHENTICATED",
        HTTPStatus.UNAUTHORIZED,
        (
            "The listener requires authentication; or the token or the `Authorization` header is invalid "
            "(`www-authenticate` has the reason, "
            "[RFC 6750](https://www.rfc-editor.org/rfc/rfc6750#section-3))."
        ),
    )


ErrorCodeName = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [code.value for code in ErrorCode]})]
