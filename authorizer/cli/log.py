"""``aclog log``: what a metadata log holds, as kafka-dump-log prints it; appending; verification."""

from __future__ import annotations

import click

from authorizer.cli.log_append import append_command
from authorizer.cli.log_dump import dump_command
from authorizer.cli.log_verify import verify_command


@click.group("log")
def log_command() -> None:
    """Look into a metadata log, append to one, or verify it."""


log_command.add_command(dump_command)
log_command.add_command(append_command)
log_command.add_command(verify_command)
