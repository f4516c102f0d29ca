"""The same-origin guard: which requests come from the console's own page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pytest
from starlette.datastructures import Headers
from starlette.requests import Request

from authorizer.api.http.error_code import ErrorCode
from authorizer.console.routes.access import require_same_origin
from authorizer.listeners.connection_peer import Peer
from authorizer.listeners.listener import Listener
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.request_origin import Origin
from records.principal import ANONYMOUS

FORBIDDEN: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
MISDIRECTED: Final = ErrorCode.MISDIRECTED_REQUEST
NAMED: Final = Listener(name="A", url="http://10.0.0.1:80", names=frozenset({"acls.example.org"}))
PUBLIC: Final = replace(NAMED, public_origin="https://acls.example.org")
TLS: Final = replace(NAMED, url="https://10.0.0.1:443")
JSON: Final = ("content-type", "application/json")


@dataclass(frozen=True)
class Case:
    """A request and its error; None: it is accepted."""

    host: str
    origin: str
    refused: ErrorCode | None = None
    listener: Listener = NAMED
    is_proxy: bool = False
    more: tuple[tuple[str, str], ...] = ()


CASES = {
    "an address": Case("10.0.0.1:8180", "http://10.0.0.1:8180"),
    "an IPv6 address": Case("[fd00::1]:8180", "http://[fd00::1]:8180"),
    "this machine": Case("localhost:8180", "http://localhost:8180"),
    "a name that is configured": Case("acls.example.org", "http://acls.example.org"),
    "any other name": Case("evil.example", "http://evil.example", MISDIRECTED),
    "a name that ends like an address": Case("10.0.0.1.nip.io", "http://10.0.0.1.nip.io", MISDIRECTED),
    "no host": Case("", "http://", MISDIRECTED),
    "two hosts": Case("10.0.0.1", "http://10.0.0.1", MISDIRECTED, more=(("host", "evil.example"),)),
    "two origins": Case("10.0.0.1", "http://10.0.0.1", FORBIDDEN, more=(("origin", "https://evil.example"),)),
    "a longer name": Case("10.0.0.1", "http://10.0.0.1.evil.example", FORBIDDEN),
    "another port": Case("10.0.0.1:8180", "http://10.0.0.1:8181", FORBIDDEN),
    "what asks from a sandbox": Case("10.0.0.1", "null", FORBIDDEN),
    "over TLS": Case("acls.example.org", "https://acls.example.org", listener=TLS),
    "from plaintext to TLS": Case("acls.example.org", "http://acls.example.org", FORBIDDEN, TLS),
    "another name over TLS": Case("evil.example", "https://evil.example", MISDIRECTED, TLS),
    "a proxy with TLS": Case("acls.example.org", "https://acls.example.org", listener=PUBLIC),
    "from plaintext to a proxy": Case("acls.example.org", "http://acls.example.org", FORBIDDEN, PUBLIC),
    "a proxy that sends its own host": Case("10.0.0.1:80", "https://acls.example.org", listener=PUBLIC),
    "a trusted proxy": Case("inside", "https://acls.example.org", None, PUBLIC, is_proxy=True),
    "another page by a trusted proxy": Case("inside", "http://inside", FORBIDDEN, PUBLIC, is_proxy=True),
    "a trusted proxy of no known page": Case("inside", "http://inside", FORBIDDEN, is_proxy=True),
    "said to be of another site": Case(
        "10.0.0.1", "http://10.0.0.1", FORBIDDEN, more=(("sec-fetch-site", "cross-site"),)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_only_requests_of_the_consoles_origin_are_accepted(case: Case) -> None:
    headers = [("host", case.host), ("origin", case.origin), JSON, *case.more]
    request = request_of(headers, case.listener, is_proxy=case.is_proxy)
    if case.refused is None:
        require_same_origin(request)
        return
    with pytest.raises(HttpError) as refused:
        require_same_origin(request)
    assert refused.value.code is case.refused


@pytest.mark.parametrize("kind", [None, "text/plain", "multipart/form-data; boundary=b"])
def test_content_types_of_forms_are_rejected(kind: str | None) -> None:
    headers = [("host", "10.0.0.1"), ("origin", "http://10.0.0.1")]
    request = request_of([*headers, *([] if kind is None else [("content-type", kind)])], NAMED)
    with pytest.raises(HttpError, match="Content-Type must be application/json"):
        require_same_origin(request)


def request_of(headers: list[tuple[str, str]], listener: Listener, *, is_proxy: bool = False) -> Request:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    state = {"peer": Peer(listener, ANONYMOUS, is_proxy), "origin": Origin(listener, ANONYMOUS, "10.0.0.9")}
    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "server": ("10.0.0.1", 80),
        "path": "/console/v1/apply",
        "query_string": b"",
        "headers": Headers(raw=raw).raw,
        "state": state,
    }
    return Request(scope)
