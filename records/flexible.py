"""Kafka's flexible messages (KIP-482): fixed-width big-endian numbers, compact strings, tagged fields.

The encoding of metadata records and control records. Source: ByteBufferAccessor in
org.apache.kafka.common.protocol, and the output of Kafka's message generator. Stricter than Kafka in one
point: text that is not UTF-8 is an error; Java inserts replacement characters (I7).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from records.errors import DecodeError, EncodeError, TruncatedRecordError
from records.ids import UUID_BYTES, Uuid
from records.varint import append_unsigned_varint, read_unsigned_varint

#: Kafka's limit for a string, in bytes of UTF-8.
STRING_BYTES_MAX: Final = 0x7FFF


class MessageReader:
    """Reads the fields of a message in order; every method moves `at`.

    Attributes:
        at: index of the next byte in ``data``.
        origin: position of ``data`` in the input, for errors.
    """

    __slots__ = ("at", "data", "origin")

    def __init__(self, data: bytes, origin: int = 0) -> None:
        self.data = data
        self.at = 0
        self.origin = origin

    @property
    def position(self) -> int:
        """Position of the next byte in the input, for errors."""
        return self.origin + self.at

    def take(self, size: int, what: str) -> bytes:
        left = len(self.data) - self.at
        if size > left:
            raise TruncatedRecordError(f"{what} needs {size} bytes, {left} are left", position=self.position)
        start = self.at
        self.at += size
        return self.data[start : self.at]

    def signed(self, size: int, what: str) -> int:
        """An int8, int16, int32 or int64."""
        return int.from_bytes(self.take(size, what), "big", signed=True)

    def uint16(self, what: str) -> int:
        return int.from_bytes(self.take(2, what), "big")

    def uuid(self, what: str) -> Uuid:
        return Uuid(self.take(UUID_BYTES, what))

    def unsigned_varint(self) -> int:
        if self.at < len(self.data) and (value := self.data[self.at]) < 0x80:  # nearly all are one byte
            self.at += 1
            return value
        try:
            value, self.at = read_unsigned_varint(self.data, self.at)
        except DecodeError as error:
            raise type(error)(error.reason, position=self.position) from None
        return value

    def string(self, what: str) -> str:
        """A string that must not be null."""
        start = self.at
        text = self.nullable_string(what)
        if text is None:
            raise DecodeError(f"{what} must not be null", position=self.origin + start)
        return text

    def nullable_string(self, what: str) -> str | None:
        start = self.at
        size = self.unsigned_varint() - 1
        if size < 0:
            return None
        if size > STRING_BYTES_MAX:
            position = self.origin + start
            raise DecodeError(f"{what} has {size} bytes, more than {STRING_BYTES_MAX}", position=position)
        encoded = self.take(size, what)
        try:
            return encoded.decode("utf-8")
        except UnicodeDecodeError as error:
            position = self.position - size + error.start
            raise DecodeError(f"{what} is not UTF-8", position=position) from error

    def array(self, what: str) -> range:
        """Indexes of an array's elements; the caller reads one element for each."""
        position = self.position
        count = self.unsigned_varint() - 1
        if count < 0:
            raise DecodeError(f"{what} must not be null", position=position)
        return range(count)

    def tagged_fields(self) -> Iterator[tuple[int, MessageReader]]:
        """(tag, reader) of each field; the caller may leave bytes of a field unread."""
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            size = self.unsigned_varint()
            position = self.position
            yield tag, MessageReader(self.take(size, f"tagged field {tag}"), position)

    def skip_tagged_fields(self) -> None:
        """Skip all tagged fields: a later Kafka may add some within a version."""
        for _ in range(self.unsigned_varint()):
            tag, size = self.unsigned_varint(), self.unsigned_varint()
            self.take(size, f"tagged field {tag}")

    def finish(self) -> None:
        """Check that no bytes are left. Raises DecodeError: some are."""
        left = len(self.data) - self.at
        if left:
            raise DecodeError(f"{left} bytes are left over", position=self.position)


def append_signed(out: bytearray, value: int, size: int, what: str) -> None:
    """An int8, int16, int32 or int64. Raises EncodeError: ``value`` does not fit into ``size`` bytes."""
    try:
        out += value.to_bytes(size, "big", signed=True)
    except OverflowError as error:
        raise EncodeError(f"{what} {value} does not fit into {size} bytes") from error


def append_uuid(out: bytearray, value: bytes, what: str) -> None:
    """An id of 16 bytes; raises EncodeError for any other length."""
    if len(value) != UUID_BYTES:
        raise EncodeError(f"{what} has {len(value)} bytes, not {UUID_BYTES}")
    out += value


def append_string(out: bytearray, value: str, what: str) -> None:
    """A compact string. Raises EncodeError: too long, or it has a lone surrogate, which UTF-8 cannot hold."""
    try:
        encoded = value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EncodeError(f"{what} cannot be written as UTF-8: {error.reason}") from error
    if len(encoded) > STRING_BYTES_MAX:
        raise EncodeError(f"{what} has {len(encoded)} bytes, more than {STRING_BYTES_MAX}")
    append_unsigned_varint(out, len(encoded) + 1)
    out += encoded
