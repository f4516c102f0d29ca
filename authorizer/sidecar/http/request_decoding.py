"""Decoding of a request's JSON body or query string into a Struct.

Does not import the server's libraries, because clients of a node use it.
"""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import HttpError, invalid_request

_T = TypeVar("_T")


def decode_body(body: bytes, kind: type[_T], path: str) -> _T:
    """Decode a JSON body as ``kind``; errors name ``path``. HttpError 400 has the field and its type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HttpError(
            ErrorCode.INVALID_REQUEST, f"the body is not a request for {path}: {error}"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # RecursionError: deeply nested arrays, even in an unknown field.
        raise HttpError(ErrorCode.INVALID_JSON, f"the body is not JSON that can be read: {error}") from error


_Query = TypeVar("_Query", bound=msgspec.Struct)


def decode_query(query: bytes, kind: type[_Query]) -> _Query:
    """Decode ``name=value&...`` as ``kind``, whose fields are the parameters. HttpError 400 names one."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError as error:
        raise invalid_request(f"the query is not name=value&...: {error}") from error
    given = dict(pairs)
    if len(given) < len(pairs):
        raise invalid_request("a query parameter is repeated: send one value for each")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_encode_fields__)
        raise invalid_request(f"{error}; the parameters are {known}") from error
