"""An ASGI application that answers with the same bytes each time: ``python -m benchmarks.bare_server PORT``.

It stands on uvicorn as the sidecar does, and reads each request to its end. What it answers is the newest
body that was PUT to it; before that, nothing.
"""

from __future__ import annotations

import sys

import uvicorn
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope


class Bare:
    """The application."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        body, more = bytearray(), True
        while more:
            event = await receive()
            if event["type"] != "http.request":
                return
            body += event["body"]
            more = event["more_body"]
        if scope["method"] == "PUT":
            self._answers[scope["path"]] = bytes(body)
        answer = self._answers.get(scope["path"], b"")
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(answer)).encode("ascii")),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": answer, "more_body": False})


if __name__ == "__main__":
    uvicorn.run(
        Bare(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
