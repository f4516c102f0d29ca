"""The five compressions: what Kafka's Java client wrote is read, damage and bombs are refused."""

from __future__ import annotations

import random

import pytest

from records import compression
from records.compression import Compression, compress, decompress
from records.errors import DecodeError

KINDS = [kind for kind in Compression if kind is not Compression.NONE]
TEXT = b"It is the cause, my soul. " * 8
LARGE = random.Random(1).randbytes(100_000) + bytes(100_000) + b"ab" * 50_000

#: TEXT as Kafka 4.3.1 compresses it (org.apache.kafka.common.compress.Compression, default levels).
BY_KAFKA = {
    Compression.GZIP: (
        "1f8b08000000000000fff32c51c82c5628c94855484e2c2d4ed551c8ad5428ce2fcdd153f01c923200532903afd0000000"
    ),
    Compression.SNAPPY: (
        "82534e4150505900000000010000000100000026d001644974206973207468652063617573652c20"
        "6d7920736f756c2e20fe1a00fe1a00d61a00"
    ),
    Compression.LZ4: (
        "04224d1860408225000000ff0b4974206973207468652063617573652c206d7920736f756c2e201a"
        "009e506f756c2e2000000000"
    ),
    Compression.ZSTD: (
        "28b52ffd00580c0100d04974206973207468652063617573652c206d7920736f756c2e200100ce9a9a63010000"
    ),
}


@pytest.mark.parametrize("kind", Compression)
@pytest.mark.parametrize("data", [b"", b"a", TEXT, LARGE], ids=["empty", "one", "text", "large"])
def test_roundtrip(kind: Compression, data: bytes) -> None:
    assert decompress(kind, compress(kind, data)) == data


@pytest.mark.parametrize("kind", KINDS)
def test_equal_data_makes_equal_bytes(kind: Compression) -> None:
    """No time of day in the gzip header, for one."""
    assert compress(kind, LARGE) == compress(kind, LARGE)
    assert len(compress(kind, TEXT)) < len(TEXT)


@pytest.mark.parametrize("kind", KINDS)
def test_what_kafka_compressed_is_read(kind: Compression) -> None:
    assert decompress(kind, bytes.fromhex(BY_KAFKA[kind])) == TEXT


def test_what_we_write_has_kafkas_framing() -> None:
    """Kafka's Java client reads no other; tests/integration compares both."""
    assert compress(Compression.LZ4, TEXT)[:7].hex() == BY_KAFKA[Compression.LZ4][:14]
    assert compress(Compression.SNAPPY, TEXT)[:16].hex() == BY_KAFKA[Compression.SNAPPY][:32]


def test_bare_snappy_is_read() -> None:
    """librdkafka writes no framing; snappy-java reads both."""
    framed = bytes.fromhex(BY_KAFKA[Compression.SNAPPY])
    assert decompress(Compression.SNAPPY, framed[20:]) == TEXT


def test_several_frames_are_one_text() -> None:
    """A writer may flush a frame or gzip member early."""
    for kind in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        assert decompress(kind, compress(kind, TEXT) + compress(kind, b"!")) == TEXT + b"!"


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused(kind: Compression) -> None:
    """Not one byte more than allowed, however small the input is."""
    bomb = compress(kind, bytes(3_000_000))
    assert len(decompress(kind, bomb, max_bytes=3_000_000)) == 3_000_000
    with pytest.raises(DecodeError, match="would have more than 2999999 bytes"):
        decompress(kind, bomb, max_bytes=2_999_999)


@pytest.mark.parametrize("kind", KINDS)
def test_output_grows_as_far_as_it_must(kind: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first guess is only that."""
    monkeypatch.setattr(compression, "_FIRST_GUESS_BYTES", 1)
    assert decompress(kind, compress(kind, bytes(50_000))) == bytes(50_000)


@pytest.mark.parametrize("kind", KINDS)
def test_every_cut_is_an_error_or_shorter(kind: Compression) -> None:
    """A cut between two snappy blocks cannot be seen here: the number of records tells (records.batch)."""
    data = compress(kind, TEXT)
    for size in range(len(data)):
        try:
            assert len(decompress(kind, data[:size])) < len(TEXT)
        except DecodeError:
            continue
        assert kind is Compression.SNAPPY


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_gives_bytes_or_a_decode_error(kind: Compression) -> None:
    data = compress(kind, TEXT)
    refused = 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            decompress(kind, bytes(flipped), max_bytes=1_000_000)
        except DecodeError:
            refused += 1
    assert refused


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"", b"\x00", b"neither of them, whatever it is", bytes(64)])
def test_uncompressed_data_is_refused(kind: Compression, data: bytes) -> None:
    if kind is Compression.SNAPPY and data == b"\x00":
        assert decompress(kind, data) == b""
        return
    with pytest.raises(DecodeError):
        decompress(kind, data)
