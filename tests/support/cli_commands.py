"""The commands that there are, as the command line itself knows them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from authorizer.cli.main import cli

CommandPath = tuple[str, ...]


def every_command() -> list[CommandPath]:
    """Groups too, each before what is in it: ``("log",)``, ``("log", "create")``, ..."""
    return list(_commands_below(cli, ()))


def _commands_below(group: click.Group, path: CommandPath) -> Iterator[CommandPath]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from _commands_below(command, (*path, name))
