"""Within: the values that a map of names has at a name, or anywhere among the names with a prefix."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.name_map import NameMap
    from authorizer.analysis.name_space import Key

Value = TypeVar("Value")


class Within(Generic[Value]):
    """Of one map."""

    __slots__ = ("_default", "_keys", "_prefixes", "_values")

    def __init__(self, names: NameMap[Value]) -> None:
        self._default = names.default
        self._keys = names.keys
        self._values = [value for _, _, value in names.places]
        self._prefixes = {name: value for name, is_name, value in names.places if not is_name}

    def values(self, key: Key) -> Iterator[Value]:
        """The value at a name; or that of names with a prefix, and those of all places below it."""
        text, is_name = key
        at = bisect_left(self._keys, key)
        is_place = at < len(self._keys) and self._keys[at] == key
        yield self._values[at] if is_place else self._around(text)
        if not is_name:
            for below in range(at + is_place, len(self._keys)):
                if not self._keys[below][0].startswith(text):
                    return
                yield self._values[below]

    def _around(self, text: str) -> Value:
        for length in range(len(text), 0, -1):
            if text[:length] in self._prefixes:
                return self._prefixes[text[:length]]
        return self._default
