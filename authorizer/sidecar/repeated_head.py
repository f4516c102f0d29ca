"""The head of a request that comes again on its connection: known by its bytes, and not parsed again.

A client sends the same head with each question, but for Content-Length. What was understood of one holds for
the next if all else is the same, byte by byte. Pure.
"""

from __future__ import annotations

import re
from typing import Final, Self

import msgspec

_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"(?<=\r\n)content-length: *([0-9]+)(?=\r\n)", re.IGNORECASE)


class RepeatedHead(msgspec.Struct, gc=False):
    """One that was parsed: what is before the digits of its Content-Length, and what is behind them."""

    before: bytes
    after: bytes

    @classmethod
    def of(cls, request: bytes) -> Self | None:
        """Of a request that was parsed as a whole one, with a body and nothing behind it.

        None if the next one with such a head is better parsed, too.
        """
        head = request[: request.find(_END) + len(_END)]
        lengths = [found.span(1) for found in _LENGTH.finditer(head)]
        # Where a line may end otherwise, what looks like one of the head might be something else.
        if len(lengths) != 1 or head.count(b"\n") != head.count(b"\r\n"):
            return None
        begins, ends = lengths[0]
        repeated = cls(head[:begins], head[ends:])
        return None if repeated.body_of(request) is None else repeated

    def body_of(self, request: bytes) -> bytes | None:
        """The body, if this is one whole request with this head, and no more."""
        head, _, body = request.partition(self.after)
        return body if head == b"%b%d" % (self.before, len(body)) else None
