"""Containers by the docker command."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

STOP_TIMEOUT_S = 30


class ContainerError(Exception):
    """docker failed, or there is none; the message has what it said."""


@dataclass(frozen=True, slots=True)
class Container:
    """One that was started here."""

    id: str

    def inspect(self, template: str) -> str:
        """What docker knows of it, by a Go template."""
        return docker("container", "inspect", "--format", template, self.id).stdout.strip()

    def logs(self) -> str:
        done = docker("logs", self.id)
        return done.stdout + done.stderr

    def why_ended(self) -> str | None:
        """None: it runs."""
        if self.inspect("{{.State.Running}}") == "true":
            return None
        return f"the container exited with {self.inspect('{{.State.ExitCode}}')}:\n{self.logs()[-2000:]}"

    def stop(self) -> int:
        """Ask it to end (SIGTERM); its exit code."""
        docker("stop", "--time", str(STOP_TIMEOUT_S), self.id)
        return int(self.inspect("{{.State.ExitCode}}"))


def docker(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run it to its end; unless `check` is off another exit code than 0 raises ContainerError."""
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
    """`docker run --detach` with these; removed at the end with its own volumes."""
    container = Container(docker("run", "--detach", *arguments).stdout.strip())
    try:
        yield container
    finally:
        docker("rm", "--force", "--volumes", container.id)
