"""Containers by the docker command."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

STOP_TIMEOUT_S = 30


class ContainerError(Exception):
    """docker failed or is missing; the message has its output."""


@dataclass(frozen=True, slots=True)
class Container:
    """A started container."""

    id: str

    def inspect(self, template: str) -> str:
        """A property of the container, by a Go template."""
        return docker("container", "inspect", "--format", template, self.id).stdout.strip()

    def logs(self) -> str:
        done = docker("logs", self.id)
        return done.stdout + done.stderr

    def why_ended(self) -> str | None:
        """Why it ended; None: it runs."""
        if self.inspect("{{.State.Running}}") == "true":
            return None
        return f"the container exited with {self.inspect('{{.State.ExitCode}}')}:\n{self.logs()[-2000:]}"

    def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        docker("stop", "--time", str(STOP_TIMEOUT_S), self.id)
        return int(self.inspect("{{.State.ExitCode}}"))


def docker(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run docker; raises ContainerError if `check` is set and the exit code is not 0."""
    command = ["docker", *map(str, arguments)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ContainerError("there is no docker command") from None
    if check and done.returncode != 0:
        raise ContainerError(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr[-4000:]}")
    return done


def engine_has(image: str) -> bool:
    """Whether a Docker engine answers and has the image: an engine alone may not be able to get it."""
    if shutil.which("docker") is None:
        return False
    return docker("image", "inspect", image, check=False).returncode == 0


@contextmanager
def running(*arguments: object) -> Iterator[Container]:
    """`docker run --detach` with these arguments; removed at the end with its volumes."""
    container = Container(docker("run", "--detach", *arguments).stdout.strip())
    try:
        yield container
    finally:
        docker("rm", "--force", "--volumes", container.id)
