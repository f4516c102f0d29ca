"""Lines of input files and of stdin, compressed with gzip or not."""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.analysis.files.parsing import gunzipped, line_error
from authorizer.cli.failure import ExitCode, Failure, failure_of
from records.errors import DecodeError, UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.analysis.files.parsing import Line
    from records.entries import AccessControlEntryRecord
    from records.errors import RecordError

#: The path that means stdin.
STDIN: Final = "-"
NO_INPUT: Final = (
    "stdin ended without a single byte, as when the command that writes it has failed (`set -o pipefail` "
    "detects that). If there are no ACLs, write an empty set: echo '[]'"
)


@contextmanager
def lines_of(path: str) -> Iterator[Iterator[bytes]]:
    """Lines of a file, or of stdin for ``-``, decompressed if they are gzip."""
    with ExitStack() as opened:
        file: Any = opened.enter_context(click.open_file(path, "rb"))
        lines = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
        content = gunzipped(lines)
        if content is lines:  # which is left open: it may be stdin
            yield iter(lines)
        else:
            yield _decompressed(opened.enter_context(content), path)


def _decompressed(lines: Iterable[bytes], path: str) -> Iterator[bytes]:
    try:
        yield from lines
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Failure(f"{path}: not complete gzip: {error}", ExitCode.BAD_DATA) from error


def read_acl_file(path: str) -> list[AccessControlEntryRecord]:
    """The ACLs of a file, or of stdin for ``-``.

    Raises:
        OSError: it cannot be read.
        DecodeError: the form is unknown, a line is not valid, or the input is truncated, such as an empty
            stdin.
    """
    from authorizer.analysis.files.acl_file import parse_acls

    return [acl for _, acl in parse_acls(read_lines(path), path)]


def read_lines(path: str, *, may_be_empty: bool = False) -> list[Line]:
    """The lines of a file that are not blank; ``may_be_empty``: accept an empty stdin.

    Raises as ``read_acl_file``.
    """
    found: list[Line] = []
    number = 0
    with lines_of(path) as lines:
        for number, line in enumerate(lines, 1):
            if (text := _text(line, path, number)).strip():
                found.append((number, text))
    # An empty pipe means that its command failed: an empty set has bytes in every form.
    if not number and path == STDIN and not may_be_empty:
        raise DecodeError(NO_INPUT)
    return found


def _text(line: bytes, path: str, number: int) -> str:
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise line_error("not UTF-8", path, number) from None


def bad_line(error: RecordError, hint: str) -> Failure:
    """The failure for an error in a user's line; the usual hint is about a damaged log."""
    failure = failure_of(error)
    if not isinstance(error, UnsupportedVersionError):
        failure.hint = hint
    return failure
