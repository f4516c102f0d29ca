"""Imports of commands: no more than necessary, because imports dominate the time of a short command.

Counted, not timed: a busy machine changes no result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.cli_commands import every_command
from support.data import real_log

OURS = {"authorizer", "replay", "snapshot", "records"}
#: The import of each of these takes as long as all imports of help.
SLOW_STDLIB = {"asyncio", "email", "http.client", "multiprocessing", "ssl", "urllib.request", "xml.sax"}

#: Not needed for help and completion.
OF_HELP = {"click", "msgspec", "typing_extensions"}
#: Not needed to read a directory and decide on its state.
OF_A_DECISION = OF_HELP | {"cramjam", "google_crc32c", "numpy"}
OF_A_DECISION |= {"immutables" if sys.version_info < (3, 14) else "rpds"}

RUN = """
import json, os, sys
from authorizer.cli.main import main
codes = []
for args in json.loads(sys.argv[1]):
    try:
        main(args)
    except SystemExit as end:
        codes.append(end.code)
threads = len(os.listdir("/proc/self/task"))
print(json.dumps({"codes": codes, "modules": sorted(sys.modules), "threads": threads}), file=sys.stderr)
"""


def modules_after(*commands: list[str], environ: dict[str, str] | None = None) -> set[str]:
    """The modules that are imported after these commands, in a new interpreter.

    Each command must succeed, and none may leave a thread behind: numpy's linear algebra starts some.
    """
    unlimited = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
        env={**unlimited, **(environ or {})},
    )
    ended = json.loads(done.stderr.splitlines()[-1])
    assert ended["codes"] == [0] * len(commands), done.stderr
    assert ended["threads"] == 1
    return set(ended["modules"])


def third_parties(modules: set[str]) -> set[str]:
    """Top-level names of third-party modules, without those that begin with an underscore."""
    names = {name.partition(".")[0] for name in modules} - OURS - set(sys.stdlib_module_names)
    # Debian's Python has a sitecustomize.
    return {name for name in names if not name.startswith("_") and name != "sitecustomize"}


def test_the_list_of_commands_imports_none_of_them() -> None:
    """`aclog --help`."""
    modules = modules_after(["--help"])
    assert third_parties(modules) == {"click"}
    assert "authorizer.cli.check.command" not in modules


def test_help_imports_nothing_heavy() -> None:
    """The options of a command need no numpy, no Parquet, no HTTP and no log."""
    modules = modules_after(*([*path, "--help"] for path in every_command()))
    assert {"authorizer.cli.check.command", "authorizer.cli.spark.history"} <= modules
    assert third_parties(modules) <= OF_HELP
    assert not modules & SLOW_STDLIB


@pytest.mark.parametrize("words", ["aclog ", "aclog snapshot ", "aclog check --", "aclog check --operation "])
def test_completion_imports_nothing_heavy(words: str) -> None:
    """The shell runs it at every press of the Tab key."""
    environ = {
        "_ACLOG_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    modules = modules_after([], environ=environ)
    assert "click.shell_completion" in modules
    assert third_parties(modules) <= OF_HELP
    assert not modules & SLOW_STDLIB


QUESTION = ["--principal", "User:alice", "--operation", "Read", "--topic", "orders"]


@pytest.mark.parametrize(
    "command",
    [
        ["check", *QUESTION],
        ["check", *QUESTION, "--explain", "--json"],
        ["acls", "--list"],
        ["log", "verify"],
    ],
    ids=" ".join,
)
def test_a_directory_is_read_without_modules_of_servers_and_stores(command: list[str]) -> None:
    """No Parquet, no Avro, no logging, no event loop and no Kafka client."""
    log = ["--log", str(real_log("kraft-small"))]
    modules = modules_after([*command, *log])
    assert "snapshot.image" in modules
    assert third_parties(modules) <= OF_A_DECISION
    assert not modules & SLOW_STDLIB
