"""``aclog quickstart``: a node on a log with a real broker's ACLs, and a decision that one ACL changes.

SparkProcess runs `aclog spark all` beside the node.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import click

from authorizer.api.errors import AuthorizerNotReadyError, ConfigError
from authorizer.cli.command import Command
from authorizer.cli.command_name import command_words
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.quickstart.directory import (
    CHANGES,
    COUNTS,
    DEFAULT_DIRECTORY,
    LOG,
    PROPERTIES,
    SNAPSHOTS,
    delete_files,
    free_directory,
    import_example,
    write_settings,
)
from authorizer.cli.quickstart.tour import Tour, say_cluster_commands, say_commands, say_spark_commands
from authorizer.cli.rendering.output import say, say_command, step
from authorizer.cli.signals import ends_on_signals
from authorizer.cli.spark.requirements import JAVA_MIN, missing_requirement
from records.install_command import install_command
from replay.errors import InvariantError

if TYPE_CHECKING:
    from authorizer.configuration.load import Config
    from authorizer.node.node import Node
    from authorizer.sidecar.server import Sidecar


_HOST: Final = "127.0.0.1"
#: Not the default port of `aclog serve`, which runs beside a quickstart.
_PORT: Final = 8280
_PORTS: Final = range(_PORT, _PORT + 20)
_TIMEOUT_S: Final = 30.0


@click.command("quickstart", cls=Command)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the embedded log and the snapshots; a second run continues with them.  "
    f"[default: {DEFAULT_DIRECTORY}, or {DEFAULT_DIRECTORY}-2 while a quickstart runs in that]",
)
@click.option(
    "--fresh", is_flag=True, help="First delete the files of an earlier quickstart in the directory."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port on {_HOST}; 0 for any free one.  [default: {_PORT}, or the next free one]",
)
@click.option(
    "--stay/--exit", default=True, show_default=True, help="Continue to serve after the tour, or end."
)
@click.option(
    "--spark/--no-spark",
    default=True,
    show_default=True,
    help="After the tour also run the Spark jobs on the log once, if pyspark and Java are installed.",
)
def quickstart_command(
    *, directory: Path | None, fresh: bool, port: int | None, stay: bool, spark: bool
) -> None:
    """Run a node, its console and the Spark jobs on an example log.

    Imports a real broker's metadata log into an embedded one, replays it, serves decisions over HTTP, and
    shows with explanations how one ACL changes a decision from DENIED to ALLOWED. It also serves the console.
    Behind it Spark builds snapshots, counts and the history of the same log. Needs no Kafka. Runs until
    Ctrl-C.

    Exit code 0: done; 2: wrong usage, such as a port that is in use.

    \b
    Examples:
      aclog quickstart
      aclog quickstart --directory /tmp/aclog --fresh --exit --no-spark
    """
    from authorizer.configuration.log_setup import setup_logging
    from authorizer.node.audit_writer import AuditWriter
    from authorizer.node.node import Node

    step("1. The log")
    if directory is None:
        directory = free_directory()
    if fresh:
        delete_files(directory)
    import_example(directory / LOG)
    step("2. The node")
    with ends_on_signals(), ExitStack() as opened:
        config, sidecar = _open_sidecar(directory, port)
        opened.enter_context(sidecar)
        output = setup_logging(config.logging_format, "WARNING")
        audit = opened.enter_context(AuditWriter.configured(config, output))
        node = opened.enter_context(Node.open(config, audit=audit))
        audit.show_to(node.metrics)
        _start(node, sidecar)
        url = sidecar.urls[0]
        Tour(node, url, directory).run()
        missing = missing_requirement() if spark else "--no-spark is given"
        if spark:
            step("8. The same log through Spark: snapshots, counts and the history")
            say(
                "Spark starts after this tour, behind the node; its lines are the last ones."
                if missing is None
                else f"Skipped, because {missing}: {install_command('spark')}, and Java {JAVA_MIN} or newer."
            )
        say_commands(directory, url, has_snapshots=config.snapshot_store is not None)
        say_cluster_commands()
        if stay:
            click.echo(f"\nThe console is at {url}/ in a browser.\nServing on {url} until Ctrl-C.")
        code = _run_spark(node, directory) if missing is None else 0
        if stay:
            threading.Event().wait()
        if code:
            raise click.exceptions.Exit(code)


def _open_sidecar(directory: Path, port: int | None) -> tuple[Config, Sidecar]:
    """Bind the port; without one the default port, the next free one, or any if many are in use."""
    if port is not None:
        return _bind(directory, port)
    for candidate in _PORTS:
        with suppress(Failure):
            bound = _bind(directory, candidate)
            if candidate != _PORT:
                say(f"Port {_PORT} is in use, so this node has port {candidate}.")
            return bound
    say(f"Port {_PORT} is in use, so this node has any free one.")
    return _bind(directory, 0)


def _bind(directory: Path, port: int) -> tuple[Config, Sidecar]:
    from authorizer.console.routes.in_process_console import InProcessConsole
    from authorizer.sidecar.server import Sidecar

    config = write_settings(directory, port)
    try:
        return config, Sidecar(config, groups=InProcessConsole())
    except ConfigError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise Failure(
            f"--port {port}: cannot listen on {_HOST}:{port}: {error.__cause__.strerror}",
            ExitCode.USAGE,
            f"Name another port, 0 for any free one, or none: then it is {_PORT}, or the next free one.",
        ) from error


def _start(node: Node, sidecar: Sidecar) -> None:
    began_s = time.perf_counter()
    node.start()
    if not node.wait_until_ready(_TIMEOUT_S):
        raise AuthorizerNotReadyError(f"not loaded after {_TIMEOUT_S:g} s: {node.status().not_ready_reason}")
    ready_ms = (time.perf_counter() - began_s) * 1000
    sidecar.start(node)
    status = node.status()
    say(
        f"Ready {ready_ms:.0f} ms after its start: {status.acl_count} ACLs in force at end offset "
        f"{status.end_offset}, digest {status.digest}.",
        f"Serving on {sidecar.urls[0]}",
    )


def _run_spark(node: Node, directory: Path) -> int:
    """Run the Spark jobs on the log while the node serves; returns their exit code."""
    from snapshot.store.snapshot_store import SnapshotStore

    step("Spark")
    with SparkProcess(directory) as process:
        code = process.wait()
    if code == 0:
        stored = SnapshotStore(str(directory / SNAPSHOTS)).survey(node.log.identity)
        newest = [each.manifest for each in stored if each.manifest is not None][-1]
        # The log may have grown meanwhile.
        state = node.recent_states.at(newest.provenance.end_offset)
        if state is not None:
            if state.index.image.digest != newest.digest:
                raise InvariantError(
                    f"the newest snapshot is not the node's state at its end offset: {newest}"
                )
            say("The newest snapshot has the digest of the node's own state: any node may start from it.")
        say_spark_commands(directory)
    return code


#: Time to end in order before the processes are killed; the next run continues either way.
_END_S: Final = 10.0
_POLL_INTERVAL_S: Final = 0.05
#: State of a process that has ended and was not waited for yet.
_ENDED: Final = "Z"


class SparkProcess:
    """The process, with its own memory. Leaving the block ends it, its JVM and its workers."""

    def __init__(self, directory: Path) -> None:
        words = ["spark", "all", "--config", str(directory / PROPERTIES), "--once"]
        words += ["--counts", str(directory / COUNTS), "--history", str(directory / CHANGES)]
        say_command(*command_words(), *words)
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "authorizer.cli", *words, "--progress"],
            stdin=subprocess.DEVNULL,
            # Printed here, so that no line is lost and none breaks another.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            # Ctrl-C goes to every process of a terminal's group; this one is ended from here.
            start_new_session=True,
        )
        self._threads = ThreadPoolExecutor(1, "aclog-spark-output")
        self._printed = self._threads.submit(self._print_lines)

    def wait(self) -> int:
        """Wait for the end of the jobs; returns the exit code."""
        self._printed.result()
        return self._process.wait()

    def _print_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            say(line.rstrip("\n"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process.poll() is None:
            say(f"Stopping Spark (process {self._process.pid}); the next run continues ...")
            _end(self._process)
        self._threads.shutdown()
        with self._process:
            """Close the pipe."""


def _end(process: subprocess.Popen[str]) -> None:
    """End a running process and those that it started: Spark's JVM ends when its driver has ended."""
    # Stopped, it starts no further process while they are listed.
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    # The JVM has its own session, and its workers are in that. A session has the id of the process that makes
    # it, and a child may make its session only after this.
    children = [each for each in _processes() if each.parent == process.pid]
    sessions = {process.pid, *(each.session for each in children), *(each.pid for each in children)}
    process.terminate()
    process.send_signal(signal.SIGCONT)
    deadline_s = time.monotonic() + _END_S
    while left := [each.pid for each in _processes() if each.session in sessions]:
        if time.monotonic() > deadline_s:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            break
        time.sleep(_POLL_INTERVAL_S)


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int


def _processes() -> Iterator[_Process]:
    """All running processes of this machine that this user may see."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of a program, in parentheses, may contain anything.
            state, parent, _, session, *_ = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            if state != _ENDED:
                yield _Process(int(stat.parent.name), int(parent), int(session))
