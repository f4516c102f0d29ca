"""Tokens for OAUTHBEARER: their source, their lifetime in the cache, and errors."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest

from records.errors import LogError
from records.log.protocol import sasl
from records.log.protocol.oauth import TokenError
from records.log.protocol.settings import ProtocolSettings, protocol_settings
from support.issuer import token_endpoint

SECRET = "not to be seen"


def settings_of(url: str, **more: str) -> ProtocolSettings:
    client = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "aclog",
        "sasl.oauthbearer.client.secret": SECRET,
    }
    return protocol_settings({**client, **more})


def token_of(settings: ProtocolSettings) -> str:
    assert settings.tokens is not None
    return settings.tokens()


def test_a_file_is_read_for_each_connection(tmp_path: Path) -> None:
    """It may have been replaced; one that is not there is named."""
    path = tmp_path / "a token"
    settings = settings_of(path.as_uri())
    with pytest.raises(TokenError, match=r"a token: .*No such file"):
        token_of(settings)
    for text in ("one", "two"):
        path.write_text(f"{text}\n")
        assert token_of(settings) == text


def test_an_endpoint_grants_one_for_id_and_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cached for most of its lifetime, for any wall clock, and then requested again."""
    with token_endpoint("aclog") as endpoint:
        settings = settings_of(endpoint.url, **{"sasl.oauthbearer.scope": "kafka acls"})
        token = token_of(settings)
        assert token_of(settings) == token
        basic = base64.b64encode(f"aclog:{SECRET}".encode()).decode()
        form = "grant_type=client_credentials&scope=kafka+acls"
        assert endpoint.requests == [(f"Basic {basic}", form)]
        later_s = time.monotonic() + 50
        monkeypatch.setattr("records.log.protocol.oauth.time.monotonic", lambda: later_s)
        token_of(settings)
        assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("answer", "why", "is_refusal"),
    [
        ((401, b"{}"), "HTTP status 401", True),
        ((503, b""), "HTTP status 503", False),
        ((200, b"<html>"), "malformed response", False),
        ((200, b"{}"), "access_token", False),
        ((302, b""), "redirect", False),
    ],
)
def test_no_token_is_an_error_without_the_secret(
    answer: tuple[int, bytes], why: str, *, is_refusal: bool
) -> None:
    """A redirect is not followed: the secret would go there."""
    with token_endpoint("aclog") as endpoint:
        endpoint.answer = answer
        settings = settings_of(endpoint.url)
        with pytest.raises(TokenError, match=why) as caught:
            token_of(settings)
        assert caught.value.is_refusal == is_refusal
        assert SECRET not in f"{caught.value}{settings!r}"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (
            "sasl.oauthbearer.token.endpoint.url",
            "http://issuer.example.org/token",
            "because a secret is sent",
        ),
        ("sasl.oauthbearer.token.endpoint.url", "", "endpoint.url is required"),
        ("sasl.oauthbearer.client.secret", "", "client.secret is required"),
        ("sasl.oauthbearer.method", "default", "oidc"),
    ],
)
def test_an_invalid_setting_names_its_key(key: str, value: str, why: str) -> None:
    """It is refused before any request."""
    with pytest.raises(LogError, match=why):
        settings_of("https://issuer.example.org/token", **{key: value})


def test_the_exchange_is_that_of_its_rfc() -> None:
    """RFC 7628, section 4.1; what the other side says of a token that it does not take is the error."""
    exchange = sasl.oauthbearer("vF9dft4qmT")
    assert next(exchange) == b"n,,\x01auth=Bearer vF9dft4qmT\x01\x01"
    with pytest.raises(StopIteration):
        exchange.send(b"")
    exchange = sasl.oauthbearer("old")
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(sasl.SaslError, match="invalid_token"):
        exchange.send(b"")
