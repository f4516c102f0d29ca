"""Listeners of every kind, with real sockets: TLS, certificates, Unix sockets, names, who is calling."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from authorizer.api.errors import ConfigError
from authorizer.configuration.load import load_config
from authorizer.listeners.binding import bind_listener
from authorizer.node.node import Node
from authorizer.sidecar.server import Sidecar
from support.certificates import Authority, Issued
from support.nodes import SOON_S
from support.waiting import wait_until

SERVER_CA = Authority("CN=Server CA")
CLIENT_CA = Authority("CN=Client CA")
CLIENT = CLIENT_CA.issue("CN=gateway,OU=edge,O=aclog")

OTHER = {
    "subject": {"type": "User", "id": "another"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


@contextmanager
def serving(tmp_path: Path, settings: dict[str, str]) -> Iterator[tuple[Node, Sidecar]]:
    """A ready node on a directory log in ``tmp_path``, and its sidecar."""
    flags = {"aclog.log.url": str(tmp_path / "log"), "aclog.log.mode": "create", **settings}
    config = load_config(environ={}, flags=flags)
    with Sidecar(config) as sidecar, Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        sidecar.start(node)
        yield node, sidecar


def tls(tmp_path: Path, **settings: str) -> dict[str, str]:
    """A listener with TLS that asks for a certificate; more settings with underscores for dots."""
    (tmp_path / "authorities.pem").write_text(CLIENT_CA.pem)
    return {
        "aclog.listeners": "SSL://localhost:0",
        "ssl.keystore.location": str(SERVER_CA.issue("CN=localhost").write(tmp_path / "server.pem")),
        "ssl.truststore.location": str(tmp_path / "authorities.pem"),
        "ssl.client.auth": "required",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def client_context(
    tmp_path: Path, issued: Issued | None = CLIENT, authority: Authority = SERVER_CA
) -> ssl.SSLContext:
    """What a client trusts, and shows."""
    context = ssl.create_default_context(cadata=authority.pem)
    if issued is not None:
        path = issued.write(tmp_path / "client.pem")
        context.load_cert_chain(path)
    return context


def caller_at(url: str, context: ssl.SSLContext | None = None, uds: str | None = None) -> str:
    """Which principal is asking there, and by which listener, as the refusal to ask about others says it."""
    transport = httpx.HTTPTransport(verify=context or ssl.create_default_context(), uds=uds)
    with httpx.Client(transport=transport, base_url=url) as client:
        answer = client.post("/access/v1/evaluation", json=OTHER)
    assert answer.headers.get("aclog-error") == "CLUSTER_AUTHORIZATION_FAILED", answer.text
    caller = re.match(r"(.*) may ask about itself only", answer.json())
    assert caller, answer.text
    return caller[1].replace(" on listener ", " @ ")


# --- who a certificate is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ({}, "User:CN=gateway,OU=edge,O=aclog"),
        ({"ssl_principal_mapping_rules": "RULE:^CN=(.*?),.*$/$1/U"}, "User:GATEWAY"),
        ({"ssl_principal_mapping_rules": "RULE:^CN=x$/y/,DEFAULT"}, "User:CN=gateway,OU=edge,O=aclog"),
        ({"aclog_ssl_spiffe_mapping_rules": "DEFAULT"}, "User:CN=gateway,OU=edge,O=aclog"),
    ],
    ids=["default", "rule", "second rule", "no SPIFFE id"],
)
def test_mapping_rules_give_the_principal_of_a_certificate(
    rules: dict[str, str], principal: str, tmp_path: Path
) -> None:
    """Kafka's names, so that the same ACLs and super.users are about the same clients."""
    with serving(tmp_path, tls(tmp_path, **rules)) as (_, sidecar):
        assert caller_at(sidecar.urls[0], client_context(tmp_path)) == f"{principal} @ SSL"


def test_the_principal_of_a_certificate_may_query_itself_and_be_a_super_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = {"ssl_principal_mapping_rules": "RULE:^CN=(.*?),.*$/$1/"}
    with (
        serving(tmp_path, tls(tmp_path, super_users="User:admin", **rules)) as (_, sidecar),
        httpx.Client(base_url=sidecar.urls[0], verify=client_context(tmp_path)) as client,
    ):
        itself = {**OTHER, "subject": {"type": "User", "id": "gateway"}}
        assert client.post("/access/v1/evaluation", json=itself).json()["decision"] is False
        (line,) = [record for record in caplog.records if record.name == "kafka.authorizer.logger"]
        assert line.__dict__["caller"] == "User:gateway"
        admin = client_context(tmp_path, CLIENT_CA.issue("CN=admin,O=aclog"))
        with httpx.Client(base_url=sidecar.urls[0], verify=admin) as other:
            assert other.post("/access/v1/evaluation", json=OTHER).json()["decision"] is False
            assert other.get("/v1/acls").json()["acls"] == []
        assert client.get("/v1/acls").status_code == 403


