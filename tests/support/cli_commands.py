"""All commands, from the command line's definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from authorizer.cli.main import cli

CommandPath = tuple[str, ...]


def every_command() -> list[CommandPath]:
    """The paths of all commands, each group before its commands: ``("log",)``, ``("log", "create")``, ..."""
    return list(_commands_below(cli, ()))


def command_at(path: CommandPath) -> click.Command:
    """The command at this path; the empty path is the root."""
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def _commands_below(group: click.Group, path: CommandPath) -> Iterator[CommandPath]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from _commands_below(command, (*path, name))


def parsed_command(words: Sequence[str]) -> click.Context:
    """What a command line of aclog's, without its name, means; it is not run. Raises click.UsageError."""
    command: click.Command = cli
    name, rest = "", list(words)
    parent = None
    while isinstance(command, click.Group):
        # As when it is run: what the outer one says about --help is kept by the inner one for good.
        parent = click.Context(command, parent=parent, **command.context_settings)
        name = rest.pop(0)
        inner = command.get_command(parent, name)
        assert inner is not None, words
        command = inner
    return command.make_context(name, rest, parent=parent)
