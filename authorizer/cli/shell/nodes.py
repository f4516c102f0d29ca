"""Nodes of the tree: directories of names, and leaves with values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol


class Leaf(NamedTuple):
    """A node with a value; ``text``: for people; may contain any character."""

    text: str
    value: Any


class Directory(Protocol):
    """Names and their nodes, computed when needed."""

    @property
    def names(self) -> Sequence[str]:
        """Distinct and sorted, as ``in_order`` sorts."""

    def child(self, name: str) -> Node | None:
        """The node of a name; None if the directory has no such name."""


Node = Leaf | Directory


class UniformDirectory:
    """A directory with one function for all names."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Node]) -> None:
        self._known = frozenset(names)
        self._make = make

    @cached_property
    def names(self) -> Sequence[str]:
        return in_order(self._known)

    def child(self, name: str) -> Node | None:
        return self._make(name) if name in self._known else None


class Children(UniformDirectory):
    """A directory with a function for each name."""

    def __init__(self, children: Mapping[str, Callable[[], Node]]) -> None:
        super().__init__(children, lambda name: children[name]())


def leaf(value: str | int) -> Leaf:
    """The leaf of a text or number."""
    return Leaf(str(value), value)


def in_order(names: Iterable[str]) -> list[str]:
    """Sort by UTF-16, as Java and kafka-metadata-shell do."""
    ordered = sorted(names)
    if all(map(str.isascii, ordered)):
        return ordered
    return sorted(ordered, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
