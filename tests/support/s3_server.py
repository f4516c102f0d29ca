"""A real server of S3's protocol, for tests of stores on an object store: versitygw, on a directory."""

from __future__ import annotations

import os
import secrets
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.kafka_broker import HOST, free_ports
from support.waiting import wait_until

BUCKET = "acls"
START_S = 60.0


@dataclass(slots=True)
class S3Server:
    """A server on a free port of this machine, with one bucket.

    Attributes:
        root: its data, a directory for each bucket.
        port: its port, also after a restart.
    """

    program: Path
    root: Path
    port: int
    key: str = "aclog-tests"
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for a client, without those of the user."""
        return {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{self.port}",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        """Start, and wait until it answers."""
        (self.root / BUCKET).mkdir(parents=True, exist_ok=True)
        address = f"{HOST}:{self.port}"
        process = self.process = subprocess.Popen(
            [self.program, "--port", address, "--quiet", "posix", self.root],
            env={"ROOT_ACCESS_KEY_ID": self.key, "ROOT_SECRET_ACCESS_KEY": self.secret},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def answers() -> bool:
            assert process.poll() is None
            try:
                urllib.request.urlopen(f"http://{address}/", timeout=1).close()
            except urllib.error.HTTPError:
                return True  # it asks for credentials
            except OSError:
                return False
            return True

        wait_until(answers, "the S3 server", timeout_s=START_S)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def s3_server(program: Path, root: Path) -> Iterator[S3Server]:
    """A started server."""
    (port,) = free_ports(1)
    server = S3Server(program, root, port)
    try:
        server.start()
        yield server
    finally:
        server.kill()
