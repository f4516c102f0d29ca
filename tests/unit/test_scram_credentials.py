"""Stored credentials of SASL: the hashes of RFC 7677's example, and their lines in the file."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.errors import ConfigError
from authorizer.authentication.scram import CREDENTIALS_FILE, ScramCredential, credential_id

#: RFC 7677, section 3: user "user", password "pencil".
RFC_7677 = (
    "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)


def test_the_example_of_the_rfc_is_verified() -> None:
    credential = ScramCredential.parse(RFC_7677)
    assert credential.line() == RFC_7677
    assert credential.matches("pencil")
    assert not credential.matches("pencil ")
    assert credential.salt == base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_nothing_secret_is_in_the_repr() -> None:
    text = repr(ScramCredential.parse(RFC_7677))
    assert "user='user'" in text
    assert "salt" not in text
    assert "key" not in text


@given(
    user=st.text(min_size=1).filter(lambda text: text.isprintable() and text == text.strip()),
    mechanism=st.sampled_from(("SCRAM-SHA-256", "SCRAM-SHA-512")),
)
def test_a_created_line_is_read_back(user: str, mechanism: str) -> None:
    if user.startswith("#") or user == "ANONYMOUS":
        return
    created = ScramCredential.create(user, mechanism, "secret", b"salt")
    assert ScramCredential.parse(created.line()) == created
    assert created.matches("secret")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("alice:secret", "not USER:MECHANISM"),
        (RFC_7677.replace("user:", "ANONYMOUS:"), "without credentials"),
        (RFC_7677.replace("user:", " :"), "printable"),
        (RFC_7677.replace("4096", "4095"), "iterations are 4096 to 16384"),
        (RFC_7677.replace("4096", "99999"), "iterations are 4096 to 16384"),
        (RFC_7677.replace("SHA-256", "SHA-512"), "keys of SCRAM-SHA-512 have 64 bytes"),
        (RFC_7677.replace("gQ==", "gQ="), "base64"),
    ],
)
def test_an_invalid_line_is_refused_without_repeating_it(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        ScramCredential.parse(line)
    assert "WG5d" not in str(error.value)


def test_a_user_has_one_credential_for_each_mechanism(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    old, other, new = (
        ScramCredential.create("alice", "SCRAM-SHA-256", "old"),
        ScramCredential.create("alice", "SCRAM-SHA-512", "old"),
        ScramCredential.create("alice", "SCRAM-SHA-256", "new"),
    )
    for each in (old, other, new):
        CREDENTIALS_FILE.put(path, each)
    assert CREDENTIALS_FILE.read(path) == [other, new]
    assert CREDENTIALS_FILE.remove(path, credential_id("alice", "SCRAM-SHA-512")) == other
    assert CREDENTIALS_FILE.read(path) == [new]
    path.write_text(f"{new.line()}\n{new.line()}\n")
    with pytest.raises(ConfigError, match="line 2 repeats SCRAM-SHA-256 of alice"):
        CREDENTIALS_FILE.read(path)
