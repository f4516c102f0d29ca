"""The caller of a request: the token cache, reloads, failed tries, and waits."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from authorizer.api.errors import ConfigError
from authorizer.authentication import issuer
from authorizer.authentication import reloading_value as followed
from authorizer.authentication.oidc import KeySet, OidcTokens
from authorizer.authentication.rate_limits import FAILURES_MAX
from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.configuration.load import load_config
from authorizer.listeners.listener import Listener
from authorizer.sidecar.auth import authenticator as module
from authorizer.sidecar.auth.authenticator import Authenticator
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, StoredToken, new_token
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.request_origin import Origin
from records.principal import ANONYMOUS, KafkaPrincipal
from support.issuer import AUDIENCE, ISSUER, key_set, key_set_server, public_jwk
from support.issuer import token as issued
from support.nodes import SOON_S
from support.waiting import wait_until

GATEWAY = KafkaPrincipal("User", "gateway")
OF_CERTIFICATE = KafkaPrincipal("User", "CN=proxy")
OPEN = Listener(name="OPEN", url="http://127.0.0.1")
REQUIRED = replace(OPEN, name="REQUIRED", requires_authentication=True)


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = time.time()

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def _files_are_looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_POLL_INTERVAL_S", 0.02)


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, str, StoredToken]:
    """A file with one token, and that."""
    path = tmp_path / "tokens"
    token, stored = new_token(GATEWAY)
    TOKENS_FILE.put(path, stored)
    return path, token, stored


@contextmanager
def authenticating(clock: Time | None = None, **settings: object) -> Iterator[Authenticator]:
    flags = {f"aclog.auth.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    if "oidc_jwks" in settings:
        flags |= {"aclog.auth.oidc.issuer": ISSUER, "aclog.auth.oidc.audience": AUDIENCE}
    authenticator = Authenticator(load_config(environ={}, flags=flags), clock)
    authenticator.start()
    try:
        yield authenticator
    finally:
        authenticator.close()


def bearer(token: str) -> bytes:
    return f"Bearer {token}".encode()


def origin(
    listener: Listener = OPEN, principal: KafkaPrincipal = ANONYMOUS, address: str = "10.0.0.1"
) -> Origin:
    return Origin(listener, principal, address)


async def caller_of(
    authenticator: Authenticator, *headers: bytes, of: Origin | None = None
) -> KafkaPrincipal | Reason:
    """The caller, or the reason of the refusal."""
    try:
        return await authenticator.caller(headers, of or origin())
    except HttpError as refusal:
        return cast("RejectionError", refusal.__cause__).reason


def running(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, SOON_S))


async def eventually(condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - what it waits for is another thread's
        await asyncio.sleep(0.01)


def test_without_a_token_the_caller_is_that_of_the_connection() -> None:
    with authenticating() as authenticator:
        assert authenticator.cached_caller(None, ANONYMOUS, OPEN) == ANONYMOUS
        assert authenticator.cached_caller(None, OF_CERTIFICATE, REQUIRED) == OF_CERTIFICATE
        assert running(caller_of(authenticator, of=origin(REQUIRED))) is Reason.MISSING
        with pytest.raises(HttpError) as refusal:
            running(authenticator.caller([], origin(REQUIRED)))
        assert refusal.value.headers == {"www-authenticate": 'Bearer realm="aclog"'}


def test_a_token_is_checked_once_and_then_cached(stored: tuple[Path, str, StoredToken]) -> None:
    path, token, _ = stored
    with authenticating(tokens_file=path) as authenticator:
        assert authenticator.cached_caller(bearer(token), ANONYMOUS, OPEN) is None
        assert running(caller_of(authenticator, bearer(token))) == GATEWAY
        assert authenticator.cached_caller(bearer(token), ANONYMOUS, REQUIRED) == GATEWAY
        # The token is that of the caller, not of the proxy.
        assert authenticator.cached_caller(bearer(token), OF_CERTIFICATE, OPEN) == GATEWAY
        assert authenticator.cached_caller(bearer(token[:-1] + "x"), ANONYMOUS, OPEN) is None
        assert token.encode() not in b"".join(authenticator._cache)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([b"Basic dXNlcjpwYXNz"], Reason.MALFORMED),
        ([b"Bearer"], Reason.MALFORMED),
        ([b"Bearer a b"], Reason.MALFORMED),
        ([b""], Reason.MALFORMED),
        ([b"Bearer \xff"], Reason.MALFORMED),
        ([b"Bearer " + b"a" * 20_000], Reason.MALFORMED),
        ([b"Bearer a", b"Bearer a"], Reason.MALFORMED),
        ([b"Bearer abc"], Reason.UNKNOWN_TOKEN),
    ],
)
def test_a_header_without_a_valid_token_is_refused(headers: list[bytes], reason: Reason) -> None:
    """Also where no tokens are configured, and where the connection has a principal of its own."""
    with authenticating() as authenticator:
        assert running(caller_of(authenticator, *headers)) is reason
        assert running(caller_of(authenticator, *headers, of=origin(principal=OF_CERTIFICATE))) is reason


def test_a_token_on_an_open_network_is_refused_even_if_it_is_known(
    stored: tuple[Path, str, StoredToken],
) -> None:
    path, token, _ = stored
    seen_by_all = replace(OPEN, carries_tokens=False)
    with authenticating(tokens_file=path) as authenticator:
        assert running(caller_of(authenticator, bearer(token))) == GATEWAY
        assert running(caller_of(authenticator, bearer(token), of=origin(seen_by_all))) is Reason.UNPROTECTED


def test_a_revoked_token_is_refused_from_the_reload_on(stored: tuple[Path, str, StoredToken]) -> None:
    path, token, in_file = stored
    other_token, other = new_token(OF_CERTIFICATE)

    async def run(authenticator: Authenticator) -> None:
        assert await caller_of(authenticator, bearer(token)) == GATEWAY
        TOKENS_FILE.put(path, other)
        await eventually(lambda: is_answer(authenticator, other_token, OF_CERTIFICATE))
        assert await caller_of(authenticator, bearer(token)) == GATEWAY
        TOKENS_FILE.remove(path, in_file.id)
        await eventually(lambda: is_answer(authenticator, token, Reason.UNKNOWN_TOKEN))
        assert await caller_of(authenticator, bearer(other_token)) == OF_CERTIFICATE

    with authenticating(tokens_file=path) as authenticator:
        running(run(authenticator))


async def is_answer(
    authenticator: Authenticator, token: str, expected: KafkaPrincipal | Reason, address: str | None = None
) -> bool:
    # Each try from an address of its own: tries are limited.
    address = address or f"10.9.{time.monotonic_ns() // 256 % 256}.{time.monotonic_ns() % 256}"
    return await caller_of(authenticator, bearer(token), of=origin(address=address)) == expected


def test_a_token_checked_during_a_reload_is_not_cached(
    stored: tuple[Path, str, StoredToken], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check began on the old file; what it found must not outlive that."""
    path = stored[0]
    token, in_file = new_token(GATEWAY)
    TOKENS_FILE.put(path, in_file)
    matches = StoredToken.matches

    async def run(authenticator: Authenticator) -> None:
        before = authenticator._cache

        def slow(self: StoredToken, token: str) -> bool:
            TOKENS_FILE.remove(path, in_file.id)
            wait_until(lambda: authenticator._cache is not before)  # another thread reloads
            return matches(self, token)

        with monkeypatch.context() as patched:
            patched.setattr(StoredToken, "matches", slow)
            assert await caller_of(authenticator, bearer(token)) == GATEWAY
        assert await caller_of(authenticator, bearer(token)) is Reason.UNKNOWN_TOKEN

    with authenticating(tokens_file=path) as authenticator:
        running(run(authenticator))


