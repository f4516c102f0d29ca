"""Parsing helpers of the file formats: numbered lines, errors that name a line, and names of resources."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Final

from records.acl import ResourceType
from records.errors import AclogError, DecodeError

if TYPE_CHECKING:
    from io import BufferedReader

    from authorizer.analysis.request_space.name_space import Key

#: A line that is not empty, with its number.
Line = tuple[int, str]

#: Resource types by the key of a file or the parameter of a flag.
RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}

_GZIP_MAGIC: Final = b"\x1f\x8b"


class FileFormatError(AclogError):
    """A file is not in the expected format; the message names the wrong entry."""


def gunzipped(file: BufferedReader) -> gzip.GzipFile | BufferedReader:
    """Return the content of a file that may be gzip, by its first bytes: stdin has no name."""
    return gzip.open(file) if file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC) else file


def line_error(problem: str, path: str, number: int) -> DecodeError:
    """Return an error about one line."""
    return DecodeError(problem, source=f"{path} line {number}")


def parse_json_object(line: bytes) -> dict[str, Any]:
    """Parse the JSON object in a line. Raises DecodeError: the line is not a JSON object in UTF-8."""
    try:
        # Decoded here, because json would guess UTF-16 from the first bytes.
        payload = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DecodeError(f"not UTF-8: byte {line[error.start]:#04x} at {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise DecodeError("not a JSON object")
    return payload


def parse_names(text: str) -> Key:
    """Parse a name, or a prefix of names as ``NAME*``."""
    return (text[:-1], False) if text.endswith("*") else (text, True)
