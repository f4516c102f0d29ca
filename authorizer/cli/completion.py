"""``aclog completion``: scripts that make a shell complete commands, options and values.

The shell's script calls aclog at each Tab; click computes completions from the commands' options.
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
    """Completion of one shell.

    Attributes:
        home, default_home: variable that names the directory of user files, and the default directory.
        next_step: what the user has to do next; ``{file}`` and ``{directory}`` of the script are replaced.
        path: command that adds a directory to the PATH, if the script calls aclog by name; None if it calls
            the command as typed.
    """

    script: type[ShellComplete]
    home: str
    default_home: str
    file: str
    next_step: str
    path: str | None


_SHELLS: Final = {
    "bash": _Shell(
        BashComplete,
        "XDG_DATA_HOME",
        ".local/share",
        f"bash-completion/completions/{NAME}",
        "New shells load it if bash-completion is installed. Otherwise add this line to ~/.bashrc: "
        "source {file}",
        path=None,
    ),
    "zsh": _Shell(
        ZshComplete,
        "XDG_DATA_HOME",
        ".local/share",
        f"zsh/site-functions/_{NAME}",
        "New shells load it with this line in ~/.zshrc: "
        "fpath=({directory} $fpath); autoload -U compinit; compinit",
        path="export PATH={directory}:$PATH",
    ),
    "fish": _Shell(
        FishComplete,
        "XDG_CONFIG_HOME",
        ".config",
        f"fish/completions/{NAME}.fish",
        "New shells load it.",
        path="fish_add_path {directory}",
    ),
}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.option("--install", is_flag=True, help="Install it for this user.")
@click.pass_context
def completion_command(ctx: click.Context, *, shell: str, install: bool) -> None:
    """Print or install completion with the Tab key for a shell.

    Prints the shell's script. With --install it writes the script to the shell's directory of completions,
    and prints further steps if there are any.

    \b
    Examples:
      aclog completion bash --install
      source <(aclog completion bash)
      aclog completion fish --install
    """
    completion = _SHELLS[shell]
    script = completion.script(ctx.find_root().command, {}, NAME, COMPLETE_VARIABLE).source()
    if not install:
        click.echo(script, nl=False)
        return
    home = os.environ.get(completion.home) or Path.home() / completion.default_home
    file = Path(home) / completion.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script, encoding="utf-8")
    answer(f"{file}: written", indent=2)
    quoted = {"file": shlex.quote(str(file)), "directory": shlex.quote(str(file.parent))}
    click.echo(completion.next_step.format_map(quoted))
    words = command_words()
    if completion.path is not None and words != (NAME,):
        directory = shlex.quote(str(Path(words[0]).absolute().parent))
        add_to_path = completion.path.format(directory=directory)
        click.echo(f"{shell} completes {NAME} only if it is on the PATH: {add_to_path}")
