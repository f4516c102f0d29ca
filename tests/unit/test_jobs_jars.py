"""Jars, here of Delta Lake: only complete, reviewed ones are used; a failed fetch has remedies."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from snapshot.errors import SparkJarsError
from snapshot.jobs.session import ivy
from snapshot.jobs.session.delta import DELTA, DIRECTORY_VARIABLE, JARS, PACKAGE
from snapshot.jobs.session.jars import exit_code_of
from support.spark import DELTA_JARS


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the jars that a test may spoil, as the user's choice."""
    copy = shutil.copytree(DELTA_JARS, tmp_path / "jars")
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(copy))
    return copy


def test_complete_jars_are_used_unchanged(copy: Path) -> None:
    assert DELTA.paths() == [copy / jar.file for jar in JARS]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda jar: jar.unlink(), "is missing"),
        (lambda jar: jar.write_bytes(jar.read_bytes()[:-1]), "is different"),
        (lambda jar: jar.with_name("more.jar").touch(), r"more\.jar is unexpected"),
    ],
)
def test_other_jars_are_refused(copy: Path, spoil: Callable[[Path], object], why: str) -> None:
    """Nothing is fetched over what the user named; the directory and the ways out are in the message."""
    spoil(copy / JARS[0].file)
    with pytest.raises(SparkJarsError, match=why) as refused:
        DELTA.paths()
    assert f"{DIRECTORY_VARIABLE}={copy}" in str(refused.value)
    assert f"--packages {PACKAGE}" in str(refused.value)


def test_an_unreachable_maven_has_an_error_with_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is left behind that would pass for the jars; exit code 3: out of reach."""
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(ivy, "_ROOT", "http://127.0.0.1:1")  # a closed port
    assert exit_code_of(DELTA.print_directory) == 3
    output = capsys.readouterr().err
    assert "Connection refused" in output
    assert f"--packages {PACKAGE}" in output
    assert list(tmp_path.rglob("*.jar")) == []


def test_another_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars for one Spark do not run in another."""
    monkeypatch.setattr("snapshot.jobs.session.jars.version", lambda _: "4.3.0")
    with pytest.raises(SparkJarsError, match=r"does not fit pyspark 4\.3\.0: install pyspark==4\.2\.0"):
        DELTA.paths()