def test_separate_rules_map_a_spiffe_id_to_a_principal(tmp_path: Path) -> None:
    """It wins over the subject; which rule set counts is known by the certificate, not by what matches."""
    workload = CLIENT_CA.issue("O=SPIRE", uris=("https://a.example/", "spiffe://prod/ns/shop/sa/cart"))
    rules = r"RULE:^spiffe:\/\/prod\/ns\/([^\/]+)\/sa\/([^\/]+)$/$1-$2/"
    settings = tls(tmp_path, aclog_ssl_spiffe_mapping_rules=rules)
    with serving(tmp_path, settings) as (_, sidecar):
        (url,) = sidecar.urls
        assert caller_at(url, client_context(tmp_path, workload)) == "User:shop-cart @ SSL"
        stranger = CLIENT_CA.issue("CN=known", uris=("spiffe://elsewhere/ns/shop/sa/cart",))
        answer = httpx.get(f"{url}/livez", verify=client_context(tmp_path, stranger))
        assert (answer.status_code, answer.headers["aclog-error"]) == (403, "NO_PRINCIPAL")
        assert "spiffe://elsewhere/ns/shop/sa/cart" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("uris", "caller"),
    [
        (("SPIFFE://PROD/ns/shop/sa/Cart",), "User:spiffe://prod/ns/shop/sa/Cart"),
        (("Spiffe://prod",), "User:spiffe://prod"),
        (("spiffe://prod/a", "spiffe://prod/b"), "it has 2 SPIFFE ids"),
        (("spiffe:/prod/a",), "is not a SPIFFE id"),
        (("spiffe://u@prod/a",), "is not a SPIFFE id"),
        (("https://a.example/",), None),
        ((), None),
    ],
)
def test_the_subject_of_a_certificate_with_a_spiffe_id_is_ignored(
    uris: tuple[str, ...], caller: str | None, tmp_path: Path
) -> None:
    """Whatever the case of its letters; what is none falls back, unless it is required."""
    client = client_context(tmp_path, CLIENT_CA.issue("CN=admin", uris=uris))
    for required, fallback in (("false", "User:CN=admin"), ("true", "has no SPIFFE id")):
        settings = tls(
            tmp_path,
            aclog_ssl_spiffe_mapping_rules="DEFAULT",
            aclog_ssl_spiffe_required=required,
        )
        with serving(tmp_path, settings) as (_, sidecar):
            (url,) = sidecar.urls
            expected = caller or fallback
            if expected.startswith("User:"):
                assert caller_at(url, client) == f"{expected} @ SSL"
            else:
                answer = httpx.get(f"{url}/v1/state", verify=client)
                assert (answer.status_code, answer.headers["aclog-error"]) == (403, "NO_PRINCIPAL")
                assert expected in answer.json()["detail"]


def test_a_spiffe_id_is_required_only_with_spiffe_rules(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"aclog\.ssl\.spiffe\.required.*aclog\.ssl\.spiffe\.mapping\.rules"),
        serving(tmp_path, tls(tmp_path, aclog_ssl_spiffe_required="true")),
    ):
        pass


def test_a_certificate_without_a_matching_rule_is_refused(tmp_path: Path) -> None:
    """Not even as ANONYMOUS: Kafka ends such a connection."""
    with (
        serving(tmp_path, tls(tmp_path, ssl_principal_mapping_rules="RULE:^CN=x$/y/")) as (_, sidecar),
        httpx.Client(base_url=sidecar.urls[0], verify=client_context(tmp_path)) as client,
    ):
        for path in ("/v1/state", "/livez"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["aclog-error"]) == (403, "NO_PRINCIPAL")
            assert "CN=gateway,OU=edge,O=aclog" in answer.json()["detail"]


REFUSED = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


