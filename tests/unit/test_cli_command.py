"""What every command refuses: an option given twice, two sources or formats, a file that exists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from authorizer.cli.command import _ALTERNATIVES, Command, Group
from authorizer.cli.output_file import OutputFile, output_file
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


def options(path: CommandPath) -> list[click.Option]:
    return [param for param in command_at(path).params if isinstance(param, click.Option)]


SWITCHES = [(path, each) for path in every_command() for each in options(path) if each.secondary_opts]


@pytest.mark.parametrize(("path", "option"), SWITCHES, ids=[" ".join(path) for path, _ in SWITCHES])
def test_a_switch_is_not_both_on_and_off(path: CommandPath, option: click.Option) -> None:
    """The last one would win."""
    with pytest.raises(click.UsageError, match=f"'{option.opts[0]}' takes one value, and was given 2 times"):
        parsed_command([*path, option.opts[0], option.secondary_opts[0]])


def pairs() -> Iterator[tuple[CommandPath, str, str]]:
    for path in every_command():
        flags = {each.opts[-1] for each in options(path)}
        for alternatives in _ALTERNATIVES:
            for one, other in combinations([each for each in alternatives if each in flags], 2):
                if (path, one, other) not in TOGETHER:
                    yield path, one, other


#: A broker's directory is read, and the brokers change what is in it.
OF_PLANS = [((command,), "--log", "--bootstrap-server") for command in ("plan", "apply")]
#: `spark all` writes its --history.
TOGETHER = [*OF_PLANS, (("spark", "all"), "--log", "--history")]
PAIRS = list(pairs())


@pytest.mark.parametrize(
    ("path", "one", "other"), PAIRS, ids=[" ".join((*path, *two)) for path, *two in PAIRS]
)
def test_two_sources_or_formats_are_refused(path: CommandPath, one: str, other: str) -> None:
    """Each command that has both names both."""
    flags = {each.opts[-1]: each for each in options(path)}
    words = [word for flag in (one, other) for word in (flag, *([] if flags[flag].is_flag else ["x"]))]
    with pytest.raises(click.UsageError, match=f"^{one} and {other} cannot be used together: each "):
        parsed_command([*path, *words])


@pytest.mark.parametrize(("path", "one", "other"), OF_PLANS, ids=[path[0] for path, *_ in OF_PLANS])
def test_a_pair_excludes_other_sources(path: CommandPath, one: str, other: str, tmp_path: Path) -> None:
    """plan and apply take --log with --bootstrap-server, and no third source."""
    file = tmp_path / "file"
    file.touch()
    words = [*path, str(file), one, "DIR", other, "HOST:9092"]
    parsed_command(words)
    with pytest.raises(click.UsageError, match="--log and --sidecar cannot be used together"):
        parsed_command([*words, "--sidecar", "http://127.0.0.1:1"])


#: Files that are read, and places to which a command adds: tokens, the output of a node.
NOT_OVERWRITTEN = {"--batch", "--records", "--file", "--directory", "--background"}


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_file_that_is_written_is_an_output_file(path: CommandPath) -> None:
    """So that it is not overwritten without --force, and a suffix fits the content."""
    for each in options(path):
        if (
            isinstance(each.type, click.Path)
            and not each.type.exists
            and each.opts[-1] not in NOT_OVERWRITTEN
        ):
            assert isinstance(each.type, OutputFile), each.opts
            assert "--force" in [other.opts[0] for other in options(path)]


@pytest.fixture
def written() -> click.Command:
    @click.command("writes", cls=Command)
    @click.option("--output", type=OutputFile("JSON", allow_dash=True))
    def writes(*, output: Path) -> None:
        with output_file(output) as file:
            file.write(b"[]\n")

    return writes


def test_an_existing_file_is_overwritten_with_force(written: click.Command, tmp_path: Path) -> None:
    """It is refused before the command begins; an empty file, as of mktemp, has nothing to lose."""
    path = tmp_path / "plan.json"
    path.touch()
    first = CliRunner().invoke(written, ["--output", str(path)])
    assert (first.exit_code, first.stderr) == (0, f"note: wrote {path}: 3 bytes\n")
    path.write_text("mine")
    refused = CliRunner().invoke(written, ["--output", str(path)])
    assert (refused.exit_code, path.read_text()) == (2, "mine")
    assert f"{path} exists and is not overwritten" in refused.stderr
    assert "--force" in refused.stderr
    assert CliRunner().invoke(written, ["--output", str(path), "--force"]).exit_code == 0
    assert path.read_text() == "[]\n"


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    """Between the first check and the end."""
    path = tmp_path / "plan.json"

    def write() -> None:
        with output_file(path) as file:
            file.write(b"[]\n")
            path.write_text("another process's")

    with pytest.raises(FileExistsError):
        write()
    assert path.read_text() == "another process's"


@pytest.mark.parametrize("name", ["plan.pdf", "plan.HTML", "plan.csv", "plan.json.gz", "plan.md"])
def test_a_suffix_of_another_format_is_refused(written: click.Command, tmp_path: Path, name: str) -> None:
    """Suffixes that stand for no format are as good as .json."""
    refused = CliRunner().invoke(written, ["--output", str(tmp_path / name)])
    assert refused.exit_code == 2
    assert (
        f"{name}` would be JSON, but its name ends in {Path(name).suffix}: name it *.json" in refused.stderr
    )
    for other in ("plan.jsonl", "plan.txt", "alice.plan", "plan"):
        assert CliRunner().invoke(written, ["--output", str(tmp_path / other)]).exit_code == 0
