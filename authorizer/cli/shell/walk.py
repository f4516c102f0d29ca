"""What ls, cat, tree and find show, and cd: typed paths in, lines or entries out.

The lines are kafka-metadata-shell's, but that what is wrong is said apart from them, that each name is shown
as it can be typed, and that find names the places which a pattern matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.cli.shell.nodes import Leaf
from authorizer.cli.shell.paths import found, parse_path, printable, shown_name, shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from authorizer.cli.shell.nodes import Directory, Node
    from authorizer.cli.shell.paths import Place

LS: Final = "ls"
CAT: Final = "cat"
TREE: Final = "tree"
FIND: Final = "find"
_INDENT: Final = "  "


class Wrong(NamedTuple):
    """What is wrong with one path; the others are shown all the same."""

    text: str


class Entry(NamedTuple):
    """A node that a command shows.

    Attributes:
        names: from the root on.
        node: what is there.
        depth: how many of the names are below the path that was typed.
        start: that path.
    """

    names: tuple[str, ...]
    node: Node
    depth: int
    start: str

    def lines(self, command: str) -> Iterator[str]:
        """As cat, tree or find shows it."""
        if command == FIND:
            below = map(shown_name, self.names[len(self.names) - self.depth :])
            yield "/".join([self.start.rstrip("/"), *below]) or "/"
            return
        if command == TREE and self.depth:
            yield f"{_INDENT * (self.depth - 1)}{shown_name(self.names[-1])}:"
        if isinstance(self.node, Leaf):
            yield f"{_INDENT * self.depth}{printable(self.node.text)}"

    def to_json(self, command: str) -> dict[str, Any]:
        """One line's object: with what a leaf says, where the command shows that."""
        row: dict[str, Any] = {"path": shown_path(self.names)}
        if not isinstance(self.node, Leaf):
            return row | {"directory": True}
        return row | ({"value": self.node.value} if command in {CAT, TREE} else {"directory": False})


class Walk:
    """A tree, and the working directory in it."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self.here: tuple[str, ...] = ()

    def cd(self, typed: str) -> Wrong | None:
        """Go to the first directory that the path leads to, if there is one. Raises BadPathError."""
        places = list(self._places(typed))
        for place in places:
            if not isinstance(place.node, Leaf):
                self.here = place.names
                return None
        return Wrong(f"cd: {typed}: {'not a directory' if places else 'no such directory'}.")

    def entries(self, command: str, paths: Sequence[str]) -> Iterator[Entry | Wrong]:
        """What a command shows of these paths, one after the other. Raises BadPathError."""
        for typed in paths or (".",):
            is_there = False
            is_one = all(component.pattern is None for component in parse_path(typed, self.here))
            for names, node in self._places(typed):
                is_there = True
                start = Entry(names, node, 0, typed if is_one else shown_path(names))
                match command:
                    case "ls" if not isinstance(node, Leaf):
                        yield from _children(start)
                    case "cat" if not isinstance(node, Leaf):
                        yield Wrong(f"{command}: {typed}: Is a directory")
                    case "tree" | "find":
                        yield from _at_and_below(start)
                    case _:
                        yield start
            if not is_there:
                yield Wrong(f"{command}: {typed}: no such file or directory.")

    def listing(
        self, paths: Sequence[str], set_out: Callable[[Sequence[str]], Iterator[str]]
    ) -> Iterator[str | Wrong]:
        """The lines of ls: leaves first, then each directory's names, as ``set_out`` puts many into lines."""
        leaves: list[str] = []
        directories: list[tuple[str, Directory]] = []
        for typed in paths or (".",):
            places = list(self._places(typed))
            if not places:
                yield Wrong(f"{LS}: {typed}: no such file or directory.")
            for names, node in places:
                shown = shown_name(names[-1]) if names else "/"
                if isinstance(node, Leaf):
                    leaves.append(shown)
                else:
                    directories.append((shown, node))
        yield from set_out(leaves)
        is_titled, is_first = bool(leaves) or len(directories) > 1, not leaves
        for title, directory in directories:
            if is_titled and directory.names:
                if not is_first:
                    yield ""
                yield f"{title}:"
            is_first = False
            yield from set_out([shown_name(name) for name in directory.names])

    def completions(self, typed: str, most: int) -> list[str]:
        """The ways to go on with a path that was typed to here, directories with a slash; in order.

        Of more than ``most`` the first of them and the last: what all begin with is what these begin with.
        Raises BadPathError.
        """
        cut = _last_slash(typed) + 1
        before, begun = typed[:cut], typed[cut:]
        ways = [
            (shown, place.node, name)
            for place in self._places(before or ".")
            if not isinstance(place.node, Leaf)
            for name in place.node.names
            if (shown := shown_name(name)).startswith(begun)
        ]
        return [
            f"{before}{shown}{'' if isinstance(directory.child(name), Leaf) else '/'}"
            for shown, directory, name in ways[:most] + ways[most:][-1:]
        ]

    def _places(self, typed: str) -> Iterator[Place]:
        return found(self._root, parse_path(typed, self.here))


def _children(entry: Entry) -> Iterator[Entry]:
    if not isinstance(entry.node, Leaf):
        for name in entry.node.names:
            node = entry.node.child(name)
            if node is not None:
                yield Entry((*entry.names, name), node, entry.depth + 1, entry.start)


def _at_and_below(entry: Entry) -> Iterator[Entry]:
    yield entry
    for child in _children(entry):
        yield from _at_and_below(child)


def _last_slash(typed: str) -> int:
    """The last one that is not escaped; -1 without any."""
    is_escaped, last = False, -1
    for at, character in enumerate(typed):
        if character == "/" and not is_escaped:
            last = at
        is_escaped = character == "\\" and not is_escaped
    return last
