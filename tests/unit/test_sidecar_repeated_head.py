"""A head that comes again: what is known without parsing is what the parser would find."""

from __future__ import annotations

import pytest
from httptools import HttpParserError, HttpRequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from authorizer.sidecar.repeated_head import RepeatedHead

LINES = (b"POST /access/v1/evaluation HTTP/1.1", b"Host: localhost", b"Accept: */*")


def asking(body: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join([*(lines or (*LINES, b"Content-Length: %d" % len(body))), b"", body])


FIRST = asking(b'{"a":1}')


class Parsed:
    """What the parser finds in some bytes: whole requests, with all that their heads say but the length."""

    def __init__(self, data: bytes) -> None:
        self.requests: list[tuple[bytes, list[tuple[bytes, bytes]], bytes]] = []
        self.is_whole = False
        self._parser = HttpRequestParser(self)
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.is_whole = False
        self._url, self._body = b"", b""
        self._headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() != b"content-length":
            self._headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.is_whole = True
        self.requests.append((self._url, self._headers, self._body))


@pytest.mark.parametrize("body", [b"", b"{}", b'{"a":2}', b"\r\n\r\n", b"x" * 1000])
def test_its_body_is_known_whatever_its_length(body: bytes) -> None:
    repeated = RepeatedHead.of(FIRST)
    assert repeated is not None
    assert repeated.body_of(asking(body)) == body


@pytest.mark.parametrize(
    "request_",
    [
        FIRST[:-1],
        FIRST + b" ",
        FIRST + FIRST,
        FIRST[:20],
        b"",
        asking(b"{}", *LINES, b"Content-Length: 02"),
        asking(b"{}", *LINES, b"Content-Length: +2"),
        asking(b"{}", *LINES, b"Content-Length: "),
        asking(b"{}", *LINES, b"Content-Length: 2", b"Transfer-Encoding: chunked"),
        asking(b"{}", *LINES, b"Content-Length: 2 "),
        asking(b"{}", *LINES, b"content-length: 2"),
        asking(b"{}", LINES[0], b"Host: example.org", LINES[2], b"Content-Length: 2"),
    ],
)
def test_anything_else_is_to_be_parsed(request_: bytes) -> None:
    repeated = RepeatedHead.of(FIRST)
    assert repeated is not None
    assert repeated.body_of(request_) is None


@pytest.mark.parametrize(
    "request_",
    [
        asking(b"2\r\n{}\r\n0\r\n\r\n", *LINES, b"Transfer-Encoding: chunked"),
        asking(b"{}", *LINES, b"Content-Length: 2", b"Content-Length: 2"),
        asking(b"{}", *LINES, b"Content-Length: 02"),
        asking(b"{}", *LINES, b"X: 1\nContent-Length: 7", b"Content-Length: 2"),
        FIRST + FIRST,
        FIRST[:-1],
    ],
)
def test_not_every_head_is_one_to_be_known(request_: bytes) -> None:
    assert RepeatedHead.of(request_) is None


@given(
    at=st.integers(0, len(FIRST)), taken=st.integers(0, 3), put=st.binary(max_size=3) | st.integers(0, 99999)
)
@example(at=FIRST.index(b"7\r"), taken=1, put=b"07")
def test_what_it_knows_is_what_the_parser_finds(at: int, taken: int, put: bytes | int) -> None:
    """Of a request that differs anywhere: never another head, another body, or a part of one."""
    repeated = RepeatedHead.of(FIRST)
    assert repeated is not None
    piece = put if isinstance(put, bytes) else b"%d" % put
    changed = FIRST[:at] + piece + FIRST[at + taken :]
    body = repeated.body_of(changed)
    if body is None:
        return
    try:
        parsed = Parsed(changed)
    except HttpParserError:
        pytest.fail(f"it is no HTTP: {changed!r}")
    url, headers, _ = Parsed(FIRST).requests[0]
    assert parsed.requests == [(url, headers, body)]
    assert parsed.is_whole
