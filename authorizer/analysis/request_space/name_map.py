"""NameMap: a value for every name of a resource type, with as few entries as possible.

A map has a default, then entries with another value: a prefix (for all names that it covers) or a single
name. It is canonical: two maps are equal if and only if every name has the same value.

This needs care if a name space has few characters: a prefix has the value of most of its continuations by one
character. Usually few continuations have an entry. But 33 entries below one prefix are more than half of a
topic's 65 characters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from authorizer.engine.index.prefix_ranges import NO_PREFIX, enclosing_prefixes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from authorizer.analysis.request_space.name_space import Key, NameSpace

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NameMap(Generic[Value]):
    """See the module.

    Attributes:
        default: the value of names without an entry.
        entries: prefix or name, whether it is a single name, and its value; sorted.
    """

    default: Value
    entries: tuple[tuple[str, bool, Value], ...] = ()

    @classmethod
    def of(
        cls, default: Value, entries: Iterable[tuple[str, bool, Value]], space: NameSpace
    ) -> NameMap[Value]:
        """Create the map of sorted entries for names that can exist; the narrowest entry of a name counts."""
        default, found = _without_repeats(default, list(entries))
        if space.characters is not None and 2 * len(found) >= len(space.characters):
            default, found = _by_majority(default, found, space)
        return cls(default, tuple(found))

    def combined(
        self, other: NameMap[Any], combine: Callable[[Value, Any], Any], space: NameSpace
    ) -> NameMap[Any]:
        """Return the map of ``combine(value, other value)`` for each name."""
        default = combine(self.default, other.default)
        entries = ((name, is_name, combine(*both)) for name, is_name, both in overlay((self, other)))
        return NameMap.of(default, entries, space)

    @property
    def keys(self) -> list[Key]:
        return [(name, is_name) for name, is_name, _ in self.entries]

    def value_of(self, key: Key) -> Value:
        """Return the value of a name; or of the names with a prefix that no narrower entry covers."""
        value = self.default
        for name, is_name, entry_value in self.entries:
            if key == (name, is_name) or (not is_name and key[0].startswith(name)):
                value = entry_value
        return value


def overlay(maps: Sequence[NameMap[Any]]) -> Iterator[tuple[str, bool, tuple[Any, ...]]]:
    """Yield each key of any of the maps, sorted, with the value of every map.

    The first key is the empty prefix, with the default values.
    """
    tables = [{(name, is_name): value for name, is_name, value in each.entries} for each in maps]
    keys: set[Key] = {("", False)}
    for table in tables:
        keys |= table.keys()
    ordered = sorted(keys)
    values: list[tuple[Any, ...]] = []
    defaults = tuple(each.default for each in maps)
    for key, enclosing in zip(ordered, enclosing_prefixes(ordered), strict=True):
        outer = defaults if enclosing == NO_PREFIX else values[enclosing]
        values.append(tuple(table.get(key, value) for table, value in zip(tables, outer, strict=True)))
        yield *key, values[-1]


def _without_repeats(
    default: Value, entries: list[tuple[str, bool, Value]]
) -> tuple[Value, list[tuple[str, bool, Value]]]:
    """Drop entries with the value of the enclosing prefix; the empty prefix becomes the default."""
    if entries and entries[0][:2] == ("", False):
        default = entries.pop(0)[2]
    found = []
    # Not by `enclosing_prefixes`, which takes an eighth longer: this runs for every map.
    open_prefixes = [("", default)]
    for entry in entries:
        name, is_name, value = entry
        while not name.startswith(open_prefixes[-1][0]):
            open_prefixes.pop()
        if value != open_prefixes[-1][1]:
            found.append(entry)
            if not is_name:
                open_prefixes.append((name, value))
    return default, found


def _by_majority(
    default: Value, entries: Sequence[tuple[str, bool, Value]], space: NameSpace
) -> tuple[Value, list[tuple[str, bool, Value]]]:
    """Give each prefix the value of most of its continuations by one character; longest prefixes first.

    The value changes only if at least half of the characters have entries. With the characters a to d, the
    prefixes {p: 1, pa: 2, pb: 2, pc: 2} become {p: 2, pd: 1}, and the name p keeps 1.
    """
    characters = space.characters or ""
    values: dict[Key, Value] = {(name, is_name): value for name, is_name, value in entries}
    values.setdefault(("", False), default)

    def value_around(name: str) -> Value:
        return next(
            values[name[:length], False]
            for length in range(len(name), -1, -1)
            if (name[:length], False) in values
        )

    children_by_length: defaultdict[int, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def add_child(name: str, is_name: bool) -> None:
        # A single name counts as a continuation only if no longer name can exist.
        if name and (not is_name or len(name) == space.max_length):
            children_by_length[len(name) - 1][name[:-1]].add(name)

    for name, is_name in values:
        add_child(name, is_name)
    for length in range(max(children_by_length, default=-1), -1, -1):
        for prefix, children in children_by_length[length].items():
            if 2 * len(children) < len(characters):
                continue
            ends = length + 1 == space.max_length
            current = value_around(prefix)
            continuations = {prefix + each: values.get((prefix + each, ends), current) for each in characters}
            tally = Counter(continuations.values())
            most = min((value for value in tally if tally[value] == max(tally.values())), key=repr)
            if most == current:
                continue
            if space.has(prefix):
                values.setdefault((prefix, True), current)
            values[prefix, False] = most
            for name, value in continuations.items():
                if not ends or space.has(name):
                    values[name, ends] = value
            add_child(prefix, is_name=False)
    return _without_repeats(default, [(*key, values[key]) for key in sorted(values)])


class PrefixLookup(Generic[Value]):
    """The values of a map at a name, or at all names with a prefix."""

    __slots__ = ("_default", "_keys", "_prefixes", "_values")

    def __init__(self, names: NameMap[Value]) -> None:
        self._default = names.default
        self._keys = names.keys
        self._values = [value for _, _, value in names.entries]
        self._prefixes = {name: value for name, is_name, value in names.entries if not is_name}

    def values(self, key: Key) -> Iterator[Value]:
        """Yield the value of a name; or the values of all names with a prefix."""
        text, is_name = key
        at = bisect_left(self._keys, key)
        has_entry = at < len(self._keys) and self._keys[at] == key
        yield self._values[at] if has_entry else self._value_around(text)
        if not is_name:
            for below in range(at + has_entry, len(self._keys)):
                if not self._keys[below][0].startswith(text):
                    return
                yield self._values[below]

    def _value_around(self, text: str) -> Value:
        for length in range(len(text), 0, -1):
            if text[:length] in self._prefixes:
                return self._prefixes[text[:length]]
        return self._default
