"""``aclog shell``."""

from __future__ import annotations

import click

from authorizer.cli.acl_sources.options import acl_source, set_source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode


@click.command("shell", cls=Command)
@click.argument("words", metavar="[COMMAND [PATH]...]", nargs=-1)
@set_source_options
def shell_command(*, words: tuple[str, ...], as_json: bool) -> None:
    """Browse a state like a file system: ls, cd, cat, tree, find.

    Without COMMAND it reads commands from stdin, on a terminal with completion (Tab) and a history. The
    command help lists all commands. The state is read once, at the start.

    \b
      /acl/id/ID                           /acl/principal/PRINCIPAL/ID
      /acl/resource/TYPE/NAME/PATTERN/ID   /topics/NAME
      /features/NAME                       /cluster/brokers/ID
      /image: kafka-metadata-shell's own paths

    --acls takes any set that `aclog diff` takes: a log, LOG@OFFSET, a snapshot store, a .checkpoint file, a
    running node, a cluster. Only logs, stores and checkpoints have more than ACLs. /image has the paths and
    the text of kafka-metadata-shell; secrets are neither stored nor printed.

    In paths, *, ? and {a,b} match names. These characters, spaces and slashes in names are printed and typed
    with a backslash before them, and unprintable characters by their code.

    --json prints a line for each entry, with the values of leaves for cat and tree.

    Exit code 0: all paths exist; 1: a path does not exist.

    \b
    Examples:
      aclog shell --log /var/kafka/__cluster_metadata-0
      aclog shell --log DIR ls /acl/principal
      aclog shell --log DIR cat '/acl/principal/User:alice/*' --json
      aclog shell --acls 00000000000000000264-0000000001.checkpoint tree /features
    """
    from authorizer.cli.rendering.output import note
    from authorizer.cli.shell.interactive import interact
    from authorizer.cli.shell.session import Browser, Session
    from authorizer.cli.shell.tree import tree_of
    from authorizer.cli.workspace import Workspace

    workspace = Workspace.given()
    image = acl_source(workspace).load().image
    if not image.metadata.is_complete:
        note(
            "this state starts from an old snapshot without topics, SCRAM users and delegation tokens: it "
            "has only those in later records of the log",
            label="",
        )
    browser = Browser(tree_of(image))
    if not words:
        interact(browser, as_json=as_json)
    elif not Session(browser, as_json=as_json).run(words):
        raise click.exceptions.Exit(ExitCode.NO)
