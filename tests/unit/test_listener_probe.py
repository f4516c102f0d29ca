"""A TLS mismatch with a port: the error says which side uses TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from records.errors import LogError, LogRefusedError, LogUnreachableError
from records.log.listener_probe import tls_mismatch
from records.log.open import open_log
from records.log.url import Address
from support.certificates import Authority

SETTING = "aclog.kafka.security.protocol"
URLS = ("kraft://{}", "describe://{}", "kafka://{}/acls")


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Each connection is given to ``answer``, and closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        connection.settimeout(5)
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", server.getsockname()[1])
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def kafka(connection: socket.socket) -> None:
    """A broker's listener without TLS: it answers what is a request, and hangs up at anything else."""
    size_bytes = int.from_bytes(connection.recv(4), "big")
    if size_bytes < 10_000:
        request = connection.recv(size_bytes)
        connection.sendall(b"\0\0\0\x0a" + request[4:8] + bytes(6))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def tls(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Callable[[socket.socket], None]:
    """A listener with TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("CN=broker").write(tmp_path_factory.mktemp("tls") / "server.pem"))

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    return answer


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("protocol", [None, "PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_tls_port_is_named(url: str, protocol: str | None, tls: Callable[[socket.socket], None]) -> None:
    """Only the first request is sent; the error says what to set."""
    client = {} if protocol is None else {"security.protocol": protocol}
    if protocol == "SASL_PLAINTEXT":
        client |= {"sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    with listening(tls) as address, pytest.raises(LogRefusedError) as refused:
        open_log(url.format(address), client=client)
    assert f"{address} is a TLS port: set {SETTING} to SSL or SASL_SSL" in str(refused.value)


@pytest.mark.parametrize("url", URLS)
def test_a_port_without_tls_is_named(url: str, authority: Authority, tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_text(authority.pem)
    client = {"security.protocol": "ssl", "ssl.ca.location": str(authorities)}
    with listening(kafka) as address, pytest.raises(LogRefusedError) as refused:
        open_log(url.format(address), client=client)
    assert f"{address} is a port without TLS: name a port with TLS, or set {SETTING} to" in str(refused.value)


def test_a_wrong_certificate_is_no_mismatch(tls: Callable[[socket.socket], None], tmp_path: Path) -> None:
    """Both have TLS; the error is TLS' own."""
    authorities = tmp_path / "ca.pem"
    authorities.write_text(Authority("CN=Another CA").pem)
    client = {"security.protocol": "ssl", "ssl.ca.location": str(authorities)}
    with listening(tls) as address, pytest.raises(LogRefusedError, match="no authority that is trusted here"):
        open_log(f"kraft://{address}", client=client)


@pytest.mark.parametrize("has_tls", [True, False])
def test_a_silent_port_is_no_mismatch(has_tls: bool) -> None:
    """A port that hangs up, or one where nobody listens."""
    with listening(lambda _: None) as address:
        assert tls_mismatch(address, has_tls=has_tls, setting=SETTING) is None
        with pytest.raises(LogError) as raised:
            open_log(f"kraft://{address}", client={"security.protocol": "ssl" if has_tls else "plaintext"})
        assert "is a port" not in str(raised.value)
    assert tls_mismatch(address, has_tls=has_tls, setting=SETTING) is None
    with pytest.raises(LogUnreachableError, match="cannot connect"):
        open_log(f"kraft://{address}")
