"""Whether a JSON text is a CloudEvent 1.0: the specification's rules (spec.md 2 and 3, json-format.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

_NAME = re.compile(r"[a-z0-9]{1,20}")
#: RFC 3339: with a zone, and a `T`.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
#: RFC 3986, section 4.1: what a reference is made of.
_REFERENCE = re.compile(r"([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
#: RFC 2045: a media type without a space.
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+(; ?[a-z0-9-]+=[^\s;]+)*")


def _is_time(value: str) -> bool:
    return bool(_TIME.fullmatch(value)) and datetime.fromisoformat(value).tzinfo is not None


def _is_reference(value: str) -> bool:
    urlsplit(value)
    return bool(_REFERENCE.fullmatch(value))


_RULES: dict[str, Callable[[str], bool]] = {
    "id": bool,
    "source": _is_reference,
    "specversion": "1.0".__eq__,
    "type": bool,
    "subject": bool,
    "time": _is_time,
    "datacontenttype": lambda value: bool(_MEDIA_TYPE.fullmatch(value)),
    "dataschema": lambda value: _is_reference(value) and bool(urlsplit(value).scheme),
}
_REQUIRED = {"id", "source", "specversion", "type"}


def cloud_event(text: str | bytes) -> dict[str, Any]:
    """The event; AssertionError names what is wrong with it."""
    event = json.loads(text, object_pairs_hook=_each_once)
    assert set(event) >= _REQUIRED, f"missing: {_REQUIRED - set(event)}"
    for name, value in event.items():
        if name in {"data", "data_base64"}:
            continue
        assert _NAME.fullmatch(name), f"no attribute's name: {name}"
        # Attributes are strings, booleans, or integers of 32 bits.
        assert isinstance(value, str | bool | int), f"{name}: {value!r}"
        if isinstance(value, int):
            assert -(2**31) <= value < 2**31, f"{name}: {value}"
        if name in _RULES:
            assert isinstance(value, str), f"{name}: {value!r}"
            assert _RULES[name](value), f"{name}: {value!r}"
    assert not {"data", "data_base64"} <= set(event)
    return event


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a name comes twice: {[name for name, _ in pairs]}"
    return dict(pairs)
