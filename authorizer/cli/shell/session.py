"""One typed command after the other, and what it prints."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.rendering.output import JsonLines
from authorizer.cli.shell.paths import BadPathError, shown_path
from authorizer.cli.shell.walk import CAT, FIND, LS, TREE, Wrong

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.cli.shell.walk import Walk

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
