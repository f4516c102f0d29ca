"""An issuer's tokens: what is verified, and how key sets are read."""

from __future__ import annotations

import base64
import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from authorizer.api.errors import ConfigError
from authorizer.authentication import oidc as oidc_module
from authorizer.authentication.oidc import KeySet, OidcTokens, fetch_key_set
from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.configuration.load import load_config
from authorizer.sidecar.auth.authenticator import http_error
from records.principal import KafkaPrincipal
from support.certificates import Authority
from support.issuer import AUDIENCE, ISSUER, key_set, key_set_server, private_key, public_jwk, token
from support.nodes import SOON_S


def oidc(**settings: str) -> OidcTokens:
    flags = {
        "aclog.auth.oidc.jwks": "/keys.json",
        "aclog.auth.oidc.issuer": ISSUER,
        "aclog.auth.oidc.audience": f"other,{AUDIENCE}",
        "aclog.auth.oidc.leeway.ms": "5000",
        **{f"aclog.auth.oidc.{name.replace('_', '.')}": value for name, value in settings.items()},
    }
    return OidcTokens(load_config(environ={}, flags=flags))


KEYS = KeySet.parse(
    json.dumps(
        {"keys": [public_jwk("one"), public_jwk("rsa", "RSA"), public_jwk("okp", "OKP"), public_jwk("two")]}
    ).encode()
)


@pytest.mark.parametrize(
    "valid",
    [
        token,
        lambda: token("rsa", "RSA", "RS256"),
        lambda: token("rsa", "RSA", "PS512"),
        lambda: token("okp", "OKP", "EdDSA"),
        lambda: token(aud=["somewhere", AUDIENCE]),
        lambda: token(exp=int(time.time()) - 1),  # within the leeway
        lambda: token(nbf=int(time.time()) + 2),
    ],
)
def test_a_valid_token_is_its_claims(valid: Callable[[], str]) -> None:
    principal, until_s = oidc().verify(valid(), KEYS)
    assert principal == KafkaPrincipal("User", "gateway")
    assert 0 < until_s - time.time() < 70


def test_a_token_is_believed_until_it_expires_and_the_leeway_is_over() -> None:
    exp = int(time.time()) + 60
    assert oidc().verify(token(exp=exp), KEYS)[1] == exp + 5
    assert oidc().verify(token(exp=exp + 0.9), KEYS)[1] == exp + 5


def test_the_principal_is_the_claim_that_was_named() -> None:
    claimed = oidc(principal_claim="azp")
    assert claimed.verify(token(azp="CN=a,O=b"), KEYS)[0] == KafkaPrincipal("User", "CN=a,O=b")


def rsa_pem() -> bytes:
    public: Any = private_key("rsa", "RSA").public_key()
    pem: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def hmac_token(secret: bytes) -> str:
    """An HMAC whose secret is a public key: what a library that trusts the header would believe."""
    header, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (
            {"alg": "HS256", "typ": "JWT", "kid": "rsa"},
            jwt.decode(token(), options={"verify_signature": False}),
        )
    )
    signed = header + b"." + claims
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(signed, secret)
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def unsigned() -> str:
    return jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "exp": 2**31}, "", "none", {"kid": "one"})


def with_claim(name: str, value: Any) -> str:
    return token(**{name: value})


