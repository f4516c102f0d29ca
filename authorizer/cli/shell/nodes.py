"""What the tree is made of: directories of names, and leaves that say something."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Leaf(NamedTuple):
    """What is at the end of a path.

    Attributes:
        text: as people read it; it may have any character.
        value: the same for JSON.
    """

    text: str
    value: Any


class Directory(Protocol):
    """Names, and what they stand for; worked out when it is asked for."""

    @property
    def names(self) -> Sequence[str]:
        """Distinct and sorted, as ``in_order`` sorts."""

    def child(self, name: str) -> Node | None:
        """What a name stands for; None if it is not among the names."""


Node = Leaf | Directory


class Children:
    """A directory that is made of what there is for each name."""

    def __init__(self, children: Mapping[str, Callable[[], Node]]) -> None:
        self._children = children

    @cached_property
    def names(self) -> Sequence[str]:
        return in_order(self._children)

    def child(self, name: str) -> Node | None:
        make = self._children.get(name)
        return None if make is None else make()


class Alike:
    """A directory of what is made alike, from each name."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Node]) -> None:
        self._known = frozenset(names)
        self._make = make

    @cached_property
    def names(self) -> Sequence[str]:
        return in_order(self._known)

    def child(self, name: str) -> Node | None:
        return self._make(name) if name in self._known else None


def leaf(value: str | int) -> Leaf:
    """Of a value that is one text or number."""
    return Leaf(str(value), value)


def in_order(names: Iterable[str]) -> list[str]:
    """As Java compares strings, and so kafka-metadata-shell: by their UTF-16."""
    ordered = sorted(names)
    if all(map(str.isascii, ordered)):
        return ordered
    return sorted(ordered, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
