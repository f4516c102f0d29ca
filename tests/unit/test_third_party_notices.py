"""The work of others that is shipped: unchanged, recorded, and with the notices that its licences want."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from authorizer.console.report import bundle

ROOT: Final = Path(__file__).resolve().parents[2]
NOTICES: Final = "THIRD_PARTY_NOTICES"
ASSETS: Final = ROOT / "authorizer" / "console" / "assets"
_BUILD_S: Final = 120
#: Longer lines are written by programs.
_LINE_MAXIMUM: Final = 1_000


def test_the_vendored_script_is_the_one_that_is_recorded() -> None:
    script = (ASSETS / "htm-preact.js").read_bytes()
    recorded = f"SHA-256:  {hashlib.sha256(script).hexdigest()}\n"
    assert recorded in (ROOT / NOTICES).read_text("utf-8")
    notice = (ASSETS / "htm-preact.NOTICE").read_text("utf-8")
    assert recorded.replace(":  ", " ") in notice
    for text in (notice, (ROOT / NOTICES).read_text("utf-8")):
        assert "htm 3.1.1" in text
        assert "https://registry.npmjs.org/htm/-/htm-3.1.1.tgz" in text


def test_the_notices_have_the_licences_texts() -> None:
    notices = (ROOT / NOTICES).read_text("utf-8")
    assert "Copyright (c) 2015-present Jason Miller" in notices
    assert "The above copyright notice and this permission notice shall be included in all" in notices
    assert (ASSETS / "htm-preact.LICENSE").read_text("utf-8").strip("\n") in notices
    assert "Copyright 2018 Google Inc." in notices


def test_nothing_else_in_the_packages_is_minified() -> None:
    """Generated code is probably of a third party, and must be recorded."""
    found = {
        path.name
        for package in ("records", "snapshot", "replay", "authorizer")
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".js", ".css", ".html", ".svg", ".py", ".java")
        if any(len(line) > _LINE_MAXIMUM for line in path.read_text("utf-8").splitlines())
    }
    assert found == {"htm-preact.js"}


def test_a_report_has_the_notice_beside_its_script() -> None:
    script = bundle.script()
    assert (ASSETS / "htm-preact.NOTICE").read_text("utf-8") in script
    assert script.index("Jason Miller") < script.index('$["htm-preact.js"]')


def test_the_image_gets_the_notices() -> None:
    assert f"!{NOTICES}\n" in (ROOT / ".dockerignore").read_text("utf-8")
    copied = [
        line for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines() if line.startswith("COPY")
    ]
    assert any(NOTICES in line.split() for line in copied)


@pytest.mark.slow
def test_the_wheel_and_the_sdist_have_the_notices(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=_BUILD_S, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert any(name.endswith(f"/licenses/{NOTICES}") for name in zipfile.ZipFile(wheel).namelist())
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        assert any(name.endswith(f"/{NOTICES}") for name in files.getnames())