def changed() -> str:
    """Another subject under the first one's signature."""
    header, _, signature = token().split(".")
    return ".".join((header, token(sub="admin").split(".")[1], signature))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: token(exp=int(time.time()) - 10), Reason.EXPIRED),
        (lambda: token(nbf=int(time.time()) + 60), Reason.NOT_YET_VALID),
        (lambda: token(iat=int(time.time()) + 60), Reason.NOT_YET_VALID),
        (lambda: token(aud="elsewhere"), Reason.AUDIENCE),
        (lambda: token(aud=None), Reason.CLAIM),
        (lambda: token(exp=None), Reason.CLAIM),
        (lambda: token(exp="soon"), Reason.MALFORMED),
        *(
            (partial(with_claim, name, value), None)
            for name in ("exp", "nbf", "iat")
            for value in (
                10**400,
                -(10**400),
                math.inf,
                -math.inf,
                math.nan,
                1e308,
                "",
                [1],
                {"a": 1},
            )
        ),
        (lambda: signed_text('{"exp": 1%s}' % ("0" * 5000)), Reason.MALFORMED),
        (lambda: token(exp=2**60), Reason.CLAIM),
        (lambda: token(exp=str(int(time.time()) + 60)), Reason.CLAIM),
        (lambda: token(iat=True), Reason.CLAIM),
        (lambda: token(nbf="0"), Reason.CLAIM),
        (lambda: token(iss=ISSUER + "/"), Reason.ISSUER),
        (lambda: token(iss=ISSUER[:-1]), Reason.ISSUER),
        (lambda: token(iss=None), Reason.CLAIM),
        (lambda: token(sub=None), Reason.CLAIM),
        (lambda: token(sub=""), Reason.CLAIM),
        (lambda: token(sub="ANONYMOUS"), Reason.CLAIM),
        (lambda: token("three"), Reason.UNKNOWN_KEY),
        (lambda: token(None), Reason.UNKNOWN_KEY),
        (lambda: hmac_token(rsa_pem()), Reason.ALGORITHM),
        (lambda: hmac_token(b"secret" * 8), Reason.ALGORITHM),
        (unsigned, Reason.ALGORITHM),
        (lambda: token("two", "EC").replace("x", "y"), None),
        (changed, Reason.SIGNATURE),
        (lambda: token("one", "RSA", "RS256"), Reason.ALGORITHM),
        (lambda: "no.json.token", Reason.MALFORMED),
        (lambda: "password", Reason.MALFORMED),
        (lambda: base64.urlsafe_b64encode(b"[" * 9000).decode().rstrip("=") + ".e30.e30", Reason.MALFORMED),
    ],
)
def test_a_token_that_is_not_valid_is_refused_with_the_reason(
    wrong: Callable[[], str], reason: Reason | None
) -> None:
    with pytest.raises(RejectionError) as refusal:
        oidc().verify(wrong(), KEYS)
    assert http_error(refusal.value).code.status == 401
    if reason is not None:
        assert refusal.value.reason is reason
        assert 'error="invalid_token"' in http_error(refusal.value).headers["www-authenticate"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.integers(10**300, 10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(
    claims=st.dictionaries(
        st.sampled_from(("iss", "aud", "sub", "exp", "nbf", "iat", "jti", "other")), _JSON, max_size=4
    ),
    header=st.dictionaries(st.sampled_from(("kid", "typ", "crit", "b64", "cty", "x5c")), _JSON, max_size=3),
)
def test_any_signed_token_is_valid_or_refused(claims: dict[str, Any], header: dict[str, Any]) -> None:
    """Its issuer may sign what it likes: no answer is an error of the server."""
    text = signed({"alg": "ES256", "kid": "one", **header}, {**valid_claims(), **claims})
    verified: tuple[KafkaPrincipal, float] | None = None
    status = 200
    try:
        verified = oidc().verify(text, KEYS)
    except RejectionError as refusal:
        status = http_error(refusal).code.status
    assert status == (401 if verified is None else 200)
    if verified is not None:
        assert verified[0].name
        assert math.isfinite(verified[1])


def test_a_token_that_is_signed_here_is_valid() -> None:
    """So what the others are refused for is not their signature."""
    assert oidc().verify(signed({"alg": "ES256", "kid": "one"}, valid_claims()), KEYS)[0].name == "gateway"


def valid_claims() -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token(), options={"verify_signature": False})
    return claims


def signed(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """What PyJWT would not sign, too."""
    return signed_text(json.dumps(claims), json.dumps(header))


def signed_text(claims: str, header: str = '{"alg": "ES256", "kid": "one"}') -> str:
    """What no encoder would write, too."""
    text = b".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in (header, claims))
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(text, private_key("one", "EC"))  # type: ignore[arg-type]
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def test_an_algorithm_that_is_not_allowed_is_refused_though_the_key_has_it() -> None:
    with pytest.raises(RejectionError) as refusal:
        oidc(algorithms="RS256").verify(token(), KEYS)
    assert refusal.value.reason is Reason.ALGORITHM


def test_a_token_need_not_name_the_only_key() -> None:
    assert oidc().verify(token(None), KeySet.parse(key_set("one")))[0].name == "gateway"


def test_unusable_keys_are_ignored() -> None:
    secret = {"kty": "oct", "kid": "hmac", "k": "c2VjcmV0", "alg": "HS256"}
    short: Any = rsa.generate_private_key(65537, 1024).public_key()
    keys = [
        secret,
        {**RSAAlgorithm.to_jwk(short, as_dict=True), "kid": "short"},
        public_jwk("for-encryption", use="enc"),
        {**public_jwk("private"), "d": "AA"},
        public_jwk("other-algorithm", alg="ES384"),
        {"kty": "EC", "kid": "broken", "crv": "P-256", "x": "!", "y": 1},
        public_jwk("one"),
    ]
    parsed = KeySet.parse(json.dumps({"keys": keys}).encode())
    assert set(parsed._keys) == {"one"}


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"keys": []}', b'{"keys": [1]}', b'{"keys": ' + b"[" * 9000]
)
def test_a_set_without_keys_is_refused(text: bytes) -> None:
    with key_set_server(text) as server, pytest.raises(ConfigError, match="JSON Web Key Set"):
        fetch_key_set(server.url)


def test_keys_come_from_the_configured_url() -> None:
    with key_set_server(key_set("one")) as server:
        assert fetch_key_set(server.url) == KeySet.parse(key_set("one"))
        with pytest.raises(ConfigError, match="redirects"):
            fetch_key_set(server.url.replace("/keys", "/elsewhere"))
        server.body = None
        with pytest.raises(ConfigError, match="503"):
            fetch_key_set(server.url)
        server.body = b" " * (2 * 1024 * 1024)
        with pytest.raises(ConfigError, match="bytes"):
            fetch_key_set(server.url)
    with pytest.raises(ConfigError, match="refused"):
        fetch_key_set(server.url)


@pytest.mark.parametrize("drips", ["head", "body"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_fetch_from_an_endless_server_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, drips: str, scheme: str
) -> None:
    """Each byte in time, and never all of them: what a socket's own timeout does not end."""
    monkeypatch.setattr(oidc_module, "_FETCH_S", 0.5)
    head = b"HTTP/1.1 200 OK\r\n"
    tls: ssl.SSLContext | None = None
    if scheme == "https":
        authority = Authority()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(authority.issue("CN=issuer").write(tmp_path / "issuer.pem"))
        (tmp_path / "authorities.pem").write_text(authority.pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authorities.pem"))
    with dripping_server(head if drips == "head" else head + b"\r\n", tls) as (url, is_over):
        with pytest.raises(ConfigError, match=r"did not answer within 0\.5 s"):
            fetch_key_set(url)
        assert not is_over()


@contextmanager
def dripping_server(head: bytes, tls: ssl.SSLContext | None) -> Iterator[tuple[str, Callable[[], bool]]]:
    """It sends ``head``, then one byte after the other; whether that has ended by itself."""
    dripped = threading.Event()

    def drip(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        if tls is not None:
            connected = tls.wrap_socket(connected, server_side=True)
        with connected:
            connected.sendall(head)
            try:
                for _ in range(int(SOON_S / 0.02)):
                    connected.sendall(b"x")
                    time.sleep(0.02)  # a slow server
            except OSError:
                return
            dripped.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/keys", dripped.is_set
        thread.join()
