"""Lines that commands read: JSON objects, from a file or stdin, gzip or not."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.failure import failure_of
from records.errors import DecodeError, UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.cli.failure import Failure
    from records.errors import RecordError

_GZIP_MAGIC: Final = b"\x1f\x8b"


@contextmanager
def lines_of(path: str) -> Iterator[Iterator[bytes]]:
    """Lines of a file, or of stdin for ``-``, unpacked if they are gzip.

    Raises:
        OSError: the file cannot be read.
        DecodeError: while they are read: it is not whole gzip.
    """
    with ExitStack() as opened:
        file: Any = opened.enter_context(click.open_file(path, "rb"))
        lines = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
        # By its content and not by its name: stdin has none.
        if lines.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            yield _unpacked(opened.enter_context(gzip.open(lines)), path)
        else:
            yield iter(lines)


def _unpacked(lines: Iterable[bytes], path: str) -> Iterator[bytes]:
    try:
        yield from lines
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DecodeError(f"not complete gzip: {error}", source=path) from error


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


def bad_line(error: RecordError, hint: str) -> Failure:
    """What a user's own line gets, where the same error in a log would speak of replicas."""
    failure = failure_of(error)
    if not isinstance(error, UnsupportedVersionError):
        failure.hint = hint
    return failure
