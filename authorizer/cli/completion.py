"""``aclog completion``: what makes a shell's Tab key complete commands, flags and their values.

The shell's script calls aclog at each Tab, and click answers from what the commands declare.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final, NamedTuple

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from authorizer.cli.command import Command
from authorizer.cli.command_name import COMPLETE_VARIABLE, NAME, command_words
from authorizer.cli.rendering.output import answer


class _Shell(NamedTuple):
    """How a shell is served.

    Attributes:
        script: click's.
        home, default_home: which variable says where a user's files of that kind are, and where else.
        file: below it.
        then: what a user has to do after that; ``{file}`` and ``{directory}`` are the script's.
        path: how a directory gets on the PATH, where the script calls aclog by its name; None where it calls
            what was typed.
    """

    script: type[ShellComplete]
    home: str
    default_home: str
    file: str
    then: str
    path: str | None


_SHELLS: Final = {
    "bash": _Shell(
        BashComplete,
        "XDG_DATA_HOME",
        ".local/share",
        f"bash-completion/completions/{NAME}",
        "New shells have it where bash-completion is installed; elsewhere put this line into ~/.bashrc: "
        "source {file}",
        path=None,
    ),
    "zsh": _Shell(
        ZshComplete,
        "XDG_DATA_HOME",
        ".local/share",
        f"zsh/site-functions/_{NAME}",
        "New shells have it with this line in ~/.zshrc: "
        "fpath=({directory} $fpath); autoload -U compinit; compinit",
        path="export PATH={directory}:$PATH",
    ),
    "fish": _Shell(
        FishComplete,
        "XDG_CONFIG_HOME",
        ".config",
        f"fish/completions/{NAME}.fish",
        "New shells have it.",
        path="fish_add_path {directory}",
    ),
}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.option("--install", is_flag=True, help="Install it for this user.")
@click.pass_context
def completion_command(ctx: click.Context, *, shell: str, install: bool) -> None:
    """Print or install completion with the Tab key for a shell.

    Prints the shell's script. With --install writes it to where the shell finds it, and prints further steps
    if there are any.

    \b
    Examples:
      aclog completion bash --install
      source <(aclog completion bash)
      aclog completion fish --install
    """
    served = _SHELLS[shell]
    script = served.script(ctx.find_root().command, {}, NAME, COMPLETE_VARIABLE).source()
    if not install:
        click.echo(script, nl=False)
        return
    home = os.environ.get(served.home) or Path.home() / served.default_home
    file = Path(home) / served.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script, encoding="utf-8")
    answer(f"{file}: written", indent=2)
    quoted = {"file": shlex.quote(str(file)), "directory": shlex.quote(str(file.parent))}
    click.echo(served.then.format_map(quoted))
    words = command_words()
    if served.path is not None and words != (NAME,):
        directory = shlex.quote(str(Path(words[0]).absolute().parent))
        way = served.path.format(directory=directory)
        click.echo(f"{shell} completes {NAME} where it is on the PATH: {way}")