@pytest.mark.parametrize("client_auth", ["required", "requested"])
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_an_invalid_certificate_gets_no_connection(client_auth: str, protocol: str, tmp_path: Path) -> None:
    """Of another authority, or expired; also where none is needed, as in Java. None at all is fine."""
    with (
        serving(tmp_path, tls(tmp_path, ssl_client_auth=client_auth, ssl_enabled_protocols=protocol)) as (
            node,
            sidecar,
        ),
        capture_logs() as lines,
    ):
        url = f"{sidecar.urls[0]}/livez"
        assert httpx.get(url, verify=client_context(tmp_path)).status_code == 200
        strangers = [
            Authority("CN=Client CA").issue("CN=gateway"),
            CLIENT_CA.issue("CN=gateway", expired=True),
        ]
        for issued in strangers:
            with pytest.raises(REFUSED):
                httpx.get(url, verify=client_context(tmp_path, issued))
        without = client_context(tmp_path, None)
        if client_auth == "required":
            with pytest.raises(REFUSED):
                httpx.get(url, verify=without)
        else:
            assert caller_at(sidecar.urls[0], without) == "User:ANONYMOUS @ SSL"
        failures = [line["reason"] for line in lines if line["event"] == "tls_handshake_failed"]
        expected = ["unable to get local issuer certificate", "certificate has expired"]
        if client_auth == "required":
            expected.append("PEER_DID_NOT_RETURN_A_CERTIFICATE")
        assert failures == expected
        counted = f'aclog_tls_handshake_failures_total{{listener="SSL"}} {len(expected)}.0'
        assert counted in generate_latest(node.metrics).decode()


def test_a_client_certificate_is_requested_only_if_configured(tmp_path: Path) -> None:
    """A client that has one is ANONYMOUS like every other."""
    with serving(tmp_path, tls(tmp_path, ssl_client_auth="none")) as (_, sidecar):
        assert sidecar.urls[0].startswith("https://localhost:")
        assert caller_at(sidecar.urls[0], client_context(tmp_path)) == "User:ANONYMOUS @ SSL"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(sidecar.urls[0], verify=client_context(tmp_path, authority=Authority("CN=Server CA")))
        with pytest.raises(REFUSED):
            httpx.get(sidecar.urls[0].replace("https", "http"))


def test_disabled_tls_versions_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, tls(tmp_path, ssl_enabled_protocols="TLSv1.3")) as (_, sidecar):
        context = client_context(tmp_path)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(REFUSED):
            httpx.get(sidecar.urls[0], verify=context)


def test_settings_of_a_listener_override_the_common_ones(tmp_path: Path) -> None:
    """``listener.name.<name>.``, as on a broker; and each knows its callers in its own way."""
    internal = Authority("CN=Internal CA")
    settings = {
        **tls(tmp_path),
        "aclog.listeners": "EXTERNAL://localhost:0,INTERNAL://localhost:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "EXTERNAL:SSL,INTERNAL:SSL,PLAINTEXT:PLAINTEXT",
        "listener.name.internal.ssl.keystore.location": str(internal.issue("CN=i").write(tmp_path / "i.pem")),
        "listener.name.internal.ssl.client.auth": "none",
        "listener.name.external.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/",
    }
    with serving(tmp_path, settings) as (_, sidecar):
        external, inside, plain = sidecar.urls
        assert caller_at(external, client_context(tmp_path)) == "User:gateway @ EXTERNAL"
        assert caller_at(inside, client_context(tmp_path, None, internal)) == "User:ANONYMOUS @ INTERNAL"
        assert caller_at(plain) == "User:ANONYMOUS @ PLAINTEXT"


# --- where certificates come from --------------------------------------------------------------------------


def test_keys_and_certificates_are_read_from_the_configuration(tmp_path: Path) -> None:
    """KIP-651, in one line as a properties file may have them; the key encrypted."""
    issued = SERVER_CA.issue("CN=localhost", password="s3cret")
    settings = {
        "aclog.listeners": "SSL://localhost:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": issued.chain.replace("\n", ""),
        "ssl.keystore.key": issued.key.replace("\n", " "),
        "ssl.key.password": "s3cret",
        "ssl.truststore.certificates": CLIENT_CA.pem.replace("\n", ""),
        "ssl.client.auth": "required",
    }
    with serving(tmp_path, settings) as (_, sidecar):
        assert caller_at(sidecar.urls[0], client_context(tmp_path)).startswith("User:CN=gateway")
    for password, message in (
        ("", "is encrypted: set its password"),
        ("hunter2", "ssl.key.password is another"),
    ):
        wrong = {**settings, "ssl.key.password": password}
        with pytest.raises(ConfigError, match=message) as raised:
            Sidecar(load_config(environ={}, flags=wrong))
        assert "hunter2" not in str(raised.value)


