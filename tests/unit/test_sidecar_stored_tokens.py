"""Tokens by their hashes: creation, checks, and valid lines."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from typing import Any

import pytest

from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.sidecar.auth import stored_tokens
from authorizer.sidecar.auth.challenge import http_error
from authorizer.sidecar.auth.stored_tokens import (
    StoredToken,
    StoredTokens,
    new_token,
    token_principal,
)
from records.principal import KafkaPrincipal

GATEWAY = KafkaPrincipal("User", "gateway")
DISTINGUISHED = KafkaPrincipal("User", "CN=a:b,O=c d")


def refused(tokens: StoredTokens, token: str) -> Reason:
    with pytest.raises(RejectionError) as refusal:
        tokens.verify(token)
    assert http_error(refusal.value).code.status == 401
    return refusal.value.reason


def test_a_token_is_its_principals() -> None:
    token, stored = new_token(GATEWAY)
    other_token, other = new_token(DISTINGUISHED)
    tokens = StoredTokens([stored, other])
    assert tokens.verify(token).principal == GATEWAY
    assert tokens.verify(other_token).principal == DISTINGUISHED


def test_tokens_are_long_and_never_the_same() -> None:
    (one, stored_one), (two, stored_two) = new_token(GATEWAY), new_token(GATEWAY)
    assert one != two
    assert stored_one.id != stored_two.id
    assert stored_one.hash != stored_two.hash
    assert len(one.rpartition("_")[2]) <= 43 < len(one) - len("aclog_")  # 32 bytes in base64, and the id


@pytest.mark.parametrize("principal", [GATEWAY, DISTINGUISHED])
def test_a_line_says_all_but_the_token(principal: KafkaPrincipal) -> None:
    token, stored = new_token(principal)
    line = stored.line()
    assert StoredToken.parse(line) == stored
    assert token.split("_", 2)[2] not in line


def test_wrong_secrets_unknown_ids_and_truncated_tokens_are_refused() -> None:
    token, stored = new_token(GATEWAY)
    tokens = StoredTokens([stored])
    changed = token[:-2] + ("AA" if not token.endswith("AA") else "BB")
    assert refused(tokens, changed) is Reason.UNKNOWN_TOKEN
    assert refused(tokens, new_token(GATEWAY)[0]) is Reason.UNKNOWN_TOKEN
    assert refused(tokens, token[:-1]) is Reason.MALFORMED
    assert refused(tokens, "password") is Reason.MALFORMED


def test_an_unknown_id_takes_the_way_of_a_wrong_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash of the same cost and one comparison in constant time, the same message: no id is found out."""
    token, stored = new_token(GATEWAY)
    tokens = StoredTokens([stored])
    done: Counter[object] = Counter()
    sha256, compare = hashlib.sha256, hmac.compare_digest

    def counted_sha256(data: bytes) -> Any:
        done["sha256", len(data)] += 1
        return sha256(data)

    def counted_compare(left: bytes, right: bytes) -> bool:
        done["compare_digest", len(left), len(right)] += 1
        return compare(left, right)

    monkeypatch.setattr(hashlib, "sha256", counted_sha256)
    monkeypatch.setattr(stored_tokens, "compare_digest", counted_compare)
    ways = []
    for each in (token[:-1] + ("A" if token[-1] != "A" else "B"), "aclog_" + "0" * 16 + "_" + "A" * 43):
        done.clear()
        with pytest.raises(RejectionError) as refusal:
            tokens.verify(each)
        ways.append((dict(done), refusal.value.message, http_error(refusal.value).headers))
    assert ways[0] == ways[1]
    assert ways[0][0] == {("sha256", len(token)): 1, ("compare_digest", 32, 32): 1}


SALT, HASH = "A" * 22, "A" * 43
ID = "0123456789abcdef"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("User:gateway", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$sha256${HASH[:-1]}", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$sha256${SALT}${HASH}", "not PRINCIPAL:ID"),
        (f"User:a:{ID[:-1]}$sha256${HASH}", "not PRINCIPAL:ID"),
        (f"gateway:{ID}$sha256${HASH}", "principalType:principalName"),
        (f"{ID}$sha256${HASH}", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$argon2id$m=1${SALT}${HASH}", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$scrypt$ln=14,r=8,p=1${SALT}${HASH}", "not PRINCIPAL:ID"),
        (f"User:ANONYMOUS:{ID}$sha256${HASH}", "who has no token"),
    ],
)
def test_a_line_that_is_wrong_says_what_it_must_be(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        StoredToken.parse(line)
    assert message in str(error.value)
    assert HASH[:-1] not in str(error.value)


def test_a_principal_must_fit_on_a_line() -> None:
    assert token_principal("User:CN=a:b,O=c d") == DISTINGUISHED
    for text in ("gateway", "User:", ":a", "User:a\nUser:b", "#User:a", "User:a ", "User:ANONYMOUS"):
        with pytest.raises(ValueError, match=r"."):
            token_principal(text)
