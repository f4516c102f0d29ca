"""A Python without its GIL: the library and the commands refuse to decide, with a message."""

from __future__ import annotations

import subprocess
import sys

from support.data import real_log

#: Modules that decide requests, in a program or over HTTP.
DECIDING = (
    "authorizer.node.standard_authorizer",
    "authorizer.node.node",
    "authorizer.sidecar.app",
    "authorizer.engine.index.acl_index",
)

AS_FREE_THREADED = "import sys; sys._is_gil_enabled = lambda: False; sys.argv[0] = 'aclog'; "
IMPORTING = """
from importlib import import_module
from authorizer.api.errors import UnsupportedPythonError
for module in sys.argv[1:]:
    try:
        import_module(module)
    except UnsupportedPythonError as error:
        print(module, str(error).partition(",")[0])
"""
REFUSED = "aclog cannot decide on a free-threaded Python whose GIL is off"
CHECK = ["check", "--log", str(real_log("kraft-small")), "--principal", "User:a", "--operation", "Read"]


def run(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", AS_FREE_THREADED + program, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_modules_that_decide_cannot_be_imported() -> None:
    """Every way to decisions is refused, also at the second import."""
    modules = DECIDING * 2
    done = run(IMPORTING, *modules)
    assert done.stdout.splitlines() == [f"{module} {REFUSED}" for module in modules], done.stderr


def test_a_command_says_what_to_do() -> None:
    """One message with the remedies, and the exit code of wrong usage."""
    done = run("from authorizer.cli.main import main; main(sys.argv[1:])", *CHECK, "--topic", "t")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {REFUSED}")
    assert "PYTHON_GIL=1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_free_threaded_build_with_its_gil_is_accepted() -> None:
    """The running mode counts, not the build."""
    with_gil = run("sys._is_gil_enabled = lambda: True; import authorizer.node.node")
    assert (with_gil.returncode, with_gil.stderr) == (0, "")
