"""A connection to a controller: any bytes give an error or the answer, in time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.errors import LogError, LogRefusedError, LogUnreachableError
from records.log.protocol import requests, responses, sasl
from records.log.protocol.cluster_errors import ClusterErrors
from records.log.protocol.connection import FRAME_BYTES_MAX, Connection
from records.log.protocol.settings import protocol_settings
from records.log.url import Address
from support.sim_quorum import SimQuorum

FAILURE = ClusterErrors("kraft://c:1", protocol_settings({}))
QUICK = protocol_settings({"socket.timeout.ms": "200"})
ANSWERS: list[responses.ResponseDecoder[Any]] = [
    responses.API_VERSIONS,
    responses.DESCRIBE_CLUSTER,
    responses.describe_acls(),
    responses.DESCRIBE_QUORUM,
    responses.CREATE_ACLS,
    responses.DELETE_ACLS,
    responses.FETCH,
    responses.FETCH_SNAPSHOT,
    responses.SASL_HANDSHAKE,
    responses.SASL_AUTHENTICATE,
]


@given(data=st.binary(max_size=200), decoder=st.sampled_from(ANSWERS))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_an_answer_or_malformed(data: bytes, decoder: responses.ResponseDecoder[Any]) -> None:
    """Also such as begin like one, whatever sizes they claim: kio's reader ends the process at some."""
    for frame in (
        data,
        bytes(4) + data,
        bytes(5) + data,
        bytes(5) + data[:9] + b"\xfe\xff\xff\xff\x7f" + data,
    ):
        with suppress(responses.MalformedResponseError):
            responses.decode_response(frame, decoder, 0)


@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_a_damaged_answer_is_an_answer_or_malformed(flips: list[tuple[int, int]]) -> None:
    """One that was right, with a few bytes of another value: what it says is in our terms, or refused."""
    quorum = SimQuorum(0)
    quorum.settle()
    leader = next(node for node in quorum.nodes if node.leader == node.id)
    question = requests.FetchParameters(
        cluster_id=None, leader_epoch=leader.epoch, offset=0, last_epoch=0, high_watermark=None
    )
    frame = quorum.answer(leader, requests.request_bytes(requests.fetch(question, 18), 1))
    assert frame is not None
    damaged = bytearray(frame[4:])
    for at, value in flips:
        damaged[at % len(damaged)] = value
    with suppress(responses.MalformedResponseError):
        responses.decode_response(bytes(damaged), responses.FETCH, 1)


@contextmanager
def listener(*answers: bytes, keeps_open: bool = False) -> Iterator[Address]:
    """Sends the answers to the first that connects, whatever is asked, and hangs up or stays silent."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for answer in answers:
                    connection.sendall(answer)
                if keeps_open:
                    done.wait(10)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield Address("127.0.0.1", server.getsockname()[1])
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("answers", "keeps_open", "why"),
    [
        ((), True, "no answer to ApiVersions within 0.2 s"),
        ((b"\0\0",), True, "no answer"),
        ((b"\0\0\0\x10half",), True, "no answer"),
        ((), False, r"was closed|Connection reset|Broken pipe"),
        ((b"\0\0\0\x10half",), False, r"was closed|Connection reset"),
        ((b"\x15\x03\x03\0\2\2\x28",), False, r"malformed response .*frame of 352518912 bytes"),
        ((b"HTTP/1.1 400 Bad Request\r\n",), False, "malformed response"),
        ((b"\xff\xff\xff\xff",), False, "frame of -1 bytes"),
        (((FRAME_BYTES_MAX + 1).to_bytes(4, "big"),), False, "malformed response"),
        ((b"\0\0\0\4\0\0\0\x09",), False, "malformed response"),
    ],
)
def test_another_server_is_an_error_in_time(answers: tuple[bytes, ...], keeps_open: bool, why: str) -> None:
    """It hangs, hangs up, is a TLS or a web server; memory is not reserved for what a length claims."""
    with listener(*answers, keeps_open=keeps_open) as address, pytest.raises(LogUnreachableError, match=why):
        Connection(address, QUICK, FAILURE)


def test_a_plain_listener_is_no_tls() -> None:
    """And names the settings."""
    with (
        listener(b"\0\0\0\4\0\0\0\1") as address,
        pytest.raises(LogRefusedError, match=r"TLS: .*aclog\.kafka\.security\.protocol"),
    ):
        Connection(address, protocol_settings({"security.protocol": "SSL"}), FAILURE)


@pytest.mark.parametrize(
    ("client", "why"),
    [
        ({"isolation.level": "x"}, r"aclog\.kafka\.isolation\.level is not supported"),
        ({"security.protocol": "tls"}, "plaintext, ssl, sasl_plaintext, sasl_ssl"),
        ({"security.protocol": "sasl_ssl"}, r"sasl\.mechanisms is required: PLAIN"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI"}, "PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, r"sasl\.username is required"),
        ({"socket.timeout.ms": "0"}, "from 1 to"),
    ],
)
def test_an_invalid_client_setting_names_its_key(client: dict[str, str], why: str) -> None:
    """It is refused before any request."""
    with pytest.raises(LogError, match=why):
        protocol_settings(client)


def test_scram_is_that_of_its_rfc() -> None:
    """The exchange in RFC 7677, section 3; a server that does not know the password is not believed."""
    nonce = "rOprNGfwEbeRWgbNEkqO"
    first_answer = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    exchange = sasl.exchange("SCRAM-SHA-256", "user", "pencil", nonce)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(first_answer) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    exchange = sasl.exchange("SCRAM-SHA-256", "user", "pencil", nonce)
    next(exchange)
    exchange.send(first_answer)
    with pytest.raises(sasl.SaslError, match="does not prove that it knows"):
        exchange.send(b"v=AAAA")


@given(first=st.binary(max_size=80), final=st.binary(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_answer_to_scram_is_refused(first: bytes, final: bytes) -> None:
    """Without a crash, and without long work."""
    exchange = sasl.exchange("SCRAM-SHA-512", "user", "pencil", "n")
    next(exchange)
    with pytest.raises(sasl.SaslError):  # noqa: PT012 - at either
        exchange.send(first)
        exchange.send(final)
