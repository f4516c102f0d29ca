"""NameMap: a value for every name of a resource type, as short as it can be said.

It has a value for all names, then places where the value is another one: a prefix, for all that begins with
it, or a single name. It is canonical: two maps are equal if and only if every name has the same value.

That takes care where characters are few. A prefix has the value that most of its continuations by one
character have. As a rule those are the ones that no place is about, and nothing is to be done; but 33 places
below one prefix are more than half of a topic's 65 characters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from authorizer.analysis.name_space import Key, NameSpace

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NameMap(Generic[Value]):
    """See the module.

    Attributes:
        default: the value of names that no place is about.
        places: the prefix or name, whether it is a single name, and its value; in order.
    """

    default: Value
    places: tuple[tuple[str, bool, Value], ...] = ()

    @classmethod
    def of(
        cls, default: Value, places: Iterable[tuple[str, bool, Value]], space: NameSpace
    ) -> NameMap[Value]:
        """From values at places, in order, of names that can exist: what holds is said by the narrowest."""
        default, found = _reduced(default, places)
        if space.characters is not None and 2 * len(found) >= len(space.characters):
            default, found = _by_most(default, found, space)
        return cls(default, tuple(found))

    def combined(
        self, other: NameMap[Any], combine: Callable[[Value, Any], Any], space: NameSpace
    ) -> NameMap[Any]:
        """The map of what ``combine`` makes of both values of each name."""
        default = combine(self.default, other.default)
        places = ((name, is_name, combine(*both)) for name, is_name, both in overlay((self, other)))
        return NameMap.of(default, places, space)

    @property
    def keys(self) -> list[Key]:
        """Of the places, in order."""
        return [(name, is_name) for name, is_name, _ in self.places]

    def at(self, key: Key) -> Value:
        """The value of a name; or of the names with a prefix, but for narrower places."""
        value = self.default
        for name, is_name, here in self.places:
            if key == (name, is_name) or (not is_name and key[0].startswith(name)):
                value = here
        return value


def overlay(maps: Sequence[NameMap[Any]]) -> Iterator[tuple[str, bool, tuple[Any, ...]]]:
    """Every place of any of the maps, in order, with the values that all of them have there.

    The first is the empty prefix: what all have by default.
    """
    tables = [{(name, is_name): value for name, is_name, value in each.places} for each in maps]
    keys: set[Key] = {("", False)}
    for table in tables:
        keys |= table.keys()
    around = [("", tuple(each.default for each in maps))]
    for key in sorted(keys):
        name, is_name = key
        while not name.startswith(around[-1][0]):
            around.pop()
        values = tuple(table.get(key, outer) for table, outer in zip(tables, around[-1][1], strict=True))
        yield name, is_name, values
        if not is_name:
            around.append((name, values))


def _reduced(
    default: Value, places: Iterable[tuple[str, bool, Value]]
) -> tuple[Value, list[tuple[str, bool, Value]]]:
    """Without places that have the value of what is around them; the empty prefix is the default."""
    found = []
    around = [("", default)]
    for place in places:
        name, is_name, value = place
        if not name and not is_name:
            default = value
            around = [("", default)]
            continue
        while not name.startswith(around[-1][0]):
            around.pop()
        if value != around[-1][1]:
            found.append(place)
            if not is_name:
                around.append((name, value))
    return default, found


def _by_most(
    default: Value, places: Sequence[tuple[str, bool, Value]], space: NameSpace
) -> tuple[Value, list[tuple[str, bool, Value]]]:
    """The same map, each prefix with the value of most of its continuations. The longest come first."""
    characters = space.characters or ""
    values: dict[Key, Value] = {(name, is_name): value for name, is_name, value in places}
    values.setdefault(("", False), default)

    def around(name: str) -> Value:
        return next(
            values[name[:length], False]
            for length in range(len(name), -1, -1)
            if (name[:length], False) in values
        )

    below: defaultdict[int, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def counts(name: str, is_name: bool) -> None:
        # A single name says what all below it have only where nothing can follow it.
        if name and (not is_name or len(name) == space.max_length):
            below[len(name) - 1][name[:-1]].add(name)

    for name, is_name in values:
        counts(name, is_name)
    for length in range(max(below, default=-1), -1, -1):
        for prefix, children in below[length].items():
            if 2 * len(children) < len(characters):
                continue
            ends = length + 1 == space.max_length
            own = around(prefix)
            at = {prefix + each: values.get((prefix + each, ends), own) for each in characters}
            tally = Counter(at.values())
            most = min((value for value in tally if tally[value] == max(tally.values())), key=repr)
            if most == own:
                continue
            if space.has(prefix):
                values.setdefault((prefix, True), own)
            values[prefix, False] = most
            for name, value in at.items():
                if not ends or space.has(name):
                    values[name, ends] = value
            counts(prefix, is_name=False)
    return _reduced(default, [(*key, values[key]) for key in sorted(values)])


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
