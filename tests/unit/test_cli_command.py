"""An option that takes one value is refused when it is given twice, in every command."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from authorizer.cli.command import Command, Group
from support.cli_commands import CommandPath, command_at, every_command, parsed_command


def single_value_options() -> Iterator[tuple[CommandPath, click.Option]]:
    for path in every_command():
        for param in command_at(path).params:
            if isinstance(param, click.Option) and not (param.is_flag or param.multiple or param.count):
                yield path, param


SINGLE = list(single_value_options())


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_command_uses_aclogs_class(path: CommandPath) -> None:
    """A command with click's own class would take the last of several values."""
    assert isinstance(command_at(path), Command | Group)


@pytest.mark.parametrize(
    ("path", "option"), SINGLE, ids=[f"{' '.join(path)} {option.opts[0]}" for path, option in SINGLE]
)
def test_a_second_value_is_refused(path: CommandPath, option: click.Option) -> None:
    """It is refused before its values are checked, also if they are equal."""
    flag = option.opts[-1]
    for values in ([flag, "1", flag, "2"], [f"{flag}=1", f"{flag}=1"]):
        with pytest.raises(click.UsageError, match=f"'{option.opts[0]}' takes one value, and was given 2"):
            parsed_command([*path, *values])


def test_short_and_long_names_are_one_option() -> None:
    """Two spellings of an option are one option."""

    @click.command("shows", cls=Command)
    @click.option("-n", "--number")
    @click.option("--tag", multiple=True)
    @click.option("--loud", is_flag=True)
    @click.option("-v", "--verbose", count=True)
    def shows(*, number: str, tag: tuple[str, ...], loud: bool, verbose: int) -> None:
        click.echo(f"{number} {tag} {loud} {verbose}")

    refused = CliRunner().invoke(shows, ["-n", "1", "--number", "2"])
    assert (refused.exit_code, "was given 2 times" in refused.stderr) == (2, True)
    more_than_once = ["--tag", "a", "--tag", "b", "--loud", "--loud", "-vv"]
    assert CliRunner().invoke(shows, more_than_once).stdout == "None ('a', 'b') True 2\n"