def test_an_invalid_file_changes_nothing_and_is_logged_and_counted(
    stored: tuple[Path, str, StoredToken],
) -> None:
    path, token, _ = stored
    good = path.read_bytes()
    with capture_logs() as logs, authenticating(tokens_file=path) as authenticator:
        tokens = authenticator._tokens
        assert tokens is not None
        path.write_text("User:a\n")
        wait_until(lambda: tokens.failure is not None)
        assert running(caller_of(authenticator, bearer(token))) == GATEWAY
        metrics = exposed(authenticator)
        assert 'aclog_authentication_reload_failures_total{source="tokens"} 1.0' in metrics
        assert 'aclog_authentication_reload_failed{source="tokens"} 1.0' in metrics
        path.unlink()
        wait_until(lambda: tokens.failures == 2)
        assert running(caller_of(authenticator, bearer(token))) == GATEWAY
        path.write_bytes(good)
        path.chmod(0o600)
        wait_until(lambda: tokens.failure is None)
    assert [entry["event"] for entry in logs] == ["not_reloaded", "not_reloaded", "reloaded"]
    assert "line 1" in logs[0]["reason"]


def test_an_unexpected_error_does_not_end_the_reloads(
    stored: tuple[Path, str, StoredToken], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a revoked token would be valid until the process ends."""
    path, token, in_file = stored
    with capture_logs() as logs, authenticating(tokens_file=path) as authenticator:
        tokens = authenticator._tokens
        assert tokens is not None
        with monkeypatch.context() as patched:
            patched.setattr(module, "StoredTokens", None)
            TOKENS_FILE.put(path, new_token(GATEWAY)[1])
            wait_until(lambda: tokens.failure is not None)
        TOKENS_FILE.remove(path, in_file.id)
        wait_until(lambda: tokens.failure is None)
        assert running(caller_of(authenticator, bearer(token))) is Reason.UNKNOWN_TOKEN
    assert isinstance(logs[0]["exc_info"], TypeError)


def exposed(authenticator: Authenticator) -> str:
    registry = CollectorRegistry()
    registry.register(authenticator.collector)
    return generate_latest(registry).decode()


def test_a_start_with_a_bad_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("User:a\n")
    for key in ("tokens_file", "oidc_jwks"):
        settings: dict[str, Any] = {key: tmp_path / "tokens"}
        with pytest.raises(ConfigError, match="tokens"), authenticating(**settings):
            pass


def wrong_secret(token: str) -> str:
    """Another token of the same id."""
    return f"{token[:-2]}{'AA' if not token.endswith('AA') else 'BB'}"


async def indebted(authenticator: Authenticator, token: str) -> None:
    """Fail so often from ``origin`` that it is in debt."""
    for _ in range(FAILURES_MAX):
        assert await caller_of(authenticator, bearer(wrong_secret(token))) is Reason.UNKNOWN_TOKEN


def test_wrong_tokens_are_429_from_an_address_that_sent_too_many(
    stored: tuple[Path, str, StoredToken],
) -> None:
    path, token, _ = stored
    clock = Time()

    async def run(authenticator: Authenticator) -> None:
        await indebted(authenticator, token)
        for _ in range(1000):
            with pytest.raises(HttpError) as refusal:
                await authenticator.caller([bearer(wrong_secret(token))], origin())
            assert refusal.value.code.status == 429
            assert refusal.value.headers["retry-after"] == "1"
        assert await caller_of(authenticator) == ANONYMOUS
        other = origin(address="10.0.0.2")
        assert await caller_of(authenticator, bearer(wrong_secret(token)), of=other) is Reason.UNKNOWN_TOKEN
        # However many there were, the debt is over as soon.
        clock.now_s += 1
        assert await caller_of(authenticator, bearer(wrong_secret(token))) is Reason.UNKNOWN_TOKEN
        assert await caller_of(authenticator, bearer(wrong_secret(token))) is Reason.TOO_MANY_TRIES

    with authenticating(clock, tokens_file=path) as authenticator:
        running(run(authenticator))


def test_a_valid_token_is_accepted_from_an_indebted_address(stored: tuple[Path, str, StoredToken]) -> None:
    """Seen before or not, of each kind: it cannot be locked out by who shares its address."""
    path, token, _ = stored
    slow, in_file = new_token(OF_CERTIFICATE)
    TOKENS_FILE.put(path, in_file)
    keys = path.with_name("keys.json")
    keys.write_bytes(key_set("one"))

    async def run(authenticator: Authenticator) -> None:
        await indebted(authenticator, token)
        assert await caller_of(authenticator, bearer(wrong_secret(token))) is Reason.TOO_MANY_TRIES
        for each, principal in ((token, GATEWAY), (slow, OF_CERTIFICATE), (issued(), GATEWAY)):
            assert await caller_of(authenticator, bearer(each)) == principal
            assert authenticator.cached_caller(bearer(each), ANONYMOUS, OPEN) == principal
        assert await caller_of(authenticator, bearer(wrong_secret(token))) is Reason.TOO_MANY_TRIES

    with authenticating(Time(), tokens_file=path, oidc_jwks=keys) as authenticator:
        running(run(authenticator))


@pytest.mark.parametrize("header", [b"Basic dXNlcjpwYXNz", b"Bearer", b"", b"Bearer aclog_cut_off"])
def test_malformed_credentials_are_no_failed_tries(
    stored: tuple[Path, str, StoredToken], header: bytes
) -> None:
    path, token, _ = stored

    async def run(authenticator: Authenticator) -> None:
        for _ in range(10 * FAILURES_MAX):
            assert await caller_of(authenticator, header) is Reason.MALFORMED
        unprotected = origin(replace(OPEN, carries_tokens=False))
        for _ in range(10 * FAILURES_MAX):
            assert await caller_of(authenticator, bearer(token), of=unprotected) is Reason.UNPROTECTED
        assert await caller_of(authenticator, bearer(wrong_secret(token))) is Reason.UNKNOWN_TOKEN
        assert await caller_of(authenticator, bearer(token)) == GATEWAY

    with authenticating(Time(), tokens_file=path) as authenticator:
        running(run(authenticator))


def test_a_change_of_the_file_invalidates_only_changed_tokens(stored: tuple[Path, str, StoredToken]) -> None:
    """Else all the others would be new again, each time that one is made or revoked."""
    path, token, in_file = stored
    renamed_token, renamed = new_token(OF_CERTIFICATE)
    slow, slow_in_file = new_token(OF_CERTIFICATE)
    TOKENS_FILE.put(path, renamed)
    TOKENS_FILE.put(path, slow_in_file)
    keys = path.with_name("keys.json")
    keys.write_bytes(key_set("one"))
    of_issuer = issued()

    def known(authenticator: Authenticator) -> list[KafkaPrincipal | None]:
        each = (token, renamed_token, slow, of_issuer)
        return [authenticator.cached_caller(bearer(token), ANONYMOUS, OPEN) for token in each]

    async def run(authenticator: Authenticator) -> None:
        for each in (token, renamed_token, slow, of_issuer):
            await caller_of(authenticator, bearer(each))
        assert known(authenticator) == [GATEWAY, OF_CERTIFICATE, OF_CERTIFICATE, GATEWAY]
        cache = authenticator._cache
        text = path.read_text().replace(renamed.line(), replace(renamed, principal=GATEWAY).line())
        # Replaced, not rewritten: an empty file in between would invalidate all tokens.
        changed = path.with_name("changed")
        changed.write_text(text.replace(f"{in_file.line()}\n", ""))
        changed.chmod(0o600)
        changed.replace(path)
        while authenticator._cache is cache:  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.01)
        assert known(authenticator) == [None, None, OF_CERTIFICATE, GATEWAY]
        assert await caller_of(authenticator, bearer(token)) is Reason.UNKNOWN_TOKEN
        assert await caller_of(authenticator, bearer(renamed_token)) == GATEWAY
        # The issuer's keys: its tokens alone.
        cache = authenticator._cache
        keys.write_bytes(key_set("one", "two"))
        while authenticator._cache is cache:  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.01)
        assert known(authenticator) == [None, GATEWAY, OF_CERTIFICATE, None]
        assert await caller_of(authenticator, bearer(of_issuer)) == GATEWAY

    with authenticating(tokens_file=path, oidc_jwks=keys) as authenticator:
        running(run(authenticator))


def test_equal_tokens_are_checked_once_and_queue_places_are_shared(
    stored: tuple[Path, str, StoredToken], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an issuer; a token of the file waits for nothing meanwhile."""
    path, quick, _ = stored
    keys = path.with_name("keys.json")
    keys.write_bytes(key_set("one"))
    token, other = issued(jti="a"), issued(jti="b")
    checked: list[str] = []
    go_on = threading.Event()
    verify = OidcTokens.verify

    def held(self: OidcTokens, token: str, keys: KeySet) -> tuple[KafkaPrincipal, float]:
        checked.append(token)
        go_on.wait(SOON_S)
        return verify(self, token, keys)

    async def run(authenticator: Authenticator) -> None:
        monkeypatch.setattr(OidcTokens, "verify", held)
        # Signatures that are guesses, all from one address.
        guesses = [f"{token[:-44]}{number:04}{token[-40:]}" for number in range(20)]
        flood = [asyncio.create_task(caller_of(authenticator, bearer(guess))) for guess in guesses]
        same = [
            asyncio.create_task(caller_of(authenticator, bearer(other), of=origin(address="10.0.0.2")))
            for _ in range(100)
        ]
        await asyncio.sleep(0)
        assert await caller_of(authenticator, bearer(quick)) == GATEWAY
        assert await caller_of(authenticator) == ANONYMOUS
        same[0].cancel()
        go_on.set()
        assert set(await asyncio.gather(*same[1:])) == {GATEWAY}
        assert checked.count(other) == 1
        answers = await asyncio.gather(*flood)
        # Two are checked, four wait, one of which made room for the other address.
        assert answers.count(Reason.BUSY) == 15
        assert answers.count(Reason.SIGNATURE) == 5

    monkeypatch.setattr(issuer, "_SLOTS", 4)
    with authenticating(tokens_file=path, oidc_jwks=keys) as authenticator:
        running(run(authenticator))


def test_a_hanging_fetch_of_keys_delays_no_token_with_a_known_key(
    stored: tuple[Path, str, StoredToken], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one of the file nor one of the issuer's; and those who wait for keys share places, too."""
    path, token, _ = stored
    slow, in_file = new_token(OF_CERTIFICATE)
    TOKENS_FILE.put(path, in_file)
    fetched: list[str] = []
    hangs, go_on = threading.Event(), threading.Event()

    def fetch(url: str) -> KeySet:
        fetched.append(url)
        if len(fetched) > 1:
            hangs.set()
            go_on.wait(SOON_S)
        return KeySet.parse(key_set("one") if len(fetched) == 1 else key_set("one", "new"))

    async def run(authenticator: Authenticator) -> None:
        await eventually(lambda: is_answer(authenticator, issued(), GATEWAY))
        waiting = [asyncio.create_task(caller_of(authenticator, bearer(issued(f"x{n}")))) for n in range(20)]
        await asyncio.to_thread(hangs.wait, SOON_S)
        there = origin(address="10.0.0.2")
        new = asyncio.create_task(caller_of(authenticator, bearer(issued("new")), of=there))
        for each, principal in ((token, GATEWAY), (slow, OF_CERTIFICATE), (issued(jti="n"), GATEWAY)):
            assert await caller_of(authenticator, bearer(each)) == principal
        assert not new.done()
        go_on.set()
        assert await new == GATEWAY
        answers = await asyncio.gather(*waiting)
        assert answers.count(Reason.BUSY) == 17
        assert answers.count(Reason.UNKNOWN_KEY) == 3

    monkeypatch.setattr(issuer, "KEY_SLOTS", 4)
    monkeypatch.setattr("authorizer.authentication.oidc.fetch_key_set", fetch)
    with authenticating(tokens_file=path, oidc_jwks="https://login.example.org/keys") as authenticator:
        running(run(authenticator))


def test_the_wait_for_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what ends a fetch does not work, as while a name is looked up."""
    go_on = threading.Event()
    fetched: list[str] = []

    def fetch(url: str) -> KeySet:
        fetched.append(url)
        if len(fetched) > 1:
            go_on.wait(SOON_S)
        return KeySet.parse(key_set("one"))

    async def run(authenticator: Authenticator) -> None:
        await eventually(lambda: is_answer(authenticator, issued(), GATEWAY))
        assert await caller_of(authenticator, bearer(issued("new"))) is Reason.UNKNOWN_KEY
        assert not go_on.is_set()

    monkeypatch.setattr(issuer, "KEY_WAIT_S", 0.1)
    monkeypatch.setattr("authorizer.authentication.oidc.fetch_key_set", fetch)
    try:
        with authenticating(oidc_jwks="https://login.example.org/keys") as authenticator:
            running(run(authenticator))
    finally:
        go_on.set()


def test_the_cache_is_bounded(stored: tuple[Path, str, StoredToken], monkeypatch: pytest.MonkeyPatch) -> None:
    path, token, _ = stored
    monkeypatch.setattr(module, "CACHE_MAX", 2)
    keys = path.with_name("keys.json")
    keys.write_bytes(key_set("one"))

    async def run(authenticator: Authenticator) -> None:
        tokens = [token, *(issued(sub=f"user{number}") for number in range(3))]
        for each in tokens:
            await caller_of(authenticator, bearer(each))
        known = [authenticator.cached_caller(bearer(each), ANONYMOUS, OPEN) for each in tokens]
        assert known == [None, None, KafkaPrincipal("User", "user1"), KafkaPrincipal("User", "user2")]

    with authenticating(tokens_file=path, oidc_jwks=keys) as authenticator:
        running(run(authenticator))


def test_a_known_token_expires(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set("one"))
    clock = Time()

    async def run(authenticator: Authenticator) -> None:
        token = issued(exp=int(clock.now_s) + 2)
        assert await caller_of(authenticator, bearer(token)) == GATEWAY
        clock.now_s += 6.9  # the leeway is 5 s
        assert authenticator.cached_caller(bearer(token), ANONYMOUS, OPEN) == GATEWAY
        clock.now_s += 0.2
        assert authenticator.cached_caller(bearer(token), ANONYMOUS, OPEN) is None

    with authenticating(clock, oidc_jwks=tmp_path / "keys.json", oidc_leeway_ms=5000) as authenticator:
        clock.now_s = float(int(clock.now_s))
        running(run(authenticator))


def test_keys_are_fetched_in_the_background_and_again_for_an_unknown_key() -> None:
    clock = Time()

    async def run(authenticator: Authenticator) -> None:
        # Nothing is known yet: the token may be right, so it is no 401.
        assert await caller_of(authenticator, bearer(issued())) is Reason.NO_KEYS
        server.body = key_set("one")
        await eventually(lambda: is_answer(authenticator, issued(), GATEWAY))
        # The issuer's keys change: the first token with the new one brings it in.
        server.body = key_set("two")
        assert await is_answer(authenticator, issued("two"), GATEWAY)
        assert await is_answer(authenticator, issued("one"), Reason.UNKNOWN_KEY)
        # No more than that: tokens with keys of nobody's do not become requests to the issuer.
        requests = server.requests
        for number in range(30):
            assert await is_answer(authenticator, issued(f"none{number}"), Reason.UNKNOWN_KEY)
        assert server.requests == requests
        clock.now_s += 10
        await is_answer(authenticator, issued("none"), Reason.UNKNOWN_KEY)
        assert server.requests == requests + 1
        # Out of order: the keys stay.
        server.body = None
        clock.now_s += 10
        assert await is_answer(authenticator, issued("one"), Reason.UNKNOWN_KEY)
        assert await is_answer(authenticator, issued("two", jti="new"), GATEWAY)

    with key_set_server(None) as server, pytest.MonkeyPatch.context() as patched:
        patched.setattr(followed, "_RETRY_INTERVAL_S", 0.05)
        with authenticating(clock, oidc_jwks=server.url) as authenticator:
            running(run(authenticator))


def test_a_token_of_a_withdrawn_key_is_invalidated(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set("one"))

    async def run(authenticator: Authenticator) -> None:
        token = issued("one")
        assert await caller_of(authenticator, bearer(token)) == GATEWAY
        keys.write_text(json.dumps({"keys": [public_jwk("two")]}))
        await eventually(lambda: is_answer(authenticator, token, Reason.UNKNOWN_KEY))

    with authenticating(oidc_jwks=keys) as authenticator:
        running(run(authenticator))


def test_refusals_are_counted_and_logged_rarely_without_tokens(
    stored: tuple[Path, str, StoredToken],
) -> None:
    path, token, _ = stored
    clock = Time()
    wrong = token[:-3] + "AAA"

    async def run(authenticator: Authenticator) -> None:
        for _ in range(3):
            await caller_of(authenticator, bearer(wrong))
        await caller_of(authenticator, of=origin(REQUIRED))
        clock.now_s += 10
        await caller_of(authenticator, bearer(wrong))

    with capture_logs() as logs, authenticating(clock, tokens_file=path) as authenticator:
        running(run(authenticator))
        metrics = exposed(authenticator)
    assert 'aclog_authentication_failures_total{reason="unknown_token"} 4.0' in metrics
    assert 'aclog_authentication_failures_total{reason="missing"} 1.0' in metrics
    assert [(entry["reason"], entry["since_last_line"]) for entry in logs] == [
        ("unknown_token", 1),
        ("missing", 1),
        ("unknown_token", 3),
    ]
    assert logs[0]["address"] == "10.0.0.1"
    assert wrong.split("_", 2)[2] not in str(logs)
