"""``aclog snapshot``: what a store holds; making, checking, importing and exporting snapshots."""

from __future__ import annotations

import click

from authorizer.cli.command import Group
from authorizer.cli.snapshot.create import create_command
from authorizer.cli.snapshot.export import export_command
from authorizer.cli.snapshot.import_ import import_command
from authorizer.cli.snapshot.list_ import list_command
from authorizer.cli.snapshot.verify import verify_command


@click.group("snapshot", cls=Group)
def snapshot_command() -> None:
    """List, create, verify, import or export snapshots."""


for _command in (list_command, create_command, verify_command, import_command, export_command):
    snapshot_command.add_command(_command)
