"""The Host header: parsed completely, or refused."""

from __future__ import annotations

import pytest

from authorizer.listeners.listener import Listener, parse_host

LISTENER = Listener(name="PLAINTEXT", url="http://127.0.0.1:8180", names=frozenset({"acls.example.org"}))


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("LocalHost.:8180", "localhost"),
        ("acls.example.org", "acls.example.org"),
        ("a_b-1.example:", "a_b-1.example"),
        ("127.0.0.1:65535", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:8180", "::1"),
        ("[2001:DB8::1]:443", "2001:db8::1"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
    ],
)
def test_names_and_addresses(header: str, host: str) -> None:
    assert parse_host(header) == host


@pytest.mark.parametrize(
    "header",
    [
        "[::1].evil.example",
        "[::1].evil.example:8180",
        "[::1]evil.example",
        "[::1]:80.evil.example",
        "[::1]:80:80",
        "[::1",
        "::1",
        "::1]",
        "[127.0.0.1]",
        "[localhost]",
        "[::1%25lo]",
        "[]",
        "",
        ":8180",
        ".",
        ".localhost",
        "localhost..",
        "a..localhost",
        "localhost:port",
        "localhost:123456",
        "localhost:80@evil.example",
        "evil.example@localhost",
        "evil.example#.localhost",
        "evil.example/.localhost",
        "evil.example,localhost",
        "localhost evil.example",
        "localhost\tevil",
        " localhost",
        "localhost\n",
        "locälhost",
        "localho\u017ft",
    ],
)
def test_an_invalid_host_is_refused(header: str) -> None:
    assert parse_host(header) is None
    assert not LISTENER.is_addressed(header)


@pytest.mark.parametrize(
    ("header", "is_addressed"),
    [
        ("127.0.0.1:8180", True),
        ("127.9.9.9", True),
        ("[::1]:8180", True),
        ("[0:0:0:0:0:0:0:1]", True),
        ("localhost.", True),
        ("page.localhost:1", True),
        ("ACLs.Example.org", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evillocalhost", False),
        ("10.0.0.1", False),
        ("[::2]", False),
        ("acls.example.org.evil.example", False),
    ],
)
def test_a_listener_is_addressed_by_its_names_and_loopbacks(header: str, is_addressed: bool) -> None:
    assert LISTENER.is_addressed(header) is is_addressed
