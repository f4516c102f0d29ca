"""The client's side of a measurement over HTTP: `benchmarks.http_load` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.anchor import ROOT
from benchmarks.http_load import Order, Outcome
from benchmarks.http_servers import Server


@contextmanager
def bodies_file(bodies: Sequence[object]) -> Iterator[Path]:
    """A file with a body on each line."""
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        file.writelines(json.dumps(body) + "\n" for body in bodies)
        file.flush()
        yield Path(file.name)


class Load(msgspec.Struct):
    """What one order came to."""

    rate: float
    cpu_ns: float
    p99_ns: float


class LoadClient:
    """`benchmarks.http_load`, running."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def load(self, order: Order) -> Outcome:
        print(msgspec.json.encode(order).decode("ascii"), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise RuntimeError(f"the client ended with {self._process.wait()}")
        return msgspec.json.decode(line, type=Outcome)

    def measured(self, server: Server, order: Order) -> Load:
        """The same, with the server's CPU for each request."""
        before_ns = server.cpu_ns()
        outcome = self.load(order)
        cpu_ns = server.cpu_ns() - before_ns
        return Load(outcome.requests / outcome.seconds, cpu_ns / outcome.requests, outcome.p99_ns)


@contextmanager
def running_client() -> Iterator[LoadClient]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.http_load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        yield LoadClient(process)
