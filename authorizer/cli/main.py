"""The ``aclog`` command: its subcommands, and how errors end them.

``Commands.invoke`` runs every subcommand and turns what it raises into a message and an exit code
(``failure.failure_of``); ``--debug`` adds the traceback.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.command import LazyGroup, name_as_started
from authorizer.cli.command_name import COMMANDS, COMPLETE_VARIABLE, command_line
from authorizer.cli.failure import ExitCode, failure_of
from authorizer.cli.rendering.streams import OutputError, guard_streams
from authorizer.cli.rendering.terminal import colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem


_EPILOG: Final = (
    "Exit codes: 0 done or allowed; 1 denied or different; 2 wrong usage or configuration, or a right is "
    "missing; 3 not ready, try again; 4 bad data; 70 a defect in aclog."
)


class Commands(LazyGroup):
    """The root group: turns what commands raise into messages and exit codes."""

    def __init__(self, **settings: Any) -> None:
        modules = {name: each.module for name, each in COMMANDS.items() if isinstance(each.module, str)}
        super().__init__(modules=modules, **settings)
        for name, each in COMMANDS.items():
            if not isinstance(each.module, str):
                self.add_command(LazyGroup(name, help=each.summary, modules=each.module))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # Subcommands inherit it; a program that calls aclog may pass another value.
        extra.setdefault("color", colour())
        return super().make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        # click's method would import each command for the first line of its help.
        commands = [
            CompletionItem(name, help=each.summary)
            for name, each in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        name_as_started(self)
        super().format_help_text(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            # Raises BrokenPipeError here, not at exit, if the reader of the pipe has ended (`| head`).
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            drop_stdout()
            raise click.exceptions.Exit(ExitCode.BROKEN_PIPE) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        except Exception as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            raise failure_of(error) from error
        return result


def drop_stdout() -> None:
    """Discard further output: the reader of the pipe has ended."""
    # Flushing the buffer at exit would fail again.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, io.UnsupportedOperation):
        sys.stdout = io.TextIOWrapper(io.BytesIO())


@click.command(
    cls=Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(package_name="aclog", message="aclog %(version)s")
@click.option(
    "--debug", is_flag=True, envvar="ACLOG_DEBUG", help="Print a traceback with every error (ACLOG_DEBUG)."
)
def cli(*, debug: bool) -> None:
    """Kafka's access control, outside the broker.

    aclog replays a cluster's ACL records from its metadata log and answers "may this principal do this?"
    exactly as Kafka's own StandardAuthorizer does.

    \b
    Examples:
      aclog quickstart
      aclog check --log file:/var/kafka/__cluster_metadata-0 \\
          --principal User:alice --operation Read --topic orders --explain
    """


def prepare_process() -> None:
    """Set up the process; a console script calls this first."""
    # OpenBLAS, which aclog does not use, starts a thread for each processor: a third of numpy's import time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's allocators return memory and allocate it again: a fifth of the time to read a large snapshot.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    guard_streams()


def main(args: Sequence[str] | None = None) -> None:
    """The console script."""
    prepare_process()
    try:
        cli.main(args, prog_name=command_line([]), complete_var=COMPLETE_VARIABLE)
    except OutputError as error:  # click prints --help and --version before it invokes a command
        failure = failure_of(error)
        failure.show()
        sys.exit(failure.exit_code)
