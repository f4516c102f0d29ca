"""The first bytes of Avro single-object values, as constants: fastavro, which computes them, is optional."""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"\xc3\x01"
#: Bytes before the body.
HEADER_BYTES: Final = 10

#: The headers of values with the current schemas (records/schemas).
ACL_HEADER: Final = bytes.fromhex("c301827f6315ab36a862")
REMOVE_HEADER: Final = bytes.fromhex("c301d2aeec4aa6a551df")
