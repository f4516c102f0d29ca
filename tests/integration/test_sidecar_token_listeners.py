"""Tokens on listeners of every kind: with TLS and client certificates, on Unix sockets, in the clear."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from authorizer.api.errors import ConfigError
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from authorizer.sidecar.server import Sidecar
from records.principal import KafkaPrincipal
from support.certificates import Authority
from support.nodes import SOON_S

AUTHORITY = Authority("CN=Test CA")
CLIENT = AUTHORITY.issue("CN=proxy")
TOKEN, STORED = new_token(KafkaPrincipal("User", "gateway"))
BEARER = {"authorization": f"Bearer {TOKEN}"}
OTHER = {
    "subject": {"type": "User", "id": "another"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


@contextmanager
def serving(tmp_path: Path, **settings: str) -> Iterator[Sidecar]:
    """With a file that has TOKEN; settings with underscores for dots."""
    TOKENS_FILE.put(tmp_path / "tokens", STORED)
    flags = {
        "aclog.log.url": str(tmp_path / "log"),
        "aclog.log.mode": "create",
        "aclog.auth.tokens.file": str(tmp_path / "tokens"),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    config = load_config(environ={}, flags=flags)
    with Sidecar(config) as sidecar, Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        sidecar.start(node)
        yield sidecar


def caller_of(client: httpx.Client, **headers: str) -> str | int:
    """The caller, as a refusal to query others names it, or the status of another error."""
    answer = client.post("/access/v1/evaluation", json=OTHER, headers=headers)
    refusal = re.match(r"(.*) on listener .* may ask about itself only", answer.text.strip('"'))
    return refusal[1] if refusal else answer.status_code


def test_a_token_takes_precedence_over_a_certificate(tmp_path: Path) -> None:
    """Either of them is enough where one is required; a wrong token is wrong with a certificate, too."""
    (tmp_path / "authorities.pem").write_text(AUTHORITY.pem)
    settings = {
        "aclog_listeners": "SSL://localhost:0",
        "aclog_auth_required_listeners": "SSL",
        "ssl_keystore_location": str(AUTHORITY.issue("CN=localhost").write(tmp_path / "server.pem")),
        "ssl_truststore_location": str(tmp_path / "authorities.pem"),
        "ssl_client_auth": "requested",
    }
    nobody = ssl.create_default_context(cadata=AUTHORITY.pem)
    proxy = ssl.create_default_context(cadata=AUTHORITY.pem)
    proxy.load_cert_chain(CLIENT.write(tmp_path / "client.pem"))
    with serving(tmp_path, **settings) as sidecar:
        with httpx.Client(base_url=sidecar.urls[0], verify=proxy) as client:
            assert caller_of(client) == "User:CN=proxy"
            assert caller_of(client, **BEARER) == "User:gateway"
            assert caller_of(client) == "User:CN=proxy"
            assert caller_of(client, authorization=f"Bearer {TOKEN[:-3]}AAA") == 401
        with httpx.Client(base_url=sidecar.urls[0], verify=nobody) as client:
            assert caller_of(client) == 401
            assert caller_of(client, **BEARER) == "User:gateway"
            assert client.get("/readyz").status_code == 200


def test_tokens_are_accepted_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.sock"
    settings = {"aclog_listeners": f"LOCAL://{path}", "aclog_auth_required_listeners": "LOCAL"}
    with (
        serving(tmp_path, **settings),
        httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client,
    ):
        assert caller_of(client) == 401
        assert caller_of(client, **BEARER) == "User:gateway"


def test_a_plaintext_token_is_accepted_only_on_loopback(tmp_path: Path) -> None:
    """Known or not, and the answer says what to do about it."""
    settings = {
        "aclog_listeners": "PLAINTEXT://127.0.0.1:0,OPEN://0.0.0.0:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,OPEN:PLAINTEXT",
        "aclog_allow_plaintext_beyond_loopback": "true",
    }
    with serving(tmp_path, **settings) as sidecar:
        loopback, everywhere = sidecar.urls
        with httpx.Client(base_url=loopback) as client:
            assert caller_of(client, **BEARER) == "User:gateway"
        port = everywhere.rpartition(":")[2]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            refused = client.get("/v1/state", headers=BEARER)
            assert (refused.status_code, "revoke it" in refused.text) == (401, True)
            assert caller_of(client) == "User:ANONYMOUS"
    with (
        pytest.raises(ConfigError, match="others see no token there"),
        serving(tmp_path, **settings, aclog_auth_required_listeners="OPEN"),
    ):
        pass
