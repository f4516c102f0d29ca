"""A request's JSON body as a value. Without the server's libraries: clients of a node share it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import HttpError

_T = TypeVar("_T")


def decode_body(body: bytes, kind: type[_T], path: str) -> _T:
    """A JSON body as a value of ``kind``; ``path`` is named in errors.

    Raises:
        HttpError: 400 with the field and what it should be.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HttpError(
            ErrorCode.INVALID_REQUEST, f"the body is not a request for {path}: {error}"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # RecursionError: arrays in arrays in arrays, even in a field that is not read.
        raise HttpError(ErrorCode.INVALID_JSON, f"the body is not JSON that can be read: {error}") from error
