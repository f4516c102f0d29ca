"""Servers that Go builds once from a module's release, into `.cache/<name>/<version>`.

A variable may name a program elsewhere. Without Go or such a program pytest skips the tests and says so.
`python -m support.go_programs` builds all of them and prints their directories.
"""

from __future__ import annotations

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
        packages: the programs', below which their names are the last part.
        go_version: what its go.mod asks for.
        variable: names the first one where it is elsewhere; the others are beside it.
        tags: build tags.
    """

    name: str
    version: str
    packages: tuple[str, ...]
    go_version: tuple[int, ...]
    variable: str
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
        staging = built.with_name(f"{self.version}-{secrets.token_hex(4)}")
        environment = os.environ | {"GOBIN": str(staging), "CGO_ENABLED": "0"}
        try:
            subprocess.run(
                [
                    *("go", "install", "-trimpath", "-ldflags=-s -w", f"-tags={self.tags}"),
                    *(f"{package}@v{self.version}" for package in self.packages),
                ],
                check=True,
                env=environment,
            )
            staging.replace(built)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return built

    def _built(self) -> Path:
        return ROOT / ".cache" / self.name / self.version

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


if __name__ == "__main__":
    for programs in (VERSITYGW, PROMETHEUS):
        try:
            print(programs.build() or f"note: {programs.missing_reason()}", file=sys.stderr)
        except subprocess.CalledProcessError as error:
            # For example an unreachable registry: pytest reports which tests are skipped, and why.
            print(f"note: {programs.name} could not be built: {error}", file=sys.stderr)
