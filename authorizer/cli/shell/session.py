"""One typed command after the other, and what it prints."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from authorizer.cli.rendering.output import JsonLines
from authorizer.cli.shell.nodes import Leaf
from authorizer.cli.shell.paths import BadPathError, found, parse_path, printable, shown_name, shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from authorizer.cli.shell.nodes import Directory, Node
    from authorizer.cli.shell.paths import Place


LS: Final = "ls"
CAT: Final = "cat"
TREE: Final = "tree"
FIND: Final = "find"
CD, PWD, HELP, EXIT = "cd", "pwd", "help", "exit"
_NEED_A_PATH: Final = (CAT, TREE)
COMMANDS: Final = {
    LS: "[PATH...]  the names in directories",
    CAT: "PATH...  what leaves say",
    TREE: "PATH...  everything below, with what leaves say",
    FIND: "[PATH...]  every path below",
    CD: "[PATH]  go to a directory; / without one",
    PWD: "which directory this is",
    HELP: "these lines",
    EXIT: "leave; so does Ctrl-D",
}
_PATHS: Final = (
    r"Paths: * ? {a,b} match names; a backslash before a character, as in \* or \ , takes that away."
)
#: Lines that are gathered before one write.
_BLOCK_LINES: Final = 1024
#: More names than these are not set out in columns: the first of them would be long in coming.
_SET_OUT_MAX: Final = 10_000


class Session:
    """Runs commands on a tree.

    Args:
        walk: the tree.
        as_json: one object on a line, instead of text.
        columns: of the screen, for ls; None for a name on each line.
    """

    def __init__(self, walk: Walk, *, as_json: bool, columns: int | None = None) -> None:
        self._walk = walk
        self._as_json = as_json
        self._columns = columns

    def run(self, words: Sequence[str]) -> bool:
        """Do what was typed; whether every path was there. What is wrong is said on stderr.

        Raises:
            click.UsageError: no such command, or one without the path that it needs.
        """
        command, *paths = words
        if command not in COMMANDS:
            raise click.UsageError(f"`{command}` is no command; there are {', '.join(COMMANDS)}")
        if not paths and command in _NEED_A_PATH:
            raise click.UsageError(f"{command} needs a path")
        try:
            return self._run(command, paths)
        except BadPathError as error:
            raise click.UsageError(str(error)) from error

    def _run(self, command: str, paths: Sequence[str]) -> bool:
        match command:
            case "help":
                return _print((*(f"{name:5}{does}" for name, does in COMMANDS.items()), _PATHS))
            case "pwd":
                return _print([shown_path(self._walk.here)])
            case "cd":
                wrong = self._walk.cd(paths[0] if paths else "/")
                return _print([] if wrong is None else [wrong])
        if self._as_json:
            return self._print_json(command, paths)
        if command == LS:
            return _print(self._walk.listing(paths, self._set_out))
        return _print(
            line
            for entry in self._walk.entries(command, paths)
            for line in ((entry,) if isinstance(entry, Wrong) else entry.lines(command))
        )

    def _print_json(self, command: str, paths: Sequence[str]) -> bool:
        is_right = True
        with JsonLines() as lines:
            for entry in self._walk.entries(command, paths):
                if isinstance(entry, Wrong):
                    click.echo(entry.text, err=True)
                    is_right = False
                else:
                    lines.write(entry.to_json(command))
        return is_right

    def _set_out(self, names: Sequence[str]) -> Iterator[str]:
        """Names in as many columns as fit, downwards; each as wide as its longest."""
        if self._columns is None or not 1 < len(names) <= _SET_OUT_MAX:
            yield from names
            return
        for count in range(min(self._columns // 3, len(names)), 1, -1):
            height = -(-len(names) // count)
            stacks = [names[at : at + height] for at in range(0, len(names), height)]
            if sum(max(map(len, stack)) + 2 for stack in stacks) <= self._columns:
                break
        else:
            height, stacks = len(names), [names]
        widths = [max(map(len, stack)) + 2 for stack in stacks]
        for row in range(height):
            cells = [stack[row : row + 1] for stack in stacks]
            line = [cell[0].ljust(width) for cell, width in zip(cells, widths, strict=True) if cell]
            yield "".join(line).rstrip()


def _print(lines: Iterator[str | Wrong] | Sequence[str | Wrong]) -> bool:
    """To stdout, in large pieces; whether nothing was wrong, which goes to stderr."""
    is_right = True
    remaining = iter(lines)
    while block := list(islice(remaining, _BLOCK_LINES)):
        for is_wrong, run in groupby(block, lambda line: isinstance(line, Wrong)):
            texts = (line.text if isinstance(line, Wrong) else line for line in run)
            click.echo("\n".join(texts), err=is_wrong)
            is_right = is_right and not is_wrong
    return is_right


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
