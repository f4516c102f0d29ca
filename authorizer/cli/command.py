"""Command and Group: click's classes, which also refuse an option that takes one value and is given twice.

click takes the last value and drops the others without a word: an answer to a question that nobody asked.
"""

from __future__ import annotations

from collections import Counter

import click


class Command(click.Command):
    """A command of aclog; every command has this class, and a test looks for that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group of commands."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


Group.group_class = Group


def _refuse_repeated(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    # The parser gives each parameter as often as the command line has it.
    _, _, parsed = command.make_parser(ctx).parse_args(args=list(args))
    for param, times in Counter(parsed).items():
        if times > 1 and isinstance(param, click.Option) and _takes_one_value(param):
            raise click.UsageError(
                f"'{param.opts[0]}' takes one value, and was given {times} times. Give it once.", ctx
            )


def _takes_one_value(option: click.Option) -> bool:
    return not (option.is_flag or option.multiple or option.count)
