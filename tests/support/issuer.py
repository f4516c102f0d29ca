"""An issuer of JSON Web Tokens: its keys, its key set, its tokens, and an HTTP server for the key set."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://login.example.org/realms/kafka"
AUDIENCE = "aclog"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@cache
def private_key(kid: str, kind: str = "EC") -> PrivateKey:
    """Created once for each name, since RSA keys are slow to generate."""
    if kind == "RSA":
        return rsa.generate_private_key(65537, 2048)
    if kind == "OKP":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1())


def public_jwk(kid: str, kind: str = "EC", **members: object) -> dict[str, Any]:
    algorithms: dict[str, Any] = {"EC": ECAlgorithm, "RSA": RSAAlgorithm, "OKP": OKPAlgorithm}
    public: Any = private_key(kid, kind).public_key()
    return {**algorithms[kind].to_jwk(public, as_dict=True), "kid": kid, "use": "sig", **members}


def key_set(*kids: str) -> bytes:
    """A JSON Web Key Set of EC keys."""
    return json.dumps({"keys": [public_jwk(kid) for kid in kids]}).encode()


def token(kid: str | None = "one", kind: str = "EC", algorithm: str = "ES256", **claims: object) -> str:
    """A token that is valid for a minute unless ``claims`` differ; a claim that is None is omitted."""
    now = int(time.time())
    of_token = {"iss": ISSUER, "aud": AUDIENCE, "sub": "gateway", "iat": now, "exp": now + 60, **claims}
    headers = None if kid is None else {"kid": kid}
    return jwt.encode(
        {name: value for name, value in of_token.items() if value is not None},
        private_key(kid or "one", kind),
        algorithm,
        headers,
    )


class KeySetServer:
    """An HTTP server of a key set that tests change.

    Attributes:
        url: of the key set.
        body: the key set; None: 503.
        requests: number of requests so far.
    """

    def __init__(self, body: bytes | None) -> None:
        self.body = body
        self.requests = 0
        self.url = ""


@contextmanager
def key_set_server(body: bytes | None) -> Iterator[KeySetServer]:
    served = KeySetServer(body)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests += 1
            body = served.body
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("location", "/keys")
                self.end_headers()
                return
            self.send_response(200 if body is not None else 503)
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{server.server_port}/keys"
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


class TokenEndpoint:
    """An OAuth token endpoint for client credentials.

    Attributes:
        url: of it.
        answer: status and body; None: a token.
        requests: authorization header and form of each.
    """

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] | None = None
        self.requests: list[tuple[str, str]] = []
        self.url = ""


@contextmanager
def token_endpoint(subject: str) -> Iterator[TokenEndpoint]:
    """A token endpoint whose tokens have this ``subject``."""
    endpoint = TokenEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["content-length"])).decode()
            endpoint.requests.append((self.headers["authorization"], form))
            granted = {"access_token": token(sub=subject), "token_type": "Bearer", "expires_in": 60}
            status, body = endpoint.answer or (200, json.dumps(granted).encode())
            self.send_response(status)
            if status == 302:
                self.send_header("location", "/elsewhere")
            self.send_header("content-type", "application/json")  # librdkafka requires it
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
