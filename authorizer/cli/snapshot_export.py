"""``aclog snapshot export``."""

from __future__ import annotations

import click


@click.command("export")
def export_command() -> None:
    """Write a state as a file for other tools."""
