"""Compression of a batch's records: none, gzip, snappy, LZ4 or zstd.

Source: org.apache.kafka.common.compress. The output is what Kafka's Java clients read: gzip, zstd and LZ4 as
one frame, snappy in the framing of snappy-java (xerial). The input may be any LZ4 frame, and snappy with or
without frames. KRaft never compresses, but other programs that write a log may.

The decompressed size is bounded, as a few bytes can decompress to gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

import cramjam

from records.errors import DecodeError

#: Maximum decompressed bytes of a batch. KRaft writes at most 8 MiB (KafkaRaftClient), a topic 1 MiB by
#: default; 10,000 ACLs, the maximum of one operation, are about 1 MiB.
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024

# LZ4 frame: magic, version 1 with independent blocks (Kafka refuses linked ones), 64 KiB blocks, the checksum
# of these two bytes. Blocks with their sizes follow; a zero ends the frame (Lz4BlockOutputStream).
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_LZ4_END: Final = bytes(4)

# snappy-java: magic, version 1, readable since version 1. Blocks with their sizes follow.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + bytes.fromhex("00000001 00000001")
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

# cramjam's message when the output is full; any other means invalid input.
_OUTPUT_FULL: Final = "failed to write whole buffer"
_FIRST_GUESS_BYTES: Final = 64 * 1024


class Compression(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, data: bytes) -> bytes:
    """Compress the records of a batch."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data))
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            return _compress_lz4(data)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def decompress(compression: Compression, data: bytes, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Decompress the records of a batch.

    Raises:
        DecodeError: damaged, truncated, followed by other bytes, or larger than ``max_bytes``.
    """
    try:
        match compression:
            case Compression.NONE:
                return data
            case Compression.GZIP:
                return _decompress_stream(cramjam.gzip, data, max_bytes)
            case Compression.SNAPPY:
                return _decompress_snappy(data, max_bytes)
            case Compression.LZ4:
                return _decompress_stream(cramjam.lz4, data, max_bytes)
            case Compression.ZSTD:
                return _decompress_stream(cramjam.zstd, data, max_bytes)
    except cramjam.DecompressionError as error:
        raise DecodeError(f"cannot decompress {compression.name.lower()}: {error}") from error


def _decompress_stream(codec: Any, data: bytes, max_bytes: int) -> bytes:
    """Decompress into a buffer that grows up to ``max_bytes``, as cramjam takes a size but no limit."""
    size = min(max(_FIRST_GUESS_BYTES, 4 * len(data)), max_bytes)
    while True:
        output = bytearray(size)
        try:
            written = codec.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise
        else:
            return bytes(memoryview(output)[:written])
        if size >= max_bytes:
            raise _too_large(max_bytes)
        size = min(4 * size, max_bytes)


def _too_large(max_bytes: int) -> DecodeError:
    return DecodeError(f"the decompressed records would have more than {max_bytes} bytes")


def _compress_lz4(data: bytes) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        # A block that does not get smaller is stored uncompressed.
        size, block = (len(block), block) if len(block) < len(plain) else (len(plain) | _LZ4_STORED, plain)
        out += size.to_bytes(4, "little") + block
    return bytes(out + _LZ4_END)


def _compress_xerial(data: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    out = bytearray()
    for block in _xerial_blocks(data) if data.startswith(_XERIAL_MAGIC) else [data]:
        # snappy trusts the size at the start of a block, so check it first.
        if len(out) + cramjam.snappy.decompress_raw_len(block) > max_bytes:
            raise _too_large(max_bytes)
        out += cramjam.snappy.decompress_raw(block)
    return bytes(out)


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    if len(data) < len(_XERIAL_HEADER):
        raise DecodeError("the snappy header is cut short")
    at = len(_XERIAL_HEADER)
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : at + 4 + size]
        if len(block) < size or at + 4 > len(data):
            raise DecodeError("a snappy block is cut short")
        yield block
        at += 4 + size
