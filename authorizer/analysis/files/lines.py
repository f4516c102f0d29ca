"""Numbered lines of a text file, and errors that name a line."""

from __future__ import annotations

import json
from typing import Any

from records.errors import AclogError, DecodeError


class FileFormatError(AclogError):
    """A file is not in the expected format; the message names the entry that is wrong."""


#: A line that is not empty, with its number.
Line = tuple[int, str]


def wrong_line(what: str, path: str, number: int) -> DecodeError:
    """An error about one line."""
    return DecodeError(what, source=f"{path} line {number}")


def payload_of(line: bytes) -> dict[str, Any]:
    """The JSON object in a line.

    Raises:
        DecodeError: anything else.
    """
    try:
        # Said, as json would guess UTF-16 from the first bytes of anything.
        payload = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DecodeError(f"not UTF-8: byte {line[error.start]:#04x} at {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise DecodeError("not a JSON object")
    return payload
