"""A request's query string as a value."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from authorizer.sidecar.http.errors import invalid_request

_T = TypeVar("_T", bound=msgspec.Struct)


def decode_query(query: bytes, kind: type[_T]) -> _T:
    """``name=value&...`` as a value of ``kind``, whose fields are the parameters.

    Raises:
        HttpError: 400, naming the parameter.
    """
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError as error:
        raise invalid_request(f"the query is not name=value&...: {error}") from error
    given = dict(pairs)
    if len(given) < len(pairs):
        raise invalid_request("a query parameter is there twice: one value for each")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_encode_fields__)
        raise invalid_request(f"{error}; the parameters are {known}") from error
