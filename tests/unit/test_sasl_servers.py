"""Server side of SASL: the RFCs' examples, Kafka's rules, and the states of a connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.admin_server.metrics import LoginMetrics
from authorizer.admin_server.sasl import logins as logins_module
from authorizer.admin_server.sasl.logins import SaslLogins
from authorizer.admin_server.sasl.mechanisms import SaslFailedError, ScramServer
from authorizer.admin_server.sasl.session import AuthenticateResult, SaslSession, SaslStateError
from authorizer.api.errors import ConfigError
from authorizer.authentication.scram import CREDENTIALS_FILE, ScramCredential
from authorizer.configuration.load import load_config
from records.log.protocol.sasl import Exchange, SaslError, exchange, oauthbearer
from records.principal import KafkaPrincipal
from support.issuer import AUDIENCE, ISSUER, key_set
from support.issuer import token as issued
from support.nodes import SOON_S

ALICE = KafkaPrincipal("User", "alice")
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
VERSIONS, HANDSHAKE, AUTHENTICATE, DESCRIBE_ACLS = 18, 17, 36, 29


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


def running(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, SOON_S))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("sasl")
    credentials, keys = folder / "credentials", folder / "keys.json"
    for user in ("alice", "bob,=c"):
        for mechanism in PASSWORDS[1:]:
            CREDENTIALS_FILE.put(credentials, ScramCredential.create(user, mechanism, "secret"))
    keys.write_bytes(key_set("one"))
    return {
        "ACLOG_ADMIN_CREDENTIALS_FILE": str(credentials),
        "ACLOG_AUTH_OIDC_JWKS": str(keys),
        "ACLOG_AUTH_OIDC_ISSUER": ISSUER,
        "ACLOG_AUTH_OIDC_AUDIENCE": AUDIENCE,
        "ACLOG_SASL_ENABLED_MECHANISMS": ",".join((*PASSWORDS, "OAUTHBEARER")),
    }


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def logins(files: dict[str, str], clock: Time, monkeypatch: pytest.MonkeyPatch) -> Iterator[SaslLogins]:
    monkeypatch.setattr(logins_module, "FAILURE_DELAY_S", 0.0)
    monkeypatch.setattr(logins_module, "_FAILURE_DELAY_MAX_S", 0.0)
    with closing(SaslLogins(load_config(environ=files), clock, LoginMetrics())) as opened:
        yield opened


def session_of(logins: SaslLogins) -> SaslSession:
    return SaslSession(logins, "ADMIN", "10.0.0.1")


async def login(session: SaslSession, mechanism: str, client: Exchange) -> AuthenticateResult:
    """Log in as a client does; the last result."""
    session.check_request(HANDSHAKE, "SASL_HANDSHAKE")
    assert session.handshake(1, mechanism).error_code == 0
    message = next(client)
    while True:
        session.check_request(AUTHENTICATE, "SASL_AUTHENTICATE")
        result = await session.authenticate(message)
        if result.error_code:
            return result
        try:
            message = client.send(result.auth_bytes)
        except StopIteration:
            return result


def test_the_example_of_rfc_7677() -> None:
    credential = ScramCredential.parse(
        "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
        "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )
    server = ScramServer("SCRAM-SHA-256", lambda _: (credential, True), r"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = running(server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert first == (nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", None, None)
    proof = b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = running(server.evaluate(b"c=biws," + nonce + proof))
    assert final == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", KafkaPrincipal("User", "user"), None)


@pytest.mark.parametrize("mechanism", PASSWORDS)
@pytest.mark.parametrize("user", ["alice", "bob,=c"])
def test_a_password_logs_its_user_in(logins: SaslLogins, mechanism: str, user: str) -> None:
    session = session_of(logins)
    result = running(login(session, mechanism, exchange(mechanism, user, "secret", "nonce")))
    assert (result.error_code, result.session_lifetime_ms) == (0, 0)
    assert session.principal == KafkaPrincipal("User", user)
    session.check_request(DESCRIBE_ACLS, "DESCRIBE_ACLS")


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(logins: SaslLogins, mechanism: str) -> None:
    results = []
    for user, password in (("alice", "wrong"), ("mallory", "secret")):
        session = session_of(logins)
        results.append(running(login(session, mechanism, exchange(mechanism, user, password, "nonce"))))
        assert session.has_failed
        assert session.principal is None
        with pytest.raises(SaslStateError):
            session.check_request(DESCRIBE_ACLS, "DESCRIBE_ACLS")
    message = (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        + mechanism
    )
    assert results == [AuthenticateResult(58, message)] * 2


@pytest.mark.parametrize(
    ("mechanism", "message", "error"),
    [
        ("PLAIN", b"root\0alice\0secret", "authorization id that is different from username"),
        ("PLAIN", b"alice\0secret", "invalid credentials with SASL mechanism PLAIN"),
        ("PLAIN", b"\0alice\0", "invalid credentials with SASL mechanism PLAIN"),
        ("SCRAM-SHA-256", b"n,a=root,n=alice,r=x", "authorization id that is different from username"),
        ("SCRAM-SHA-256", b"y,,n=alice,r=x", "invalid credentials with SASL mechanism SCRAM-SHA-256"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=x,tokenauth=true", "invalid credentials with SASL mechanism"),
        (
            "OAUTHBEARER",
            b"n,,\x01auth=Basic x\x01\x01",
            "invalid credentials with SASL mechanism OAUTHBEARER",
        ),
    ],
)
def test_kafkas_refusals(logins: SaslLogins, mechanism: str, message: bytes, error: str) -> None:
    session = session_of(logins)
    session.handshake(1, mechanism)
    result = running(session.authenticate(message))
    assert result.error_code == 58
    assert error in (result.error_message or "")


def test_an_equal_authorization_id_is_accepted(logins: SaslLogins) -> None:
    session = session_of(logins)
    session.handshake(1, "PLAIN")
    assert running(session.authenticate(b"alice\0alice\0secret")).error_code == 0
    assert session.principal == ALICE


def test_a_token_logs_its_principal_in_until_it_expires(logins: SaslLogins, clock: Time) -> None:
    session = session_of(logins)
    clock.now_s = time.time()
    expires = int(clock.now_s) + 60
    result = running(login(session, "OAUTHBEARER", oauthbearer(issued(sub="alice", exp=expires))))
    # The leeway of the issuer's clock is 30 seconds.
    assert (result.error_code, 89_000 < result.session_lifetime_ms <= 90_000) == (0, True)
    assert session.principal == ALICE
    session.check_request(DESCRIBE_ACLS, "DESCRIBE_ACLS")
    clock.now_s += 91
    with pytest.raises(SaslStateError, match="the session has expired"):
        session.check_request(DESCRIBE_ACLS, "DESCRIBE_ACLS")
    again = issued(sub="alice", exp=int(time.time()) + 600)
    assert running(login(session, "OAUTHBEARER", oauthbearer(again))).error_code == 0
    session.check_request(DESCRIBE_ACLS, "DESCRIBE_ACLS")


def test_an_invalid_token_gets_kafkas_status_and_then_the_error(logins: SaslLogins) -> None:
    session = session_of(logins)
    with pytest.raises(SaslError, match=r'\{"status":"invalid_token"\}'):
        running(login_with_control_a(session))
    assert session.has_failed


async def login_with_control_a(session: SaslSession) -> None:
    client = oauthbearer(issued(iss="https://other.example.org"))
    session.handshake(1, "OAUTHBEARER")
    answered = await session.authenticate(next(client))
    assert answered.error_code == 0
    last = await session.authenticate(client.send(answered.auth_bytes))
    assert last == AuthenticateResult(58, '{"status":"invalid_token"}')
    client.send(b"")


def test_another_message_after_an_invalid_token_is_an_invalid_first_one(logins: SaslLogins) -> None:
    """As from Sarama, which does not send control-A but its name in Go."""

    async def log_in(session: SaslSession) -> AuthenticateResult:
        session.handshake(1, "OAUTHBEARER")
        await session.authenticate(next(oauthbearer(issued(iss="https://other.example.org"))))
        return await session.authenticate(rb"\x01")

    answered = running(log_in(session := session_of(logins)))
    assert answered.error_code == 58
    assert "invalid credentials with SASL mechanism OAUTHBEARER" in str(answered.error_message)
    assert session.has_failed


def test_only_versions_and_a_handshake_come_first(logins: SaslLogins) -> None:
    session = session_of(logins)
    with pytest.raises(
        SaslStateError, match="Unexpected Kafka request of type DESCRIBE_ACLS during SASL handshake"
    ):
        session.check_request(29, "DescribeAcls")
    session.check_request(VERSIONS, "ApiVersions")
    session.on_versions_answered()
    with pytest.raises(SaslStateError, match="Unexpected ApiVersions request"):
        session.check_request(VERSIONS, "ApiVersions")
    session.handshake(1, "PLAIN")
    with pytest.raises(SaslStateError, match="type DESCRIBE_ACLS during SASL authentication"):
        session.check_request(29, "DescribeAcls")


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(files: dict[str, str]) -> None:
    environ = {**files, "ACLOG_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512"}
    with closing(SaslLogins(load_config(environ=environ), Time(), LoginMetrics())) as logins:
        session = session_of(logins)
        assert session.handshake(1, "PLAIN") == (33, ("SCRAM-SHA-512",))
        assert session.has_failed


def test_a_raw_token_follows_an_old_handshake(logins: SaslLogins) -> None:
    session = session_of(logins)
    session.handshake(0, "PLAIN")
    assert session.expects_raw_token
    assert running(session.raw_token(b"\0alice\0secret")) == b""
    assert session.principal == ALICE
    session = session_of(logins)
    session.handshake(0, "PLAIN")
    with pytest.raises(SaslStateError, match="Invalid username or password"):
        running(session.raw_token(b"\0alice\0wrong"))


@pytest.fixture
def limited(
    files: dict[str, str], clock: Time, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[SaslLogins]:
    """Sessions of SCRAM-SHA-256 last a minute."""
    monkeypatch.setattr(logins_module, "FAILURE_DELAY_S", 0.0)
    config = tmp_path / "aclog.properties"
    config.write_text(
        "connections.max.reauth.ms=1000000\n"
        "listener.name.admin.scram-sha-256.connections.max.reauth.ms=60000\n"
    )
    with closing(SaslLogins(load_config(config, environ=files), clock, LoginMetrics())) as opened:
        yield opened


def alice(password: str = "secret", user: str = "alice") -> Exchange:
    return exchange("SCRAM-SHA-256", user, password, "nonce")


def test_a_session_is_renewed_by_the_same_principal_and_mechanism(limited: SaslLogins, clock: Time) -> None:
    session = session_of(limited)
    assert running(login(session, "SCRAM-SHA-256", alice())).session_lifetime_ms == 60_000
    clock.now_s += 59
    assert running(login(session, "SCRAM-SHA-256", alice())).session_lifetime_ms == 60_000
    clock.now_s += 59
    session.check_request(DESCRIBE_ACLS, "DESCRIBE_ACLS")
    clock.now_s += 2
    with pytest.raises(SaslStateError, match="the session has expired"):
        session.check_request(DESCRIBE_ACLS, "DESCRIBE_ACLS")


def test_another_principal_or_mechanism_or_password_ends_the_connection(
    limited: SaslLogins, clock: Time
) -> None:
    other = exchange("SCRAM-SHA-256", "bob,=c", "secret", "nonce")
    for client, error in (
        (other, "Cannot change principals during re-authentication from User.alice: User.bob,=c"),
        (alice("wrong"), "Authentication failed during re-authentication due to invalid credentials"),
    ):
        session = session_of(limited)
        running(login(session, "SCRAM-SHA-256", alice()))
        clock.now_s += 2
        result = running(login(session, "SCRAM-SHA-256", client))
        assert result.error_code == 58
        assert error in (result.error_message or "")
        assert session.has_failed
    session = session_of(limited)
    running(login(session, "SCRAM-SHA-256", alice()))
    clock.now_s += 2
    assert session.handshake(1, "PLAIN").error_code == 0
    with pytest.raises(SaslStateError, match="'PLAIN' requested by client is not supported for re-auth"):
        session.check_request(AUTHENTICATE, "SASL_AUTHENTICATE")


def test_requests_of_sasl_after_a_login_without_an_end_are_illegal(logins: SaslLogins) -> None:
    session = session_of(logins)
    running(login(session, "PLAIN", exchange("PLAIN", "alice", "secret", "")))
    assert session.handshake(1, "PLAIN") == (34, ())
    assert running(session.authenticate(b"")) == AuthenticateResult(
        34, "SaslAuthenticate request received after successful authentication"
    )
    assert session.principal == ALICE


def test_a_session_is_renewed_at_most_once_a_second(limited: SaslLogins, clock: Time) -> None:
    session = session_of(limited)
    for expected in (0, 34):
        if expected == 0:
            running(login(session, "SCRAM-SHA-256", alice()))
            running(login(session, "SCRAM-SHA-256", alice()))
        else:
            assert session.handshake(1, "SCRAM-SHA-256").error_code == expected
    clock.now_s += 1
    assert session.handshake(1, "SCRAM-SHA-256").error_code == 0


def test_many_failures_of_an_address_are_answered_later(files: dict[str, str]) -> None:
    with closing(SaslLogins(load_config(environ=files), Time(), LoginMetrics())) as logins:
        delays = [logins.add_failure("10.0.0.1", "PLAIN", "wrong") for _ in range(22)]
        assert delays[0] == logins_module.FAILURE_DELAY_S
        assert delays[-1] > 0.9
        assert logins.add_failure("10.0.0.2", "PLAIN", "wrong") == logins_module.FAILURE_DELAY_S


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ACLOG_SASL_ENABLED_MECHANISMS": "GSSAPI"}, "SCRAM-SHA-256"),
        ({"ACLOG_ADMIN_CREDENTIALS_FILE": ""}, "aclog credentials add"),
        (
            {
                "ACLOG_AUTH_OIDC_JWKS": None,
                "ACLOG_AUTH_OIDC_ISSUER": None,
                "ACLOG_AUTH_OIDC_AUDIENCE": None,
                "ACLOG_SASL_ENABLED_MECHANISMS": "OAUTHBEARER",
            },
            "name the keys",
        ),
    ],
)
def test_a_mechanism_that_nothing_verifies_is_no_configuration(
    files: dict[str, str], changes: dict[str, str | None], message: str
) -> None:
    environ = {key: text for key, text in {**files, **changes}.items() if text is not None}
    logins = SaslLogins(load_config(environ=environ), Time(), LoginMetrics())
    with closing(logins), pytest.raises(ConfigError, match=message):
        logins.mechanisms("ADMIN")


_EXAMPLES = st.sampled_from(
    (
        b"n,,n=alice,r=x",
        b"n,a=alice,n=alice,r=x,b=c",
        b"n,,\x01auth=Bearer x\x01\x01",
        b"\0alice\0secre",
        b"c=biws,r=x,p=AAAA",
    )
)


@given(
    mechanism=st.sampled_from((*PASSWORDS, "OAUTHBEARER")),
    messages=st.lists(st.binary(max_size=60) | _EXAMPLES, min_size=1, max_size=4),
)
def test_any_bytes_are_an_error_or_a_step(
    files: dict[str, str], mechanism: str, messages: list[bytes]
) -> None:
    async def run(logins: SaslLogins) -> None:
        server = logins.server(mechanism, "10.0.0.1")
        for message in messages:
            step = await server.evaluate(message)
            assert step.principal is None

    with (
        closing(SaslLogins(load_config(environ=files), Time(), LoginMetrics())) as logins,
        suppress(SaslFailedError),
    ):
        running(run(logins))
