"""The command's own name, as it can be pasted into the shell that started it.

``aclog`` need not be on the PATH: ``make`` puts it in ``.venv/bin``, and ``python -m authorizer.cli`` needs
no script at all. Every text that names a command is written with plain ``aclog`` and goes through
``as_pasted`` where it is shown.
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

#: The program's name, and that of the script that installing it makes.
NAME: Final = "aclog"
#: The shells' scripts set it: then aclog prints what would complete a line, and does nothing else.
COMPLETE_VARIABLE: Final = "_ACLOG_COMPLETE"
#: The commands, in the order of ``aclog --help``.
COMMANDS: Final = (
    "quickstart",
    "check",
    "acls",
    "log",
    "snapshot",
    "serve",
    "token",
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
# Only what is followed by a command: the program is called aclog, too.
_IN_TEXT: Final = re.compile(rf"(?<![\w./-]){NAME}(?= (?:{'|'.join(COMMANDS)}|--debug)(?![\w-]))")


def command_words() -> tuple[str, ...]:
    """The words that start aclog here: ``aclog``, ``.venv/bin/aclog``, or an interpreter with ``-m``."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py" and started.parent.name == "cli":
        return sys.orig_argv[0], "-m", "authorizer.cli"
    if not started.name.startswith(NAME) or started.suffix:
        # A program that calls the commands in its own process: tests, spark-submit.
        return (NAME,)
    # What is installed beside it under another name begins with the same word.
    script = started.with_name(NAME)
    if (found := shutil.which(NAME)) is not None and _is_same(found, script):
        return (NAME,)
    # Path drops the ./ that the shell needs.
    return (str(script) if script.parent != Path() else f".{os.sep}{script}",)


def command_line(words: Sequence[str]) -> str:
    """``aclog`` with these words after it, quoted for a shell."""
    return shlex.join([*command_words(), *words])


def as_pasted(text: str) -> str:
    """The text with each ``aclog COMMAND`` in it as it can be pasted."""
    return _IN_TEXT.sub(lambda _: shlex.join(command_words()), text)


def _is_same(one: str, other: Path) -> bool:
    try:
        return other.samefile(one)
    except OSError:
        return False
