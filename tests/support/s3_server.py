"""A real server of S3's protocol, for tests of snapshot stores on an object store: versitygw, on a directory.

It is built once, by Go, into `.cache/versitygw/<version>`; where another one is to be taken, ACLOG_VERSITYGW
names it. Where there is neither Go nor such a program, those tests are not run, and pytest says so.

As a program: `python tests/support/s3_server.py` builds it and prints where it is.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.kafka_broker import HOST, free_ports

VERSION = "1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
#: What its go.mod asks for.
GO_VERSION = (1, 25)
ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / ".cache" / "versitygw" / VERSION / "versitygw"
VARIABLE = "ACLOG_VERSITYGW"
BUCKET = "acls"
START_S = 60.0


def server_program() -> Path | None:
    """The server, if it is on this machine."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named)
    return BUILT if BUILT.exists() else None


def missing_reason() -> str:
    """Why there is no server, and the way to one."""
    go = f"Go {'.'.join(map(str, GO_VERSION))} or newer"
    return (
        f"no object store was run: `make test` builds versitygw {VERSION} where {go} is; {VARIABLE} names one"
    )


def build() -> Path | None:
    """Build it, if it is not there; None where there is no Go that could."""
    found = server_program()
    if found is not None or not has_go():
        return found
    # What a build that breaks off leaves must not look like a program.
    staging = BUILT.parent.with_name(f"{VERSION}-{secrets.token_hex(4)}")
    environment = os.environ | {"GOBIN": str(staging), "CGO_ENABLED": "0"}
    try:
        subprocess.run(
            ["go", "install", "-trimpath", "-ldflags=-s -w", f"{MODULE}@v{VERSION}"],
            check=True,
            env=environment,
        )
        BUILT.parent.mkdir(parents=True, exist_ok=True)
        (staging / BUILT.name).replace(BUILT)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return BUILT


def has_go() -> bool:
    """Whether there is a Go that is new enough."""
    if shutil.which("go") is None:
        return False
    told = subprocess.run(["go", "env", "GOVERSION"], check=True, capture_output=True, text=True).stdout
    number = re.match(r"go(\d+)\.(\d+)", told)
    return number is not None and (int(number[1]), int(number[2])) >= GO_VERSION


@dataclass(slots=True)
class S3Server:
    """A server on a free port of this machine, with one bucket.

    Attributes:
        root: what it keeps, a directory for each bucket.
        port: where it listens, also when it is started again.
    """

    program: Path
    root: Path
    port: int
    key: str = "aclog-tests"
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client needs, and nothing of the user's own."""
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
        self.process = subprocess.Popen(
            [self.program, "--port", address, "--quiet", "posix", self.root],
            env={"ROOT_ACCESS_KEY_ID": self.key, "ROOT_SECRET_ACCESS_KEY": self.secret},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                urllib.request.urlopen(f"http://{address}/", timeout=1).close()
            except urllib.error.HTTPError:
                return  # it wants to know who asks
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
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


if __name__ == "__main__":
    print(build() or f"note: {missing_reason()}", file=sys.stderr)
