"""Kafka's requests and responses, read from bytes by kio's schemas.

kio's own reader is not used: it reserves memory for as many elements as an array claims to have, and it
rejects a tagged field that its schema does not name, which Kafka allows (KIP-482). Here nothing is reserved
before it is read, and such fields are skipped.

Values have kio's types, with two exceptions: an error code that kio does not know remains a number, and a
tagged entity that is absent and has no default is None.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from operator import methodcaller
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin

from kio.schema.errors import ErrorCode

from records.errors import DecodeError, TruncatedRecordError
from records.flexible import MessageReader

_E = TypeVar("_E")
_Read = Callable[[MessageReader], Any]

_ERRORS: Final[Mapping[int, ErrorCode]] = {code.value: code for code in ErrorCode}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NO_UUID: Final = uuid.UUID(int=0)


def entity_reader(entity: type[_E]) -> Callable[[MessageReader], _E]:
    """Return the function that reads an entity of kio's schemas.

    The function raises DecodeError for bytes that are no such entity. It reads no further than the entity.
    """
    return cast("Callable[[MessageReader], _E]", _compiled(entity))


def _compile(entity: Any) -> _Read:
    is_flexible = entity.__flexible__
    plain: list[tuple[str, _Read]] = []
    tagged: dict[int, tuple[str, _Read]] = {}
    defaults: dict[str, Any] = {}
    for field in fields(entity):
        read = _field_reader(field, is_flexible=is_flexible)
        tag = field.metadata.get("tag")
        if tag is None:
            plain.append((field.name, read))
        else:
            tagged[tag] = field.name, read
            if field.default is MISSING:
                defaults[field.name] = _IMPLICIT.get(field.metadata.get("kafka_type", ""))

    def read_entity(reader: MessageReader) -> Any:
        values = {name: read(reader) for name, read in plain}
        if tagged:
            values.update(defaults)
            for tag, content in reader.tagged_fields():
                if tag in tagged:
                    name, read = tagged[tag]
                    values[name] = read(content)
        elif is_flexible:
            reader.skip_tagged_fields()
        return entity(**values)

    return read_entity


_compiled: Callable[[Any], _Read] = cache(_compile)


def _field_reader(field: Field[Any], *, is_flexible: bool) -> _Read:
    type_, is_nullable = without_none(field.type)
    if get_origin(type_) is not tuple:
        return _value_reader(type_, field, is_nullable=is_nullable, is_flexible=is_flexible)
    element, is_element_nullable = without_none(get_args(type_)[0])
    read = _value_reader(element, field, is_nullable=is_element_nullable, is_flexible=is_flexible)
    name, size_of = field.name, _compact_size if is_flexible else partial(_legacy_size, 4)

    def read_array(reader: MessageReader) -> Any:
        position, count = reader.position, size_of(reader)
        if count < 0:
            if is_nullable:
                return None
            raise DecodeError(f"{name} must not be null", position=position)
        left = len(reader.data) - reader.at
        if count > left:  # also where a later schema has elements without bytes
            raise TruncatedRecordError(f"{name} claims {count} elements, {left} are left", position=position)
        return tuple([read(reader) for _ in range(count)])

    return read_array


def without_none(type_: Any) -> tuple[Any, bool]:
    """(the type, whether None is allowed beside it)."""
    if get_origin(type_) not in (Union, UnionType):
        return type_, False
    kinds = [each for each in get_args(type_) if each is not NoneType]
    return kinds[0], len(kinds) < len(get_args(type_))


def _value_reader(type_: Any, field: Field[Any], *, is_nullable: bool, is_flexible: bool) -> _Read:
    name = field.name
    if is_dataclass(type_):
        read_entity = _compiled(type_)
        return partial(_nullable_entity, read_entity, name) if is_nullable else read_entity
    kind = field.metadata["kafka_type"]
    if kind == "string" and is_flexible:
        return methodcaller("nullable_string" if is_nullable else "string", name)
    if kind in _INTEGER_BYTES:
        return methodcaller("signed", _INTEGER_BYTES[kind], name)
    if kind in _SIZED:
        legacy_bytes, read = _SIZED[kind]
        size_of = _compact_size if is_flexible else partial(_legacy_size, legacy_bytes)
        return partial(read, size_of, name, is_nullable or kind == "records")
    return partial(_FIXED[kind], name)


# --- values ---------------------------------------------------------------------------------------------


def _nullable_entity(read: _Read, name: str, reader: MessageReader) -> Any:
    return None if reader.signed(1, name) < 0 else read(reader)


def _compact_size(reader: MessageReader) -> int:
    """Size of a text or an array of a flexible message; -1: null."""
    return reader.unsigned_varint() - 1


def _legacy_size(size_bytes: int, reader: MessageReader) -> int:
    return reader.signed(size_bytes, "size")


def _sized(
    size_of: Callable[[MessageReader], int], name: str, is_nullable: bool, reader: MessageReader
) -> bytes | None:
    position, size = reader.position, size_of(reader)
    if size >= 0:
        return reader.take(size, name)
    if is_nullable:
        return None
    raise DecodeError(f"{name} must not be null", position=position)


def _text(
    size_of: Callable[[MessageReader], int], name: str, is_nullable: bool, reader: MessageReader
) -> str | None:
    encoded = _sized(size_of, name, is_nullable, reader)
    try:
        return None if encoded is None else encoded.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"{name} is not UTF-8", position=reader.position) from error


def _boolean(name: str, reader: MessageReader) -> bool:
    return reader.signed(1, name) != 0


def error_code(code: int) -> ErrorCode | int:
    """The error with a code; the code itself if kio does not know it."""
    return _ERRORS.get(code, code)


def _error_code(name: str, reader: MessageReader) -> ErrorCode | int:
    return error_code(reader.signed(2, name))


def _uint16(name: str, reader: MessageReader) -> int:
    return reader.uint16(name)


def _uuid(name: str, reader: MessageReader) -> uuid.UUID | None:
    found = uuid.UUID(bytes=reader.take(16, name))
    return None if found == _NO_UUID else found


def _duration(size: int, name: str, reader: MessageReader) -> dt.timedelta:
    position, milliseconds = reader.position, reader.signed(size, name)
    try:
        return dt.timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise DecodeError(f"{name} is too long: {milliseconds} ms", position=position) from error


def _time(name: str, reader: MessageReader) -> dt.datetime | None:
    position, milliseconds = reader.position, reader.signed(8, name)
    if milliseconds < 0:
        return None
    try:
        return _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise DecodeError(f"{name} is too late: {milliseconds} ms", position=position) from error


def _float(name: str, reader: MessageReader) -> float:
    value: float = struct.unpack(">d", reader.take(8, name))[0]
    return value


_INTEGER_BYTES: Final[Mapping[str, int]] = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}
#: By kio's name of a type: readers that get the field's name and the reader.
_FIXED: Final[Mapping[str, Callable[[str, MessageReader], Any]]] = {
    "bool": _boolean,
    "uint16": _uint16,
    "float64": _float,
    "uuid": _uuid,
    "error_code": _error_code,
    "timedelta_i32": partial(_duration, 4),
    "timedelta_i64": partial(_duration, 8),
    "datetime_i64": _time,
}
#: Types with a size before them: bytes of that size in messages that are not flexible, and the reader.
_SIZED: Final[Mapping[str, tuple[int, Callable[..., Any]]]] = {
    "string": (2, _text),
    "bytes": (4, _sized),
    "records": (4, _sized),
}
#: Values of absent tagged fields for which kio's schema has no default.
_IMPLICIT: Final[Mapping[str, Any]] = {"bool": False, "string": "", "bytes": b""}
