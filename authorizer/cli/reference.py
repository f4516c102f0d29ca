"""docs/cli.md, made from the commands' own ``--help``: ``python -m authorizer.cli.reference`` writes it anew.

A test fails while the file and the commands differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from authorizer.cli.acls.kafka_acls_script import usage
from authorizer.cli.main import cli

FILE: Final = Path("docs/cli.md")
# As wide as the code blocks are read; the terminal that happens to run this must not matter.
_WIDTH: Final = 100

_HEAD: Final = """\
# The command line

<!-- Made by `make docs` from the commands' own --help; do not edit. -->

Answers go to stdout, everything else to stderr. `--json` gives one JSON document on one line where there is
one answer, and one line for each where there are many, in UTF-8 whatever the locale.

A terminal gets colours, lines that break between words at its width, tables that fit it, and how far long
work is; a pipe gets one plain line for each thing. `NO_COLOR` takes the colours away, `FORCE_COLOR` puts them
into a pipe. `--quiet` leaves out notes and progress. `aclog completion bash --install` (or `zsh`, `fish`)
makes the Tab key complete commands, flags, operations and resource types.
"""

_SCRIPT: Final = """
## aclog-kafka-acls

kafka-acls under another name, for scripts that were written for it: its flags, its output, and its exit \
codes 0 and 1. The environment says where the ACLs are, as `--bootstrap-server` does not: `ACLOG_LOG_URL` \
names the log, and every other setting has its variable too ([configuration](configuration.md)).

    ln -s "$(command -v aclog-kafka-acls)" ~/bin/kafka-acls.sh
    export ACLOG_LOG_URL=kafka://b1:9092,b2:9092/acls
    kafka-acls.sh --bootstrap-server b1:9092 --list --topic orders

```text
{usage}```
"""


def reference() -> str:
    """The whole file."""
    sections = (f"\n## {path}\n\n```text\n{text}\n```\n" for path, text in _helps(cli, None, "aclog"))
    return _HEAD + "".join(sections) + _SCRIPT.format(usage=usage())


def _helps(command: click.Command, parent: click.Context | None, name: str) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=_WIDTH, **command.context_settings
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for subname in command.list_commands(context):
            subcommand = command.get_command(context, subname)
            if subcommand is not None and not subcommand.hidden:
                yield from _helps(subcommand, context, subname)


def main() -> None:
    """Write docs/cli.md in the current directory, the project's root."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
