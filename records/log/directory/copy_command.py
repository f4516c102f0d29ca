"""The commands that copy a log that cannot be written into one that can, for messages."""

from __future__ import annotations

import shlex
from pathlib import Path


def copy_command(directory: Path) -> str:
    """A command that copies what can be read: all that aclog understands, up to where it is damaged."""
    source = shlex.quote(f"file:{directory}")
    return f"aclog log dump --log {source} | aclog log append --log NEW_DIRECTORY --create --skip-others"
