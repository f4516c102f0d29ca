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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

#: Name of the program and of its installed script.
NAME: Final = "aclog"
#: Set by the completion scripts of shells: aclog then only prints completions.
COMPLETE_VARIABLE: Final = "_ACLOG_COMPLETE"


class Entry(NamedTuple):
    """A command of ``aclog``; ``module``: below ``authorizer.cli``, or those of a group's commands."""

    module: str | Mapping[str, str]
    summary: str


#: In the order of ``aclog --help``. The summary is the first line of the command's own help (a test compares
#: them), so that listing the commands imports none of them.
COMMANDS: Final[Mapping[str, Entry]] = {
    "quickstart": Entry(
        "quickstart.command", "Run a node, its console and the Spark jobs on an example log."
    ),
    "connect": Entry(
        "connect", "Find out how a cluster can be followed, and write the configuration for it."
    ),
    "check": Entry("check.command", "Decide whether a principal may do an operation, as the broker would."),
    "acls": Entry("acls.command", "Add, remove or list ACLs, with the flags and output of kafka-acls."),
    "log": Entry(
        {
            "append": "log.append",
            "copy": "log.copy",
            "create": "log.create",
            "dump": "log.dump",
            "verify": "log.verify",
        },
        "Create, dump, append to, copy or verify a metadata log.",
    ),
    "snapshot": Entry(
        {
            "create": "snapshot.create",
            "export": "snapshot.export",
            "import": "snapshot.create",
            "list": "snapshot.listing",
            "verify": "snapshot.verify",
        },
        "List, create, verify, import or export snapshots.",
    ),
    "serve": Entry(
        "serve.command", "Run a node that serves decisions over HTTP, for a gateway, registry or proxy."
    ),
    "token": Entry("tokens", "Create, list or revoke bearer tokens for the sidecar."),
    "credentials": Entry(
        "credentials", "Add, list or remove users that log in by SASL over Kafka's protocol."
    ),
    "diff": Entry("sets.diff", "Compare two sets of ACLs and the permissions that they give."),
    "plan": Entry("plan", "Show what a file of ACLs would change, and which permissions change with it."),
    "apply": Entry("apply", "Apply a plan of `aclog plan --output`."),
    "who-can": Entry(
        "sets.allowed", "Show who may do an operation on a name, or on all names with a prefix."
    ),
    "what-can": Entry("sets.allowed", "Show what a principal may do."),
    "blame": Entry("blame.command", "Show which records changed an answer, and when."),
    "lint": Entry("sets.lint", "Find redundant, ineffective and suspicious ACLs."),
    "test": Entry("sets.test", "Check that access is as a file of expectations says."),
    "review": Entry("reviews.review", "Find the ACLs that the requests of an authorizer's log did not need."),
    "report": Entry(
        "report.command", "Write effective permissions, and what changed, as one file for an audit."
    ),
    "shell": Entry("shell.command", "Browse a state like a file system: ls, cd, cat, tree, find."),
    "spark": Entry(
        {
            "all": "spark.job_commands",
            "changes": "spark.job_commands",
            "counts": "spark.job_commands",
            "doctor": "spark.doctor",
            "history": "spark.history",
            "maintain": "spark.maintain",
            "pack": "spark.pack",
            "review": "spark.review",
            "snapshots": "spark.job_commands",
            "sql": "spark.sql",
            "submit-file": "spark.job_commands",
        },
        "Build snapshots, counts and the history of changes with Spark.",
    ),
    "completion": Entry("completion", "Print or install completion with the Tab key for a shell."),
}
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
