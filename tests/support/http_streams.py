"""Random streams of pipelined HTTP requests, as correct, careless and hostile clients send them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"

#: Header lines of the same length: a stock server is not to see that another protocol is offered.
_UPGRADE, _NO_UPGRADE = b"Upgrade: h2c", b"Xpgrade: h2c"
_GARBAGE: Final = (
    b"\0\0\0\0",
    b"GET\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    b"POST /livez HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nContent-Length : 1\r\n\r\nx",
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: y\r\n z\r\n\r\n",
    b"GET /livez HTTP/1.1\nHost: localhost\n\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
_BROKEN_CHUNKS: Final = (b"fffffffffffffffff\r\nx", b"2\r\nxyz\r\n", b"-1\r\n", b"1\nx\r\n", b"1 \r\nx\r\n")


@dataclass(frozen=True, slots=True)
class Stream:
    """The bytes that the client of one connection sends.

    Attributes:
        reads: the bytes, as the server reads them.
    """

    reads: tuple[bytes, ...]

    @property
    def for_stock(self) -> tuple[bytes, ...]:
        """The same without offers of another protocol, which uvicorn does not ignore."""
        whole = b"".join(self.reads).replace(_UPGRADE, _NO_UPGRADE)
        reads, at = [], 0
        for read in self.reads:
            reads.append(whole[at : at + len(read)])
            at += len(read)
        return tuple(reads)


def random_stream(seed: int, tokens: Sequence[bytes], callers: Sequence[str]) -> Stream:
    """The stream of a seed.

    Args:
        seed: equal ones give equal streams.
        tokens: bearer tokens of some callers.
        callers: names of users to ask about.
    """
    return _Drawn(Random(seed), tokens, callers).stream()


class _Drawn:
    def __init__(self, random: Random, tokens: Sequence[bytes], callers: Sequence[str]) -> None:
        self._random = random
        self._tokens = tokens
        self._callers = callers

    def stream(self) -> Stream:
        random = self._random
        parts: list[bytes] = []
        for _ in range(random.choice((1, 2, 3, 3, 4, 5, 6, 24))):
            parts += self._parts()
        if random.random() < 0.25:
            parts.append(random.choice(_GARBAGE))
            parts += self._parts()
        elif random.random() < 0.2:
            parts[-1] = parts[-1][: random.randrange(len(parts[-1]) + 1)]
        return Stream(tuple(filter(None, self._split(parts))))

    def _split(self, parts: list[bytes]) -> list[bytes]:
        """Split into reads: by request, not at all, at random places, at every byte."""
        random = self._random
        kind = random.random()
        if kind < 0.45:
            return parts
        whole = b"".join(parts)
        if kind < 0.6:
            return [whole]
        if kind < 0.63 and len(whole) < 2000:
            return [whole[at : at + 1] for at in range(len(whole))]
        cuts = sorted(random.randrange(len(whole) + 1) for _ in range(random.choice((1, 2, 5, 20))))
        return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    def _parts(self) -> list[bytes]:
        """One request, or several that depend on each other."""
        random = self._random
        kind = random.random()
        if kind < 0.5:
            return [self._evaluation()]
        if kind < 0.58:
            return [self._health(b"")]
        if kind < 0.66:
            return [self._health(b"x" * random.choice((1, 5, 300)))]
        if kind < 0.71:
            head, body = self._cut(self._evaluation())
            return [head, body]
        if kind < 0.75:
            return [b"\r\n" * random.choice((1, 2)), self._evaluation()]
        if kind < 0.9:
            return self._hidden()
        return self._early()

    def _early(self) -> list[bytes]:
        """A request whose body comes late or never: the bytes that follow may be read as the body."""
        random = self._random
        length = random.choice((1, 7, 60, 400))
        head, _ = self._cut(self._health(b"x" * length))
        return [head, *([] if random.random() < 0.5 else [b"x" * length])]

    def _hidden(self) -> list[bytes]:
        """A declared body that looks like the head of a request, whose body looks like a request."""
        random = self._random
        inner = self._evaluation() if random.random() < 0.8 else self._health(b"")
        fake, _ = self._cut(self._request("POST", EVALUATION, inner, plain=True))
        head, _ = self._cut(self._health(fake))
        again = self._request("POST", EVALUATION, self._evaluation_body(), plain=True)
        if random.random() < 0.5:
            return [head, fake + inner, again]
        return [head + fake, inner, again]

    @staticmethod
    def _cut(request: bytes) -> tuple[bytes, bytes]:
        head, end, body = request.partition(b"\r\n\r\n")
        return head + end, body

    def _health(self, body: bytes) -> bytes:
        random = self._random
        target = random.choice(("/livez", "/livez", "/openapi.jso", "/v1/state?x=1"))
        return self._request("GET", target, body, plain=random.random() < 0.6)

    def _evaluation(self) -> bytes:
        random = self._random
        plain = random.random() < 0.5
        kind = random.random()
        if kind < 0.75:
            return self._request("POST", EVALUATION, self._evaluation_body(), plain=plain)
        if kind < 0.85:
            question = json.loads(self._evaluation_body())
            body = json.dumps({**question, "evaluations": [{}, {"action": {"name": "WRITE"}}]}).encode()
            return self._request("POST", EVALUATIONS, body, plain=plain)
        if kind < 0.9:
            return self._request("POST", EVALUATION + "?x", self._evaluation_body(), plain=plain)
        if kind < 0.95:
            return self._request("POST", EVALUATION, random.choice((b"", b"{", b"[]")), plain=plain)
        return self._request(random.choice(("GET", "PUT")), EVALUATION, self._evaluation_body(), plain=plain)

    def _evaluation_body(self) -> bytes:
        random = self._random
        question = {
            "subject": {"type": "User", "id": random.choice(self._callers)},
            "action": {"name": "READ"},
            "resource": {"type": "TOPIC", "id": random.choice(("orders", "other", "a-longer-name"))},
            "context": {"host": "10.0.0.1"},
        }
        return json.dumps(question).encode()

    def _request(self, method: str, target: str, body: bytes, *, plain: bool) -> bytes:
        """``plain``: as most clients send it: with a length, and no more than a token."""
        random = self._random
        version, host, lines = "1.1", b"localhost", []
        token = random.choice((None, *self._tokens))
        if token is not None:
            lines.append(b"Authorization: Bearer " + token)
        is_chunked = False
        if not plain:
            is_chunked = random.random() < 0.3
            version = "1.0" if random.random() < 0.06 else "1.1"
            host = b"example.org" if random.random() < 0.06 else host
            for line, share in (
                (b"Content-Type: application/json", 0.5),
                (b"Content-Type: text/plain", 0.04),
                (b"Connection: close", 0.06),
                (b"Connection: keep-alive", 0.1),
                (b"Expect: 100-continue", 0.08),
                (b"Expect: something", 0.02),
                (b"X-Request-ID: r-%d" % random.randrange(3), 0.2),
                (b"X-Request-ID: other", 0.05),
                (b"Authorization: Basic eDp5", 0.04),
                (b"Accept: text/html\r\nACCEPT: application/json", 0.08),
                (b"Connection: Upgrade\r\n" + _UPGRADE, 0.08),
            ):
                if random.random() < share:
                    lines.append(line)
        framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(body)
        lines = [f"{method} {target} HTTP/{version}".encode(), b"Host: " + host, framing, *lines, b"", b""]
        return b"\r\n".join(lines) + (self._chunks(body) if is_chunked else body)

    def _chunks(self, body: bytes) -> bytes:
        random = self._random
        size = random.choice((1, 16, 1000))
        chunks = []
        for at in range(0, len(body), size):
            piece = body[at : at + size]
            extension = b";x=y" if random.random() < 0.1 else b""
            chunks.append(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece))
        if random.random() < 0.06:
            chunks.append(random.choice(_BROKEN_CHUNKS))
        trailers = random.choice(
            (
                b"",
                b"",
                b"X: y\r\n",
                b"Authorization: Bearer z\r\nHost: example.org\r\n",
                b"Connection: close\r\n",
            )
        )
        return b"".join(chunks) + b"0\r\n" + trailers + b"\r\n"