def test_java_keystores_are_refused_with_a_hint(tmp_path: Path) -> None:
    """By their type and by what is in the file; the command for authorities gives what is then taken."""
    store = tmp_path / "store.jks"
    (tmp_path / "ca.pem").write_text(CLIENT_CA.pem)
    keytool = shutil.which("keytool") or "keytool"
    common = ["-keystore", str(store), "-storepass", "changeit"]
    subprocess.run(
        [keytool, "-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem"), *common],
        check=True,
        capture_output=True,
    )
    settings = tls(tmp_path)
    for wrong, key in (
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type"),
        ({"ssl.truststore.type": "PKCS12"}, "ssl.truststore.type"),
        ({"ssl.keystore.location": str(store)}, "ssl.keystore.location"),
        ({"ssl.truststore.location": str(store)}, "ssl.truststore.location"),
    ):
        with pytest.raises(ConfigError, match="keytool -") as raised:
            Sidecar(load_config(environ={}, flags={**settings, **wrong}))
        assert raised.value.key == key
    listed = subprocess.run([keytool, "-list", "-rfc", *common], check=True, capture_output=True)
    (tmp_path / "authorities.pem").write_bytes(listed.stdout)
    with serving(tmp_path, settings) as (_, sidecar):
        assert caller_at(sidecar.urls[0], client_context(tmp_path)).startswith("User:CN=gateway")


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({"ssl.keystore.location": ""}, "ssl.keystore.location", "needs a private key and a certificate"),
        ({"ssl.keystore.location": "/no/such.pem"}, "ssl.keystore.location", "No such file"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain", "needed with ssl.keystore.key"),
        ({"ssl.truststore.location": ""}, "ssl.client.auth", "the authorities of admitted clients"),
        ({"ssl.truststore.location": "/no/such.pem"}, "ssl.truststore.location", "No such file"),
        ({"ssl.truststore.certificates": "x"}, "ssl.truststore.location", "set one"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols", "TLSv1.2, TLSv1.3 or both"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites", "leave it empty"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth", "one of none, requested, required"),
        ({"ssl.principal.mapping.rules": "x"}, "ssl.principal.mapping.rules", "`x` is none"),
        (
            {"listener.name.ssl.ssl.enabled.protocols": ""},
            "listener.name.ssl.ssl.enabled.protocols",
            "or both",
        ),
        ({"aclog.listeners": "SASL_SSL://localhost:0"}, "aclog.listeners", "not SASL_SSL"),
        ({"aclog.listeners": "PLAINTEXT://0.0.0.0:0"}, "aclog.listeners", "beyond.loopback=true"),
        ({"aclog.listeners": "PLAINTEXT://:0"}, "aclog.listeners", "ssl.keystore.location"),
        ({"aclog.unix.principals": "uid:x=User:a"}, "aclog.unix.principals", "uid:NUMBER"),
        ({"aclog.unix.principals": "uid:1=a"}, "aclog.unix.principals", "uid:NUMBER"),
        ({"aclog.unix.principals": "uid:1=User:a;uid:01=User:b"}, "aclog.unix.principals", "uid:NUMBER"),
        (
            {"aclog.allow.plaintext.beyond.loopback": "yes"},
            "aclog.allow.plaintext.beyond.loopback",
            "true or false",
        ),
    ],
    ids=lambda value: next(iter(value.items())) if isinstance(value, dict) else "",
)
def test_an_unusable_listener_stops_the_start_with_a_hint(
    settings: dict[str, str], key: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        Sidecar(load_config(environ={}, flags={**tls(tmp_path), **settings}))
    assert raised.value.key == key


# --- certificates that change ------------------------------------------------------------------------------


def expires_s(pem: Path) -> float:
    return x509.load_pem_x509_certificate(pem.read_bytes()).not_valid_after_utc.timestamp()


def test_new_connections_get_a_changed_certificate(tmp_path: Path) -> None:
    """Existing connections continue; a broken file changes nothing and is reported until it is fixed."""
    renewed = Authority("CN=Renewed CA")
    with serving(tmp_path, tls(tmp_path)) as (_, sidecar), capture_logs() as lines:
        (url,) = sidecar.urls

        def answers(authority: Authority) -> bool:
            try:
                return httpx.get(
                    f"{url}/livez", verify=client_context(tmp_path, authority=authority)
                ).is_success
            except REFUSED:
                return False

        def metric(name: str) -> str:
            authority = renewed if answers(renewed) else SERVER_CA
            page = httpx.get(f"{url}/metrics", verify=client_context(tmp_path, authority=authority)).text
            return page.partition(f"\n{name} ")[2].partition("\n")[0]

        failing = 'aclog_tls_reload_failed{listener="SSL"}'
        with httpx.Client(base_url=url, verify=client_context(tmp_path)) as before:
            assert before.get("/livez").is_success
            assert not answers(renewed)
            assert metric(failing) == "0.0"
            expiry = 'aclog_tls_certificate_expiry_timestamp_seconds{listener="SSL"}'
            assert float(metric(expiry)) == (expires := expires_s(tmp_path / "server.pem"))
            (tmp_path / "server.pem").write_text("-----BEGIN")
            wait_until(lambda: before.get("/livez").is_success and metric(failing) == "1.0")
            assert answers(SERVER_CA)
            (tmp_path / "server.pem").unlink()
            failures = 'aclog_tls_reloads_total{listener="SSL",result="failed"}'
            wait_until(lambda: before.get("/livez").is_success and metric(failures) == "2.0")
            assert answers(SERVER_CA)
            assert float(metric(expiry)) == expires
            renewed.issue("CN=localhost", days=30).write(tmp_path / "server.pem")
            wait_until(lambda: before.get("/livez").is_success and answers(renewed))
            assert not answers(SERVER_CA)
            assert metric(failing) == "0.0"
            assert float(metric(expiry)) == expires_s(tmp_path / "server.pem") > expires
            assert before.get("/livez").is_success
        warnings = [line for line in lines if line["event"] == "certificates_not_reloaded"]
        assert len(warnings) == 2
        assert {line["listener"] for line in warnings} == {"SSL"}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_removed_authority_ends_resumption_of_its_sessions(version: ssl.TLSVersion, tmp_path: Path) -> None:
    """A link that is swapped, as Kubernetes does it."""
    old, new = tmp_path / "old.pem", tmp_path / "new.pem"
    settings = tls(tmp_path)
    (tmp_path / "authorities.pem").rename(old)
    new.write_text(Authority("CN=Other CA").pem)
    link = tmp_path / "authorities.pem"
    link.symlink_to(old)
    with serving(tmp_path, settings) as (_, sidecar):
        port = httpx.URL(sidecar.urls[0]).port
        assert port is not None
        context = client_context(tmp_path)
        context.maximum_version = context.minimum_version = version

        def connect(session: ssl.SSLSession | None) -> tuple[bool, ssl.SSLSession | None]:
            with socket.create_connection(("localhost", port), SOON_S) as raw:
                try:
                    with context.wrap_socket(raw, server_hostname="localhost", session=session) as secured:
                        secured.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
                        return secured.recv(100).startswith(b"HTTP/1.1 200"), secured.session
                except OSError:
                    return False, session

        is_admitted, session = connect(None)
        assert is_admitted
        assert session is not None
        assert connect(session)[0]
        (tmp_path / "swapped").symlink_to(new)
        (tmp_path / "swapped").rename(link)
        wait_until(lambda: not connect(None)[0])
        assert not connect(session)[0]


# --- Unix sockets ------------------------------------------------------------------------------------------


def test_a_mapping_gives_the_principal_of_a_unix_peer(tmp_path: Path) -> None:
    """What the kernel says of it; the user's mapping wins over the group's; every other is ANONYMOUS."""
    path = tmp_path / "gateway.sock"
    settings = {"aclog.listeners": f"gateway://{path},PLAINTEXT://127.0.0.1:0"}
    uid, gid = os.getuid(), os.getgid()
    for mapping, principal in (
        (f"uid:{uid}=User:me; gid:{gid}=User:us", "User:me"),
        (f"uid:{uid + 1}=User:you;gid:{gid}=Role:us", "Role:us"),
        (f"uid:{uid + 1}=User:you", "User:ANONYMOUS"),
        ("", "User:ANONYMOUS"),
    ):
        with serving(tmp_path, {**settings, "aclog.unix.principals": mapping}) as (_, sidecar):
            assert sidecar.urls[0] == f"unix:{path}"
            assert caller_at("http://localhost", uds=str(path)) == f"{principal} @ GATEWAY"
            assert caller_at("http://any.name", uds=str(path)) == f"{principal} @ GATEWAY"
            assert caller_at(sidecar.urls[1]) == "User:ANONYMOUS @ PLAINTEXT"
            local = httpx.HTTPTransport(uds=str(tmp_path / "log" / "aclog.sock"))
            with httpx.Client(transport=local, base_url="http://localhost") as client:
                assert client.get("/v1/acls").status_code == 200
        assert not path.exists()


def test_a_used_unix_socket_stops_the_start_and_a_stale_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    config = load_config(environ={}, flags={"aclog.listeners": f"UNIX://{path}"})
    (endpoint,) = config.served_listeners()
    bind_listener(endpoint, "aclog.listeners").close()
    assert path.is_socket()
    with Sidecar(config):
        assert path.stat().st_mode & 0o777 == 0o666
        with pytest.raises(ConfigError, match="in use"):
            Sidecar(config)
        assert path.is_socket()
    path.write_text("mine")
    with pytest.raises(ConfigError, match="cannot listen there"):
        Sidecar(config)
    assert path.read_text() == "mine"


# --- addresses and names -----------------------------------------------------------------------------------


def test_two_listeners_may_have_the_same_port_on_two_addresses(tmp_path: Path) -> None:
    """IPv4 and IPv6, each with its own name and its own early start."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = {
        "aclog.listeners": f"FOUR://127.0.0.1:{port},SIX://[::1]:{port}",
        "listener.security.protocol.map": "FOUR:PLAINTEXT,SIX:PLAINTEXT",
    }
    with serving(tmp_path, settings) as (_, sidecar):
        assert sidecar.urls == [f"http://127.0.0.1:{port}", f"http://[::1]:{port}"]
        assert [caller_at(url) for url in sidecar.urls] == ["User:ANONYMOUS @ FOUR", "User:ANONYMOUS @ SIX"]
        for url in sidecar.urls:
            metadata = httpx.get(f"{url}/.well-known/authzen-configuration").json()
            assert metadata["policy_decision_point"] == url


def test_all_addresses_require_an_explicit_setting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """IPv4 and IPv6 on one socket; an IPv4 client has an IPv4 address, for ACLs and for trusted proxies."""
    settings = {
        "aclog.listeners": "PLAINTEXT://:0",
        "aclog.allow.plaintext.beyond.loopback": "true",
        "aclog.describe.principals": "User:ANONYMOUS",
        "aclog.trusted.proxies": "127.0.0.1",
    }
    with serving(tmp_path, settings) as (_, sidecar):
        port = httpx.URL(sidecar.urls[0]).port
        for url, headers, seen in (
            (f"http://127.0.0.1:{port}", {}, "127.0.0.1"),
            (f"http://127.0.0.1:{port}", {"X-Forwarded-For": "10.9.9.9"}, "10.9.9.9"),
            (f"http://[::1]:{port}", {"X-Forwarded-For": "10.9.9.9"}, "0:0:0:0:0:0:0:1"),
        ):
            caplog.clear()
            assert httpx.post(f"{url}/access/v1/evaluation", json=OTHER, headers=headers).status_code == 200
            (line,) = [record for record in caplog.records if record.name == "kafka.authorizer.logger"]
            assert line.__dict__["caller_host"] == seen


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:8180", True),
        ("LOCALHOST", True),
        ("a.localhost:1", True),
        ("[::1]:8180", True),
        ("127.9.9.9", True),
        ("acls.example.org", True),
        ("ACLS.example.org.:443", True),
        ("evil.example", False),
        ("evil.example:8180", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_a_request_for_another_host_is_refused_on_loopback(host: str, is_ours: bool, tmp_path: Path) -> None:
    """DNS rebinding: a page whose own name means 127.0.0.1 for a moment. A trusted proxy may send any."""
    settings = {
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
        "aclog.sidecar.public.url": "https://acls.example.org/aclog",
    }
    with serving(tmp_path, settings) as (_, sidecar):
        for path in ("/v1/acls", "/livez", "/nothing"):
            answer = httpx.get(sidecar.urls[0] + path, headers={"host": host})
            assert (answer.status_code == 421) is not is_ours
            if not is_ours:
                assert answer.headers["aclog-error"] == "MISDIRECTED_REQUEST"
                assert "aclog.sidecar.public.url" in answer.json()["detail"]
    with serving(tmp_path, {**settings, "aclog.trusted.proxies": "127.0.0.1"}) as (_, sidecar):
        forwarded = {"host": host, "x-forwarded-for": "10.9.9.9"}
        assert httpx.get(f"{sidecar.urls[0]}/livez", headers=forwarded).status_code == 200


def test_each_host_header_must_match_the_listener(tmp_path: Path) -> None:
    """A second one does not smuggle the request in; none at all is HTTP/1.0's."""
    with serving(tmp_path, {"aclog.listeners": "PLAINTEXT://127.0.0.1:0"}) as (_, sidecar):
        address = ("127.0.0.1", httpx.URL(sidecar.urls[0]).port or 0)
        for head, status in (
            (b"GET /livez HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n", b"421"),
            (b"GET /livez HTTP/1.1\r\nhost: evil.example\r\nhost: localhost\r\n\r\n", b"421"),
            (b"GET /livez HTTP/1.0\r\n\r\n", b"200"),
        ):
            with socket.create_connection(address, SOON_S) as client:
                client.sendall(head)
                assert client.recv(100).split()[1] == status


# --- the end -----------------------------------------------------------------------------------------------


# uvloop says so of a connection that no protocol has seen yet: what never says hello is the loop's to close.
@pytest.mark.filterwarnings("ignore:unclosed resource:ResourceWarning")
def test_waiting_and_silent_clients_do_not_delay_the_shutdown(tmp_path: Path) -> None:
    """An idle connection, one that never says hello, and half a request: none of them gets the grace."""
    grace = {"aclog.sidecar.drain.timeout.ms": str(int(2000 * SOON_S))}
    settings = {**tls(tmp_path, ssl_client_auth="none"), **grace}
    context = client_context(tmp_path, None)
    for half_a_request in (b"", b"POST /access/v1/evaluation HTTP/1.1\r\nhost: localhost"):
        with serving(tmp_path, settings) as (_, sidecar):
            address = ("localhost", httpx.URL(sidecar.urls[0]).port or 0)
            idle = context.wrap_socket(socket.create_connection(address, SOON_S), server_hostname="localhost")
            with idle, socket.create_connection(address, SOON_S):
                idle.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert idle.recv(100).startswith(b"HTTP/1.1 200")
                idle.sendall(half_a_request)
                began = time.monotonic()
                sidecar.close()
                assert time.monotonic() - began < SOON_S


# --- the documents -----------------------------------------------------------------------------------------


def test_the_example_of_the_docs_works(tmp_path: Path) -> None:
    """The properties of docs/how-to/tls-and-tokens.md as they are written there, but for paths and ports."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "tls-and-tokens.md").read_text(encoding="utf-8")
    block = page.partition("`sidecar.properties`")[2].partition("\nThen `aclog serve")[0]
    lines = [line.strip() for line in block.splitlines() if line.startswith("    ")]
    lines += re.findall(r"^    (aclog\.ssl\.spiffe.*)$", page, re.MULTILINE)
    assert len(lines) == 7
    text = "\n".join(lines).replace("/etc/aclog", str(tmp_path))
    file = tmp_path / "sidecar.properties"
    file.write_text(text.replace(":8443", "localhost:0").replace(":8180", ":0"))
    authority = Authority("CN=aclog authority")
    (tmp_path / "ca.pem").write_text(authority.pem)
    authority.issue("CN=server,O=example").write(tmp_path / "server.pem")
    flags = {"aclog.log.url": str(tmp_path / "log"), "aclog.log.mode": "create"}
    config = load_config(file, environ={}, flags=flags)
    gateway = authority.issue("CN=Gateway,O=example")
    cart = authority.issue("O=SPIRE", uris=("spiffe://prod/ns/shop/sa/cart",))
    with Sidecar(config) as sidecar, Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        sidecar.start(node)
        url, plain = sidecar.urls
        assert caller_at(url, client_context(tmp_path, cart, authority)) == "User:shop-cart @ SSL"
        assert caller_at(plain) == "User:ANONYMOUS @ PLAINTEXT"
        with httpx.Client(base_url=url, verify=client_context(tmp_path, gateway, authority)) as client:
            assert client.post("/access/v1/evaluation", json=OTHER).json()["decision"] is False
