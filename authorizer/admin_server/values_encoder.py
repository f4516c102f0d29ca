"""Encodes a message of one version of kio's schemas from values by the names of the newest version.

Values that a version does not have are left out, as Kafka's generated classes do with ignorable fields.
The bytes are those of kio's writer, which needs an object for each entity and several times as long: an
answer to Metadata may have 10,000 topics.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Final, NamedTuple, get_args, get_origin

from records.ids import UUID_BYTES
from records.log.protocol.entity_reader import without_none
from records.varint import append_unsigned_varint

#: Values of an entity by field name: a nested entity is a mapping; an id has 16 bytes, None is the zero id.
Values = Mapping[str, Any]

_Append = Callable[[bytearray, Any], None]

_ONE_BYTE_MAX: Final = 0x7F
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_NO_ID: Final = bytes(UUID_BYTES)


def values_encoder(entity: Any) -> Callable[[bytearray, Values], None]:
    """Return the function that appends an entity.

    It raises KeyError for a missing value without a default, and other exceptions for values that the type
    of their field cannot hold.
    """
    return _compiled(entity)


class Sizes(NamedTuple):
    """Encodings of the size before a text and before an array; -1 is null."""

    text: Callable[[int], bytes]
    array: Callable[[int], bytes]

    @classmethod
    def of(cls, *, is_flexible: bool) -> Sizes:
        """Those of a flexible message (KIP-482), or of one before."""
        if is_flexible:
            return cls(_compact_size, _compact_size)
        return cls(
            lambda size: size.to_bytes(2, "big", signed=True),
            lambda size: size.to_bytes(4, "big", signed=True),
        )


def _compact_size(size: int) -> bytes:
    if size < _ONE_BYTE_MAX:
        return bytes((size + 1,))
    out = bytearray()
    append_unsigned_varint(out, size + 1)
    return bytes(out)


def _compile(entity: Any) -> _Append:
    sizes = Sizes.of(is_flexible=entity.__flexible__)
    plain: list[tuple[str, Any, _Append]] = []
    tagged: list[tuple[int, str, Any, _Append]] = []
    for field in fields(entity):
        append, tag = _field(field, sizes), field.metadata.get("tag")
        if tag is None:
            plain.append((field.name, field.default, append))
        else:
            tagged.append((tag, field.name, field.default, append))
    tagged.sort()
    is_flexible = entity.__flexible__

    def append_entity(out: bytearray, values: Values) -> None:
        for name, default, append in plain:
            append(out, values[name] if default is MISSING else values.get(name, default))
        if tagged:
            _append_tagged(out, values, tagged)
        elif is_flexible:
            out.append(0)

    return append_entity


_compiled: Callable[[Any], _Append] = cache(_compile)


def _append_tagged(out: bytearray, values: Values, tagged: list[tuple[int, str, Any, _Append]]) -> None:
    """Append the tagged fields that do not have their default."""
    present = [
        (tag, value, append)
        for tag, name, default, append in tagged
        if (value := values.get(name, default)) != default and value != []
    ]
    append_unsigned_varint(out, len(present))
    for tag, value, append in present:
        content = bytearray()
        append(content, value)
        append_unsigned_varint(out, tag)
        append_unsigned_varint(out, len(content))
        out += content


def _field(field: Field[Any], sizes: Sizes) -> _Append:
    type_, is_nullable = without_none(field.type)
    is_array = get_origin(type_) is tuple
    if is_array:
        type_, _ = without_none(get_args(type_)[0])
    kind = field.metadata.get("kafka_type")
    if is_dataclass(type_):
        append, null = _compiled(type_), b"\xff"
        if is_nullable and not is_array:
            append = _after(b"\1", append)
    elif kind in _SIZED:
        append, null = _SIZED[kind](sizes)
    else:
        append, null = _FIXED[kind], b""
    if is_array:
        append, null = _array(append, sizes.array), sizes.array(-1)
    # An id has no null but the zero id.
    return _nullable(append, null) if is_nullable and null else append


# --- values ---------------------------------------------------------------------------------------------


def _nullable(append: _Append, null: bytes) -> _Append:
    def append_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.extend(null)
        else:
            append(out, value)

    return append_nullable


def _after(prefix: bytes, append: _Append) -> _Append:
    def append_after(out: bytearray, value: Any) -> None:
        out.extend(prefix)
        append(out, value)

    return append_after


def _array(append: _Append, size_of: Callable[[int], bytes]) -> _Append:
    def append_array(out: bytearray, values: Any) -> None:
        out.extend(size_of(len(values)))
        for value in values:
            append(out, value)

    return append_array


def _text(sizes: Sizes) -> tuple[_Append, bytes]:
    size_of = sizes.text

    def append_text(out: bytearray, text: str) -> None:
        encoded = text.encode()
        out.extend(size_of(len(encoded)))
        out.extend(encoded)

    return append_text, size_of(-1)


def _bytes(sizes: Sizes) -> tuple[_Append, bytes]:
    size_of = sizes.array

    def append_bytes(out: bytearray, value: bytes) -> None:
        out.extend(size_of(len(value)))
        out.extend(value)

    return append_bytes, size_of(-1)


def _packed(code: str) -> _Append:
    pack = struct.Struct(">" + code).pack
    return lambda out, value: out.extend(pack(value))


def _id(out: bytearray, value: bytes | None) -> None:
    out.extend(_NO_ID if value is None else value)


def _milliseconds(code: str) -> _Append:
    pack = struct.Struct(">" + code).pack
    return lambda out, value: out.extend(pack(value // _MILLISECOND))


#: By kio's name of a type.
_FIXED: Final[Mapping[str | None, _Append]] = {
    "bool": _packed("?"),
    "int8": _packed("b"),
    "int16": _packed("h"),
    "int32": _packed("i"),
    "int64": _packed("q"),
    "float64": _packed("d"),
    "error_code": _packed("h"),
    "timedelta_i32": _milliseconds("i"),
    "timedelta_i64": _milliseconds("q"),
    "uuid": _id,
}
#: Types with a size before them.
_SIZED: Final[Mapping[str | None, Callable[[Sizes], tuple[_Append, bytes]]]] = {
    "string": _text,
    "bytes": _bytes,
}
