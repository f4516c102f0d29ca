"""Programs that Go builds once into `.cache/<name>/<version>`: of a module's release, or of our own sources.

A variable may name a program elsewhere. Without Go or such a program pytest skips the tests and says so.
`python -m support.go_programs` builds all of them and prints their directories.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoPrograms:
    """Of one module, built together.

    Attributes:
        name: of the first one, and what it is for people.
        version: of the module.
        packages: the programs', below which their names are the last part; none: our own sources.
        sources: directory of our own program, with its go.mod and the checksums of go.sum.
        go_version: what its go.mod asks for.
        variable: names the first one where it is elsewhere; the others are beside it.
        tags: build tags.
    """

    name: str
    version: str
    go_version: tuple[int, ...]
    variable: str
    packages: tuple[str, ...] = ()
    sources: Path | None = None
    tags: str = ""

    def directory(self) -> Path | None:
        """Where they are, if they are on this machine."""
        named = os.environ.get(self.variable)
        if named is not None:
            return Path(named).parent
        built = self._built()
        return built if built.exists() else None

    def missing_reason(self) -> str:
        """Why they are not there, and the way to them."""
        go = f"Go {'.'.join(map(str, self.go_version))} or newer"
        return f"no {self.name} was run: `make test` builds it where {go} is; {self.variable} names one"

    def build(self) -> Path | None:
        """Build them, if they are not there; None where there is no Go that could."""
        found = self.directory()
        if found is not None or not self._has_go():
            return found
        # An interrupted build must not look like a program.
        built = self._built()
        staging = built.with_name(f"{built.name}-{secrets.token_hex(4)}")
        environment = os.environ | {"GOBIN": str(staging), "CGO_ENABLED": "0"}
        flags = ("-trimpath", "-ldflags=-s -w", f"-tags={self.tags}")
        if self.sources is None:
            command = ["go", "install", *flags, *(f"{each}@v{self.version}" for each in self.packages)]
        else:
            command = ["go", "build", *flags, "-mod=readonly", f"-o={staging / self.name}", "."]
        try:
            subprocess.run(command, check=True, env=environment, cwd=self.sources)
            staging.replace(built)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return built

    def _built(self) -> Path:
        version = self.version
        if self.sources is not None:
            content = b"".join(path.read_bytes() for path in sorted(self.sources.iterdir()))
            version += f"-{hashlib.sha256(content).hexdigest()[:12]}"
        return ROOT / ".cache" / self.name / version

    def _has_go(self) -> bool:
        if shutil.which("go") is None:
            return False
        done = subprocess.run(["go", "env", "GOVERSION"], check=True, capture_output=True, text=True)
        found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
        return found is not None and tuple(int(part or 0) for part in found.groups()) >= self.go_version


VERSITYGW: Final = GoPrograms(
    name="versitygw",
    version="1.8.0",
    packages=("github.com/versity/versitygw/cmd/versitygw",),
    go_version=(1, 25),
    variable="ACLOG_VERSITYGW",
)
PROMETHEUS: Final = GoPrograms(
    name="prometheus",
    version="0.316.0",  # 3.16.0: the module has another number
    packages=(
        "github.com/prometheus/prometheus/cmd/prometheus",
        "github.com/prometheus/prometheus/cmd/promtool",
    ),
    go_version=(1, 26, 7),
    variable="ACLOG_PROMETHEUS",
    tags="remove_all_sd",  # without the clouds' libraries
)
CONFLUENT_ACLS: Final = GoPrograms(
    name="confluent-acls",
    version="0.14.0",  # of github.com/confluentinc/ccloud-sdk-go-v2/kafkarest, as in its go.mod
    sources=Path(__file__).with_name("confluent_acls"),
    go_version=(1, 25),
    variable="ACLOG_CONFLUENT_ACLS",
)
ADMIN_CLIENTS: Final = GoPrograms(
    name="admin-clients",
    version="1",  # those of the clients are in its go.mod
    sources=Path(__file__).with_name("admin_clients"),
    go_version=(1, 26),
    variable="ACLOG_ADMIN_CLIENTS",
)


if __name__ == "__main__":
    for programs in (VERSITYGW, PROMETHEUS, CONFLUENT_ACLS, ADMIN_CLIENTS):
        try:
            print(programs.build() or f"note: {programs.missing_reason()}", file=sys.stderr)
        except subprocess.CalledProcessError as error:
            # For example an unreachable registry: pytest reports which tests are skipped, and why.
            print(f"note: {programs.name} could not be built: {error}", file=sys.stderr)
