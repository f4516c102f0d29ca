"""Session: runs shell commands and prints their output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

import click

from authorizer.cli.rendering.output import JsonLines
from authorizer.cli.shell.paths import (
    BadPathError,
    Place,
    found,
    parse_path,
    printable,
    shown_name,
    shown_path,
)
from authorizer.cli.shell.tree import Directory, Leaf, Node

LS: Final = "ls"
CAT: Final = "cat"
TREE: Final = "tree"
FIND: Final = "find"
CD, PWD, HELP, EXIT = "cd", "pwd", "help", "exit"
_NEED_A_PATH: Final = (CAT, TREE)
COMMANDS: Final = {
    LS: "[PATH...]  the names in directories",
    CAT: "PATH...  the values of leaves",
    TREE: "PATH...  all nodes below, with the values of leaves",
    FIND: "[PATH...]  all paths below",
    CD: "[PATH]  go to a directory; / without one",
    PWD: "print the working directory",
    HELP: "print this help",
    EXIT: "leave; also Ctrl-D",
}
_PATHS: Final = r"Paths: * ? {a,b} match names; a backslash escapes a character, as in \* or \ ."
#: Lines in one write.
_BLOCK_LINES: Final = 1024
#: More names than these are not arranged in columns, which would delay the first line.
_COLUMNS_NAMES_MAX: Final = 10_000


class Session:
    """Runs commands on a tree; ``columns`` of the screen are for ls, None for a name on each line."""

    def __init__(self, browser: Browser, *, as_json: bool, columns: int | None = None) -> None:
        self._browser = browser
        self._as_json = as_json
        self._columns = columns

    def run(self, words: Sequence[str]) -> bool:
        """Run a command; returns whether all paths exist. Errors go to stderr.

        Raises:
            click.UsageError: the command is unknown, or it needs a path.
        """
        command, *paths = words
        if command not in COMMANDS:
            raise click.UsageError(f"`{command}` is not a command; commands are {', '.join(COMMANDS)}")
        if not paths and command in _NEED_A_PATH:
            raise click.UsageError(f"{command} needs a path")
        try:
            return self._run(command, paths)
        except BadPathError as error:
            raise click.UsageError(str(error)) from error

    def _run(self, command: str, paths: Sequence[str]) -> bool:
        match command:
            case "help":
                return _print((*(f"{name:5}{text}" for name, text in COMMANDS.items()), _PATHS))
            case "pwd":
                return _print([shown_path(self._browser.here)])
            case "cd":
                error = self._browser.cd(paths[0] if paths else "/")
                return _print([] if error is None else [error])
        if self._as_json:
            return self._print_json(command, paths)
        if command == LS:
            return _print(self._browser.listing(paths, self._set_out))
        return _print(
            line
            for entry in self._browser.entries(command, paths)
            for line in ((entry,) if isinstance(entry, PathError) else entry.lines(command))
        )

    def _print_json(self, command: str, paths: Sequence[str]) -> bool:
        is_right = True
        with JsonLines() as lines:
            for entry in self._browser.entries(command, paths):
                if isinstance(entry, PathError):
                    click.echo(entry.text, err=True)
                    is_right = False
                else:
                    lines.write(entry.to_json(command))
        return is_right

    def _set_out(self, names: Sequence[str]) -> Iterator[str]:
        """Arrange names in as many columns as fit, top to bottom."""
        if self._columns is None or not 1 < len(names) <= _COLUMNS_NAMES_MAX:
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


def _print(lines: Iterator[str | PathError] | Sequence[str | PathError]) -> bool:
    """Print lines to stdout and errors to stderr, in large pieces; returns whether there was no error."""
    is_right = True
    remaining = iter(lines)
    while block := list(islice(remaining, _BLOCK_LINES)):
        for is_wrong, run in groupby(block, lambda line: isinstance(line, PathError)):
            texts = (line.text if isinstance(line, PathError) else line for line in run)
            click.echo("\n".join(texts), err=is_wrong)
            is_right = is_right and not is_wrong
    return is_right


_INDENT: Final = "  "


class PathError(NamedTuple):
    """The error of one path; the other paths are printed."""

    text: str


class Entry(NamedTuple):
    """A node that a command prints.

    Attributes:
        depth: number of names below the typed path.
        start: the typed path.
    """

    names: tuple[str, ...]
    node: Node
    depth: int
    start: str

    def lines(self, command: str) -> Iterator[str]:
        """The output of cat, tree or find."""
        if command == FIND:
            below = map(shown_name, self.names[len(self.names) - self.depth :])
            yield "/".join([self.start.rstrip("/"), *below]) or "/"
            return
        if command == TREE and self.depth:
            yield f"{_INDENT * (self.depth - 1)}{shown_name(self.names[-1])}:"
        if isinstance(self.node, Leaf):
            yield f"{_INDENT * self.depth}{printable(self.node.text)}"

    def to_json(self, command: str) -> dict[str, Any]:
        """JSON form; cat and tree include the value of a leaf."""
        row: dict[str, Any] = {"path": shown_path(self.names)}
        if not isinstance(self.node, Leaf):
            return row | {"directory": True}
        return row | ({"value": self.node.value} if command in {CAT, TREE} else {"directory": False})


class Browser:
    """A tree, and the working directory in it."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self.here: tuple[str, ...] = ()

    def cd(self, typed: str) -> PathError | None:
        """Change to the first directory of a path; returns the error. Raises BadPathError."""
        places = list(self._places(typed))
        for place in places:
            if not isinstance(place.node, Leaf):
                self.here = place.names
                return None
        return PathError(f"cd: {typed}: {'not a directory' if places else 'no such directory'}.")

    def entries(self, command: str, paths: Sequence[str]) -> Iterator[Entry | PathError]:
        """The entries that a command prints for these paths, in order. Raises BadPathError."""
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
                        yield PathError(f"{command}: {typed}: Is a directory")
                    case "tree" | "find":
                        yield from _at_and_below(start)
                    case _:
                        yield start
            if not is_there:
                yield PathError(f"{command}: {typed}: no such file or directory.")

    def listing(
        self, paths: Sequence[str], set_out: Callable[[Sequence[str]], Iterator[str]]
    ) -> Iterator[str | PathError]:
        """The lines of ls: leaves, then the names in each directory; ``set_out`` arranges names in lines."""
        leaves: list[str] = []
        directories: list[tuple[str, Directory]] = []
        for typed in paths or (".",):
            places = list(self._places(typed))
            if not places:
                yield PathError(f"{LS}: {typed}: no such file or directory.")
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

    def completions(self, typed: str, maximum: int) -> list[str]:
        """The completions of a path, in order; directories end with a slash. Raises BadPathError.

        Of more than ``maximum``, returns the first ones and the last, which have the same common prefix.
        """
        cut = _last_slash(typed) + 1
        before, begun = typed[:cut], typed[cut:]
        matches = [
            (shown, place.node, name)
            for place in self._places(before or ".")
            if not isinstance(place.node, Leaf)
            for name in place.node.names
            if (shown := shown_name(name)).startswith(begun)
        ]
        return [
            f"{before}{shown}{'' if isinstance(directory.child(name), Leaf) else '/'}"
            for shown, directory, name in matches[:maximum] + matches[maximum:][-1:]
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
    """Index of the last slash that is not escaped; -1 without one."""
    is_escaped, last = False, -1
    for at, character in enumerate(typed):
        if character == "/" and not is_escaped:
            last = at
        is_escaped = character == "\\" and not is_escaped
    return last
