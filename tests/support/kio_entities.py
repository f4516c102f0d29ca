"""Entities of kio's schemas for Hypothesis, and kio's encoding of them."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

_Strategies = Mapping[str, st.SearchStrategy[Any]]

_INTEGERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_LONGEST_MS: Final = 1 << 45  # 1,100 years
#: By kio's names of types, which are finer than Python's.
VALUES: Final[_Strategies] = {
    "bool": st.booleans(),
    "uint16": st.integers(0, 0xFFFF),
    "float64": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.uuids() | st.none(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": st.integers(-(1 << 31), (1 << 31) - 1).map(lambda ms: dt.timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-_LONGEST_MS, _LONGEST_MS).map(lambda ms: dt.timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, _LONGEST_MS).map(
        lambda ms: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)
    ),
    **{name: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in _INTEGERS.items()},
}


def instances(entity: type[Any], values: _Strategies = VALUES) -> st.SearchStrategy[Any]:
    return st.builds(
        entity,
        **{
            field.name: _values_of(field.type, field.metadata.get("kafka_type"), values)
            for field in fields(entity)
        },
    )


def _values_of(type_: Any, kind: str | None, values: _Strategies) -> st.SearchStrategy[Any]:
    if get_origin(type_) in (Union, UnionType):
        (only,) = (each for each in get_args(type_) if each is not NoneType)
        optional = _values_of(only, kind, values)
        return optional if kind == "uuid" else st.none() | optional
    if get_origin(type_) is tuple:
        return st.lists(_values_of(get_args(type_)[0], kind, values), max_size=3).map(tuple)
    return instances(type_, values) if kind is None else values[kind]


def written(entity: Any) -> bytes:
    """As kio encodes it."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()
