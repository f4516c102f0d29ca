"""Callers of a real `aclog serve`: tokens of a file, and an issuer's with keys from a file and a URL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from records.log.directory import DirectoryLog
from support.aclog_command import aclog, checked_aclog
from support.issuer import AUDIENCE, ISSUER, key_set, key_set_server
from support.issuer import token as issued
from support.nodes import SOON_S
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
#: A refused token counts, and an address has twenty of them.
TRY_S = 0.2
ACLOG = [sys.executable, "-m", "authorizer.cli"]


class Served:
    """A process of `aclog serve`, and what it logs.

    Attributes:
        client: of its first listener.
        required: of the one that requires authentication.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._process = process
        self._is_listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._is_listening.wait(SOON_S), self.lines
        self.client, self.required = (httpx.Client(base_url=url) for url in self._urls)

    def close(self) -> None:
        """End it, and read its log to the end."""
        self.client.close()
        self.required.close()
        self._process.terminate()
        self._process.wait(SOON_S)
        self._reader.join(SOON_S)

    def events(self, name: str) -> list[dict[str, object]]:
        return [event for line in self.lines if (event := json.loads(line)).get("event") == name]

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line)
            if '"listening"' in line:
                self._urls = json.loads(line)["urls"]
                self._is_listening.set()


@contextmanager
def serving(tmp_path: Path, **auth: object) -> Iterator[Served]:
    """With two listeners; User:gateway may ask about others. ``auth``: keys below aclog.auth."""
    log = tmp_path / "log"
    if not log.exists():
        DirectoryLog.open(str(log), mode="create").close()
    config = tmp_path / "sidecar.properties"
    settings = {
        "aclog.log.url": log,
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0,REQUIRED://127.0.0.1:0",
        "listener.security.protocol.map": "REQUIRED:PLAINTEXT",
        "aclog.logging.format": "json",
        "aclog.describe.principals": "User:gateway",
        "aclog.auth.required.listeners": "REQUIRED",
        **{f"aclog.auth.{name.replace('_', '.')}": value for name, value in auth.items()},
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    process = subprocess.Popen(
        [*ACLOG, "serve", "--config", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ,
    )
    try:
        with closing(Served(process)) as served:
            wait_until(lambda: served.client.get("/readyz").status_code == 200)
            yield served
    finally:
        process.kill()
        process.communicate()


def token_command(*arguments: str) -> str:
    return checked_aclog("token", *arguments).stdout.strip()


def asking(client: httpx.Client, token: str | None, *, about: str = "other") -> httpx.Response:
    """An evaluation about User:other, which only User:gateway may ask."""
    question = {
        "subject": {"type": "User", "id": about},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": "orders"},
        "context": {"host": "10.0.0.1"},
    }
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return client.post("/access/v1/evaluation", json=question, headers=headers)


@pytest.mark.slow
def test_tokens_of_a_file_are_accepted_until_they_are_removed(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    gateway = token_command("create", "--principal", "User:gateway", "--file", str(tokens))
    metrics = token_command("create", "--principal", "User:metrics", "--file", str(tokens))
    with serving(tmp_path, tokens_file=tokens) as served:
        for client in (served.client, served.required):
            assert asking(client, gateway).json()["decision"] is False
            assert asking(client, metrics).status_code == 403
            assert "User:metrics on listener" in asking(client, metrics).json()
            assert asking(client, metrics, about="metrics").status_code == 200
            assert client.get("/v1/state", headers={"authorization": f"Bearer {metrics}"}).status_code == 200
            assert client.get("/livez").status_code == client.get("/readyz").status_code == 200
        # No token: nobody, and on the other listener not even that.
        assert asking(served.client, None, about="ANONYMOUS").status_code == 200
        for about in ("ANONYMOUS", "other"):
            assert asking(served.required, None, about=about).status_code == 401
        for path in ("/", "/v1/state", "/v1/acls", "/metrics", "/.well-known/authzen-configuration", "/none"):
            refused = served.required.get(path)
            assert refused.status_code == 401, path
            assert refused.headers["www-authenticate"] == 'Bearer realm="aclog"'
            assert refused.headers["aclog-error"] == "UNAUTHENTICATED"
        # A wrong one is never nobody.
        wrong = gateway[:-4] + "AAAA"
        for client in (served.client, served.required):
            refused = asking(client, wrong, about="ANONYMOUS")
            assert refused.status_code == 401
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        # A later one is taken up, a revoked one refused, the others go on.
        later = token_command("create", "--principal", "User:gateway", "--file", str(tokens))
        wait_until(lambda: asking(served.client, later).status_code == 200, interval_s=TRY_S)
        token_command("revoke", gateway.split("_")[1], "--file", str(tokens))
        wait_until(lambda: asking(served.client, gateway).status_code == 401, interval_s=TRY_S)
        assert asking(served.required, later).status_code == 200
        # Guesses do not go on for ever, and keep no valid token out, seen before or not.
        new = token_command("create", "--principal", "User:gateway", "--file", str(tokens))
        answers = [asking(served.required, f"{later[:-4]}{number:04}") for number in range(50)]
        limited = [answer for answer in answers if answer.status_code == 429]
        assert limited
        assert int(limited[0].headers["retry-after"]) == 1
        assert asking(served.required, later).status_code == 200
        wait_until(lambda: asking(served.required, new).status_code == 200, interval_s=TRY_S)
        shown = served.client.get("/metrics").text
        assert 'aclog_authentication_failures_total{reason="missing"} 8.0' in shown
        assert 'aclog_authentication_failures_total{reason="too_many_tries"}' in shown
    assert served.events("caller_refused")
    assert _callers(served) >= {"User:gateway", "User:metrics", "User:ANONYMOUS"}
    log = "".join(served.lines)
    for token in (gateway, metrics, later, wrong, new):
        assert token.split("_", 2)[2] not in log
        assert token not in log


def _callers(served: Served) -> set[object]:
    """Of the audit log's lines."""
    return {event["caller"] for line in served.lines if "caller" in (event := json.loads(line))}


@pytest.mark.slow
def test_an_issuers_tokens_are_checked_with_keys_from_a_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set("one"))
    oidc = {"oidc_jwks": keys, "oidc_issuer": ISSUER, "oidc_audience": AUDIENCE}
    with serving(tmp_path, **oidc) as served:
        token = issued()
        assert asking(served.required, token).status_code == 200
        assert asking(served.required, issued(sub="other")).status_code == 200
        assert asking(served.required, issued(sub="third")).status_code == 403
        for wrong, description in (
            (issued(exp=int(time.time()) - 60), "the token has expired"),
            (issued(nbf=int(time.time()) + 60), "the token is not valid yet"),
            (issued(aud="elsewhere"), "the token is for another audience"),
            (issued(iss="https://elsewhere"), "the token is of another issuer"),
            (issued("two"), "the token's key is none of its issuer's"),
        ):
            refused = asking(served.client, wrong, about="ANONYMOUS")
            assert refused.status_code == 401
            assert f'error_description="{description}"' in refused.headers["www-authenticate"]
        # The issuer's keys change, and the token that is known with them.
        keys.write_bytes(key_set("two"))
        wait_until(lambda: asking(served.required, issued("two")).status_code == 200, interval_s=TRY_S)
        assert asking(served.required, token).status_code == 401
    log = "".join(served.lines)
    assert token.split(".")[2] not in log
    assert token.split(".")[1] not in log


@pytest.mark.slow
def test_keys_from_a_url_and_tokens_of_a_file_work_together(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    of_file = token_command("create", "--principal", "User:gateway", "--file", str(tokens))
    with key_set_server(None) as issuer:
        oidc = {"oidc_jwks": issuer.url, "oidc_issuer": ISSUER, "oidc_audience": AUDIENCE}
        with serving(tmp_path, tokens_file=tokens, **oidc) as served:
            # Its issuer is away: it is up, the file's tokens are good, and its own cannot be checked yet.
            assert asking(served.required, of_file).status_code == 200
            unavailable = asking(served.required, issued())
            assert unavailable.status_code == 503
            assert unavailable.headers["aclog-error"] == "NO_TOKEN_KEYS"
            assert "retry-after" in unavailable.headers
            issuer.body = key_set("one")
            wait_until(lambda: asking(served.required, issued()).status_code == 200, interval_s=TRY_S)
            issuer.body = key_set("one", "two")
            wait_until(
                lambda: asking(served.required, issued("two")).status_code in (200, 429), interval_s=TRY_S
            )
            issuer.body = None
            assert asking(served.required, issued("one", jti="a")).status_code == 200
        assert served.events("not_reloaded")


def test_a_start_that_cannot_check_tokens_is_refused(tmp_path: Path) -> None:
    for settings, message in (
        ("aclog.auth.tokens.file=/none/such\n", "aclog.auth.tokens.file"),
        ("aclog.auth.oidc.jwks=http://keys.example.org/\n", "http on a loopback address"),
        ("aclog.auth.oidc.jwks=/keys.json\n", "aclog.auth.oidc.issuer"),
        ("aclog.auth.oidc.issuer=a\n", "only with aclog.auth.oidc.jwks"),
        ("aclog.auth.required.listeners=OTHER\n", "names out of PLAINTEXT"),
        ("aclog.auth.required.listeners=PLAINTEXT\n", "only with aclog.auth.tokens.file"),
        ("aclog.auth.oidc.algorithms=HS256\n", "some of RS256"),
    ):
        config = tmp_path / "sidecar.properties"
        config.write_text(f"aclog.listeners=PLAINTEXT://127.0.0.1:0\n{settings}")
        done = aclog("serve", "--config", config, "--log", tmp_path, code=2)
        assert message in done.stderr
