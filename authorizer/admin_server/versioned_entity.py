"""Builds an entity of one version of kio's schemas from values by the names of the newest version.

Values that a version does not have are left out, as Kafka's generated classes do with ignorable fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

#: Values of an entity by field name; a nested entity is a mapping, too.
Values = Mapping[str, Any]

_Build = Callable[[Any], Any]


def entity_builder(entity: Any) -> _Build:
    """Return the function that builds an entity; a missing value without a default is a TypeError."""
    return _compiled(entity)


def _compile(entity: Any) -> _Build:
    nested = {field.name: each for field in fields(entity) if (each := _nested(field.type)) is not None}
    names = [field.name for field in fields(entity)]

    def build(values: Values) -> Any:
        of_version = {name: values[name] for name in names if name in values}
        for name, build_nested in nested.items():
            if of_version.get(name) is not None:
                of_version[name] = build_nested(of_version[name])
        return entity(**of_version)

    return build


_compiled: Callable[[Any], _Build] = cache(_compile)


def _nested(type_: Any) -> _Build | None:
    """The function that builds a field's value; None for values that are used as they are."""
    if get_origin(type_) in (Union, UnionType):
        (type_,) = [each for each in get_args(type_) if each is not NoneType]
    if get_origin(type_) is tuple:
        element = _nested(get_args(type_)[0])
        return tuple if element is None else lambda values: tuple(map(element, values))
    return entity_builder(type_) if is_dataclass(type_) else None
