"""A browser for tests, and axe-core, which checks accessibility.

The browser is ACLOG_CHROMIUM, else one on PATH, else one from an npm package that is fetched once into
`.cache/npm` and must have the checksum below. Playwright drives it.
`python -m support.browser` fetches what is missing.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import secrets
import shutil
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import brotli

ROOT = Path(__file__).resolve().parents[2]
REGISTRY: Final = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
_TIMEOUT_S: Final = 300
_ON_PATH: Final = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """One release of a package.

    Attributes:
        name: in the registry.
        version: of the release.
        sha512: of its archive, as npm writes it: base64.
    """

    name: str
    version: str
    sha512: str

    @property
    def directory(self) -> Path:
        """The directory of its fetched files."""
        return ROOT / ".cache" / "npm" / f"{self.name.replace('/', '+')}-{self.version}"

    def fetch(self) -> Path:
        """Fetch it unless it is there. Raises OSError, or ValueError if the checksum differs."""
        if self.directory.exists():
            return self.directory
        url = f"{REGISTRY}/{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            archive = answer.read()
        if base64.b64encode(hashlib.sha512(archive).digest()).decode() != self.sha512:
            raise ValueError(f"{url}: the checksum differs from the one in {__file__}")
        # An interrupted unpacking must not look like a package.
        staging = self.directory.with_name(f"{self.directory.name}-{secrets.token_hex(4)}")
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(staging, filter="data")
            _unpack_browser(staging / "package")
            staging.replace(self.directory)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return self.directory


CHROMIUM: Final = NpmPackage(
    "@sparticuz/chromium",
    "147.0.0",
    "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ==",
)
AXE: Final = NpmPackage(
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser that can be started.

    Attributes:
        path: the program.
        libraries: directory of its shared libraries; None: those of the machine.
    """

    path: str
    libraries: Path | None = None

    def environment(self) -> dict[str, str | float | bool]:
        """Environment variables to start it with."""
        found: dict[str, str | float | bool] = dict(os.environ)
        if self.libraries is not None:
            found["LD_LIBRARY_PATH"] = str(self.libraries)
        return found


def browser() -> Browser:
    """The browser. Raises AssertionError, with what to do, if there is none."""
    named = os.environ.get("ACLOG_CHROMIUM") or next(filter(None, map(shutil.which, _ON_PATH)), None)
    if named is not None:
        return Browser(named)
    packaged = CHROMIUM.directory / "package" / "unpacked"
    assert packaged.exists(), (
        "no browser: `make setup` fetches one, `apt-get install chromium` installs one, and ACLOG_CHROMIUM "
        "names one"
    )
    return Browser(str(packaged / "chromium"), packaged / "lib")


def axe() -> str:
    """The source of axe-core. Raises AssertionError if it is missing."""
    script = AXE.directory / "package" / "axe.min.js"
    assert script.exists(), "no axe-core: `make setup` fetches it"
    return script.read_text(encoding="utf-8")


def _unpack_browser(package: Path) -> None:
    """Unpack the browser's files, each of which is compressed separately."""
    for packed in (package / "bin").glob("*.br"):
        content = brotli.decompress(packed.read_bytes())
        unpacked = package / "unpacked"
        unpacked.mkdir(exist_ok=True)
        if packed.name.endswith(".tar.br"):
            with tarfile.open(fileobj=io.BytesIO(content)) as files:
                files.extractall(unpacked, filter="data")
        else:
            program = unpacked / packed.stem
            program.write_bytes(content)
            program.chmod(0o755)
        packed.unlink()


if __name__ == "__main__":
    AXE.fetch()
    try:
        browser()
    except AssertionError:
        CHROMIUM.fetch()
