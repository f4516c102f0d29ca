"""``aclog spark submit-file``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from authorizer.cli.command import Command

#: Not on sys.path itself; spark-submit puts its directory there.
SUBMIT_FILE: Final = Path(__file__).with_name("submit") / "aclog.py"


@click.command("submit-file", cls=Command)
def submit_file_command() -> None:
    """Print the path of the file that spark-submit runs.

    It takes what `aclog` takes, and may be copied to wherever aclog is installed.

    \b
    Examples:
      aclog spark submit-file
      spark-submit --master yarn "$(aclog spark submit-file)" spark snapshots --once ...
    """
    click.echo(SUBMIT_FILE)
