"""The words that start aclog, for commands in texts that a user can paste.

``aclog`` may not be on the PATH: ``make`` puts it in ``.venv/bin``, and ``python -m authorizer.cli`` needs no
script. Texts name commands as ``aclog COMMAND``; ``as_pasted`` replaces ``aclog`` when they are printed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: Name of the program and of its installed script.
NAME: Final = "aclog"
#: Set by the completion scripts of shells: aclog then only prints completions.
COMPLETE_VARIABLE: Final = "_ACLOG_COMPLETE"
#: The commands, in the order of ``aclog --help``.
COMMANDS: Final = (
    "quickstart",
    "connect",
    "check",
    "acls",
    "log",
    "snapshot",
    "serve",
    "token",
    "credentials",
    "diff",
    "plan",
    "apply",
    "who-can",
    "what-can",
    "blame",
    "lint",
    "test",
    "review",
    "report",
    "shell",
    "spark",
    "completion",
)
# Only before a command, because texts also name the program.
_IN_TEXT: Final = re.compile(rf"(?<![\w./-]){NAME}(?= (?:{'|'.join(COMMANDS)}|--debug)(?![\w-]))")


def command_words() -> tuple[str, ...]:
    """The words that start aclog here: ``aclog``, ``.venv/bin/aclog``, or an interpreter with ``-m``."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py" and started.parent.name == "cli":
        return sys.orig_argv[0], "-m", "authorizer.cli"
    if not started.name.startswith(NAME) or started.suffix:
        # A program that calls the commands in its own process: tests, spark-submit.
        return (NAME,)
    # Other scripts (aclog-kafka-acls) are installed in the same directory.
    script = started.with_name(NAME)
    if (found := shutil.which(NAME)) is not None and _is_same(found, script):
        return (NAME,)
    # pathlib removes the ./ that the shell needs.
    return (str(script) if script.parent != Path() else f".{os.sep}{script}",)


def command_line(words: Sequence[str]) -> str:
    """``aclog`` with these words after it, quoted for a shell."""
    return shlex.join([*command_words(), *words])


def as_pasted(text: str) -> str:
    """Replace the program's name in each ``aclog COMMAND`` of a text, so that it can be pasted."""
    return _IN_TEXT.sub(lambda _: shlex.join(command_words()), text)


def _is_same(one: str, other: Path) -> bool:
    try:
        return other.samefile(one)
    except OSError:
        return False
