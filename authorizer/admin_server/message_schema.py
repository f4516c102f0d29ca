"""Schemas of requests that kio does not have, made from Kafka's message definitions in ``messages/``.

The classes have the form of kio's generated ones, so that ``values_encoder`` and ``entity_reader`` take them.
Source: the files of clients/src/main/resources/common/message, and their README for the meaning of fields.
"""

from __future__ import annotations

import json
import re
from dataclasses import field, make_dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64

#: Type and kio's name of it, by the name in a definition.
_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "int16": (i16, "int16"),
    "int32": (i32, "int32"),
    "int64": (i64, "int64"),
    "bool": (bool, "bool"),
    "string": (str, "string"),
}
#: Fields that kio gives types of their own, and their names there.
_SPECIAL: Final[dict[str, tuple[str, Any, str]]] = {
    "ErrorCode": ("error_code", ErrorCode, "error_code"),
    "ThrottleTimeMs": ("throttle_time", i32Timedelta, "timedelta_i32"),
}
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORD_START: Final = re.compile(r"(?<!^)(?=[A-Z])")


class _Message(NamedTuple):
    """What all entities of one message have in common."""

    version: int
    api_key: int
    is_flexible: bool
    header: type[Any]


@cache
def message_schema(name: str, version: int) -> Any:
    """Return the class of a message.

    Raises:
        LookupError: there is no definition, or the version is not valid.
    """
    definition = _definition(name)
    if not _is_in(definition["validVersions"], version):
        raise LookupError(f"{name} has no version {version}")
    is_request = definition["type"] == "request"
    message = _Message(
        version,
        definition["apiKey"],
        _is_in(definition["flexibleVersions"], version),
        RequestHeader if is_request else ResponseHeader,
    )
    kind = EntityType.request if is_request else EntityType.response
    return _entity(definition, message, kind)


def _definition(name: str) -> dict[str, Any]:
    file = files(__package__) / "messages" / f"{name}.json"
    if not file.is_file():
        raise LookupError(f"there is no definition of {name}")
    found: dict[str, Any] = json.loads(_COMMENT.sub("", file.read_text("utf-8")))
    return found


def _entity(definition: dict[str, Any], message: _Message, kind: EntityType) -> Any:
    declared = [each for each in definition["fields"] if _is_in(each["versions"], message.version)]
    namespace = {
        "__type__": kind,
        "__version__": i16(message.version),
        "__flexible__": message.is_flexible,
        "__api_key__": i16(message.api_key),
        "__header_schema__": message.header,
    }
    return make_dataclass(
        definition["type"].removeprefix("[]") if kind is EntityType.nested else definition["name"],
        [_field(each, message) for each in declared],
        namespace=namespace,
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _field(definition: dict[str, Any], message: _Message) -> tuple[str, Any, Any]:
    metadata: dict[str, Any] = {}
    options: dict[str, Any] = {}
    declared: str = definition["type"]
    name = _WORD_START.sub("_", definition["name"]).lower()
    if declared.startswith("[]"):
        element = _entity(definition, message, EntityType.nested)
        type_: Any = tuple.__class_getitem__((element, ...))
    elif definition["name"] in _SPECIAL:
        name, type_, metadata["kafka_type"] = _SPECIAL[definition["name"]]
    else:
        type_, metadata["kafka_type"] = _TYPES[declared]
        if "default" in definition:
            default = json.loads(str(definition["default"]).lower())
            options["default"] = default if default is None else type_(default)
    if _is_in(definition.get("nullableVersions", "none"), message.version):
        type_ = type_ | None
    if _is_in(definition.get("taggedVersions", "none"), message.version):
        metadata["tag"] = definition["tag"]
        if declared.startswith("[]"):
            options["default"] = ()
    return name, type_, field(metadata=metadata, **options)


def _is_in(versions: str, version: int) -> bool:
    """Whether a range of versions has one: ``3+``, ``0-5``, ``2`` or ``none``."""
    if versions == "none":
        return False
    first, dash, last = versions.rstrip("+").partition("-")
    if versions.endswith("+"):
        return version >= int(first)
    return int(first) <= version <= int(last if dash else first)
