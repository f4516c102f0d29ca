"""Command, Group and LazyGroup: click's classes, with aclog's checks and late imports.

click takes the last value of an option that is given twice and drops the others silently. These classes
refuse such a command line, and one that names two sources of ACLs, formats or states, or a file that exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click
from click.exceptions import NoSuchCommand

from authorizer.cli.command_name import as_pasted
from authorizer.cli.invocation import SOURCE_FLAGS, begin
from authorizer.cli.output_file import FORCE_OPTION, OutputFile

#: Options of which a command line has at most one, and what each of them does.
_ALTERNATIVES: Final = {
    (*SOURCE_FLAGS, "--history"): "each names a source of ACLs",
    ("--json", "--csv"): "each is a format of the output",
    ("--at-offset", "--at-time"): "each names a state",
    ("--cluster-column", "--cluster-pattern"): "each gives the cluster of a line",
}


class Command(click.Command):
    """A command of aclog; a test checks that every command has this class.

    ``pair``: two options that it takes together, although other commands take one of them.
    """

    def __init__(self, *args: Any, pair: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._pair = pair
        if any(isinstance(param.type, OutputFile) for param in self.params):
            self.params.append(FORCE_OPTION)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        begin(ctx)
        flags = _refuse_repeated(self, ctx, args)
        _refuse_alternatives(flags.difference(self._pair[1:]) if flags.issuperset(self._pair) else flags, ctx)
        rest = super().parse_args(ctx, args)
        for param in self.params:
            if isinstance(param.type, OutputFile) and (path := ctx.params[str(param.name)]) is not None:
                param.type.require_new(path)
        return rest


class Group(click.Group):
    """A group of commands."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


Group.group_class = Group


class LazyGroup(Group):
    """A group that imports a command's module when the command is called or described.

    ``modules``: for each command the module below ``authorizer.cli`` that has it, as ``NAME_command``.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._modules.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(f"authorizer.cli.{module}"), f"{cmd_name.replace('-', '_')}_command")
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name}_command is not a command")
        name_as_started(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args == ["help"]:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        # `aclog help log create` is `aclog log create --help`.
        args = [*args[1:], "--help"] if args[0] == "help" else args
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            # click compares a mistyped name with loaded commands only.
            raise NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None


def name_as_started(command: click.Command) -> None:
    """Replace ``aclog`` in the help of a command, and of those below it, by the name that started it."""
    command.help = as_pasted(command.help or "")
    if isinstance(command, click.Group):
        for below in command.commands.values():
            name_as_started(below)


def _refuse_repeated(command: click.Command, ctx: click.Context, args: list[str]) -> set[str]:
    """Refuse a repeated option; returns those that the command line has."""
    # The parser gives each parameter as often as the command line has it.
    _, _, parsed = command.make_parser(ctx).parse_args(args=list(args))
    for param, times in Counter(parsed).items():
        if times > 1 and isinstance(param, click.Option) and _takes_one_value(param):
            raise click.UsageError(
                f"'{param.opts[0]}' takes one value, and was given {times} times. Give it once.", ctx
            )
    return {param.opts[-1] for param in parsed if isinstance(param, click.Option)}


def _refuse_alternatives(flags: set[str], ctx: click.Context) -> None:
    for alternatives, why in _ALTERNATIVES.items():
        both = [flag for flag in alternatives if flag in flags]
        if len(both) > 1:
            raise click.UsageError(f"{' and '.join(both)} cannot be used together: {why}", ctx)


def _takes_one_value(option: click.Option) -> bool:
    # Of --x/--no-x the last one would win, too.
    return bool(option.secondary_opts) or not (option.is_flag or option.multiple or option.count)
