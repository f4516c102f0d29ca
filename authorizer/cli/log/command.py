"""``aclog log``: making a log; what it holds, as kafka-dump-log prints it; writing; verification."""

from __future__ import annotations

import click

from authorizer.cli.command import Group
from authorizer.cli.log.append import append_command
from authorizer.cli.log.copy import copy_command
from authorizer.cli.log.create import create_command
from authorizer.cli.log.dump import dump_command
from authorizer.cli.log.verify import verify_command


@click.group("log", cls=Group)
def log_command() -> None:
    """Make a metadata log, look into one, append to it, copy its ACLs, or verify it."""


log_command.add_command(create_command)
log_command.add_command(dump_command)
log_command.add_command(append_command)
log_command.add_command(copy_command)
log_command.add_command(verify_command)
