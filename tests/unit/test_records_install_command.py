"""The pip command in error messages: it runs as printed, whatever aclog was installed from."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from records.install_command import install_command

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"all"}))
def test_the_command_runs_and_has_every_package_of_the_extra(extra: str) -> None:
    """pip accepts each word; the tests' environment has all packages, so nothing is fetched."""
    words = shlex.split(install_command(extra))
    done = subprocess.run(
        [*words, "--dry-run", "--no-index", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = [line.partition(";")[0].replace(" ", "") for line in EXTRAS[extra]]
    assert len(words) - words.index("install") - 1 == len(wanted)
    for line in wanted:
        name = line.partition(">")[0].partition("=")[0].partition("[")[0]  # newer pips omit the extra
        assert f"Requirement already satisfied: {name}" in done.stdout


def test_pip_is_named_by_its_interpreter_unless_it_is_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the packages would go into another environment."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_command("s3").startswith(shlex.join([sys.executable, "-m", "pip", "install"]))
    (tmp_path / "pip").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert re.match("pip install '?s3fs|pip install .* '?s3fs", install_command("s3"))


def test_an_environment_without_pip_is_changed_with_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("records.install_command.find_spec", lambda _name: None)
    assert install_command("s3").startswith(f"uv pip install --python {sys.executable} ")


def test_markers_of_a_package_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "base>=1",
        "b>=2; python_version < '3.12' and extra == 'x'",
        "c; extra == 'y'",
        'd[e]>=1 ; extra == "x"',
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: lines)
    assert shlex.split(install_command("x"))[-2:] == ["b>=2; python_version < '3.12'", "d[e]>=1"]


def test_a_source_tree_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", not_installed)
    assert shlex.split(install_command("s3"))[-1] == f"{ROOT}[s3]"


def test_no_page_installs_aclog_by_a_name_that_no_index_has() -> None:
    """Documents say `pip install '.[extra]'`, for a clone; messages name the packages."""
    pages = {page: page.read_text() for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))}
    assert not [page for page, text in pages.items() if "install 'aclog" in text or "Install `aclog[" in text]
