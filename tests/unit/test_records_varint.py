"""Varints, against values that Kafka's ByteUtilsTest has."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from records.errors import DecodeError, TruncatedRecordError
from records.varint import (
    append_unsigned_varint,
    append_varint,
    read_unsigned_varint,
    read_varint,
    read_varlong,
)

Read = Callable[[bytes, int], tuple[int, int]]

UNSIGNED = {
    0: "00",
    1: "01",
    127: "7f",
    128: "8001",
    8191: "ff3f",
    16383: "ff7f",
    16384: "808001",
    2**31 - 1: "ffffffff07",
    2**32 - 1: "ffffffff0f",
}
SIGNED = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
LONG = SIGNED | {
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}


@pytest.mark.parametrize(("value", "encoded"), UNSIGNED.items())
def test_unsigned_varints_are_as_kafka_writes_them(value: int, encoded: str) -> None:
    out = bytearray()
    append_unsigned_varint(out, value)
    assert out.hex() == encoded
    assert read_unsigned_varint(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize(("value", "encoded"), LONG.items())
def test_signed_varints_are_as_kafka_writes_them(value: int, encoded: str) -> None:
    """Zigzag; varint and varlong differ only in how far they reach."""
    out = bytearray()
    append_varint(out, value)
    assert out.hex() == encoded
    assert read_varlong(bytes(out), 0) == (value, len(out))
    assert read_varlong(b"\x80" + bytes(out) + b"\x80", 1) == (value, len(out) + 1)
    if value in SIGNED:
        assert read_varint(bytes(out), 0) == (value, len(out))
        assert read_varint(bytes(out) + b"\x80", 0) == (value, len(out))


@pytest.mark.parametrize("read", [read_unsigned_varint, read_varint, read_varlong])
@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_input_that_ends_inside_is_truncated(read: Read, data: bytes) -> None:
    """The position is where the number began."""
    with pytest.raises(TruncatedRecordError) as caught:
        read(b"\x01\x01" + data, 2)
    assert caught.value.position == 2


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_unsigned_varint, b"\xff\xff\xff\xff\x1f"),  # bit 33
        (read_unsigned_varint, b"\x80\x80\x80\x80\x80\x00"),  # a sixth byte
        (read_varint, b"\xff\xff\xff\xff\x1f"),
        (read_varlong, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),  # bit 65
        (read_varlong, b"\x80" * 10 + b"\x00"),
    ],
)
def test_numbers_beyond_their_type_are_errors(read: Read, data: bytes) -> None:
    """Kafka drops the bits that are too many; that would read other numbers than were written."""
    with pytest.raises(DecodeError, match="too long") as caught:
        read(data, 0)
    assert not isinstance(caught.value, TruncatedRecordError)


def test_more_bytes_than_needed_are_read() -> None:
    """As Kafka does."""
    assert read_unsigned_varint(b"\x81\x80\x00", 0) == (1, 3)
    assert read_varint(b"\x82\x80\x80\x80\x00", 0) == (1, 5)
    assert read_varint(b"\x82\x00", 0) == (1, 2)


@given(st.binary(max_size=12), st.integers(0, 12))
@example(b"\x80\x7f", 0)
def test_any_bytes_give_a_number_or_a_decode_error(data: bytes, at: int) -> None:
    for read in (read_unsigned_varint, read_varint, read_varlong):
        try:
            _, after = read(data, at)
        except DecodeError:
            continue
        assert at < after <= len(data)
