"""Variable-length integers: seven bits a byte, lowest first, the high bit set on all bytes but the last.

Source: org.apache.kafka.common.utils.ByteUtils. Unsigned ones are lengths and codes of flexible messages
(KIP-482). Signed ones are zigzag-encoded and occur in the records of a batch. Like Kafka, the readers accept
more bytes than a number needs, but not more than its type can need.

Readers take a position and return (value, position after it).
"""

from __future__ import annotations

from typing import Final

from records.errors import DecodeError, TruncatedRecordError

_VARINT_SHIFT_MAX: Final = 28  # five bytes hold 32 bits
_VARLONG_SHIFT_MAX: Final = 63  # ten bytes hold 64 bits
_UINT32_MAX: Final = 0xFFFF_FFFF
_UINT64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF


def read_unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number below 2**32.

    Raises:
        TruncatedRecordError: ``data`` ends inside it.
        DecodeError: it has more bytes or bits than 32 bits need.
    """
    return _read(data, at, _VARINT_SHIFT_MAX, _UINT32_MAX)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A signed 32-bit number; raises as `read_unsigned_varint`."""
    if at + 1 < len(data):  # fast path: nearly always one byte or two
        raw = data[at]
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        if data[at + 1] < 0x80:
            raw += (data[at + 1] - 1) << 7
            return (raw >> 1) ^ -(raw & 1), at + 2
    raw, at = _read(data, at, _VARINT_SHIFT_MAX, _UINT32_MAX)
    return (raw >> 1) ^ -(raw & 1), at


def read_varlong(data: bytes, at: int) -> tuple[int, int]:
    """A signed 64-bit number; raises as `read_unsigned_varint`."""
    raw, at = _read(data, at, _VARLONG_SHIFT_MAX, _UINT64_MAX)
    return (raw >> 1) ^ -(raw & 1), at


def _read(data: bytes, at: int, shift_max: int, value_max: int) -> tuple[int, int]:
    value, shift, start = 0, 0, at
    while shift <= shift_max:
        if at >= len(data):
            # An earlier size may point beyond the end.
            raise TruncatedRecordError("the input ends inside a varint", position=min(start, len(data)))
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > value_max:
                break
            return value, at
        shift += 7
    raise DecodeError("a varint is too long", position=start)


def append_unsigned_varint(out: bytearray, value: int) -> None:
    """Append ``value``, which must not be negative."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_varint(out: bytearray, value: int) -> None:
    """Append a zigzag-encoded number of 32 or 64 bits."""
    append_unsigned_varint(out, value << 1 if value >= 0 else ~(value << 1))
