"""The archive of `aclog spark pack`: its content, and the comparison with the driver."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, distribution
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from authorizer.cli.failure import ExitCode
from authorizer.cli.main import cli
from authorizer.cli.spark.doctor import Diagnosis, check_archive
from snapshot.errors import SparkArchiveError
from snapshot.jobs.session import archive
from snapshot.jobs.session.archive import (
    DIRECTORY,
    ArchiveManifest,
    archive_settings,
    differences,
    driver_path,
    read_manifest,
    write_archive,
)

#: All packages of a real archive have 140 MB.
SMALL = ("aclog", "click", "msgspec")


def only_small(_additional: Iterable[str]) -> dict[str, Distribution]:
    return {name: distribution(name) for name in SMALL}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real archive of aclog and two small packages."""
    path = tmp_path_factory.mktemp("packed") / "aclog.tar.gz"
    with pytest.MonkeyPatch.context() as patched, path.open("wb") as file:
        patched.setattr(archive, "_distributions", only_small)
        write_archive(file)
    return path


def rewritten(path: Path, change: Callable[[ArchiveManifest], ArchiveManifest]) -> Path:
    """An archive with a changed manifest and nothing else."""
    content = msgspec.json.encode(change(read_manifest(path)))
    changed = path.with_name("changed.tar.gz")
    with tarfile.open(changed, "w:gz") as file:
        member = tarfile.TarInfo("aclog-archive.json")
        member.size = len(content)
        file.addfile(member, BytesIO(content))
    return changed


def test_python_without_packages_imports_from_the_archive(packed: Path, tmp_path: Path) -> None:
    """Compiled modules and data files, too; a version is known, and bytecode is not compiled again."""
    with tarfile.open(packed) as file:
        file.extractall(tmp_path / DIRECTORY, filter="data")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import click, msgspec, records.acl, importlib.metadata\n"
        "print(importlib.metadata.version('aclog'), msgspec.json.encode([records.acl.__file__]).decode())"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / DIRECTORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f'{distribution("aclog").version} ["{tmp_path / DIRECTORY}/records/acl.py"]\n'
    assert (tmp_path / DIRECTORY / "snapshot" / "jobs" / "session" / "log4j2.properties").is_file()


def test_packages_are_those_of_the_tasks() -> None:
    found = archive._distributions([])
    assert {
        "aclog",
        "numpy",
        "pyarrow",
        "pandas",
        "cramjam",
        "confluent-kafka",
        "s3fs",
        "kio",
    } <= found.keys()
    assert not {"pyspark", "py4j", "matplotlib", "pillow", "pytest", "mypy"} & found.keys()
    assert "pyyaml" in archive._distributions(["PyYAML"])


def test_package_that_is_not_installed() -> None:
    with pytest.raises(SparkArchiveError, match="no-such-package is not an installed package"):
        archive._distributions(["no-such-package"])


def test_archive_of_this_environment_fits(packed: Path) -> None:
    assert differences(read_manifest(packed)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"python": "3.9"}, "Python is 3.9, the driver's is "),
        ({"platform": "macosx-14.0-arm64"}, "platform is macosx-14.0-arm64, the driver's is "),
        ({"pyspark": "4.1.0"}, "pyspark is 4.1.0, the driver's is "),
        ({"packages": {"msgspec": "0.1"}}, "msgspec is 0.1, the driver's is "),
        ({"packages": {"no-such-package": "1"}}, "no-such-package is 1, the driver's is none"),
        ({"code_digest": "00"}, "aclog has the same version, but its modules differ from the driver's"),
    ],
)
def test_differences_name_both_versions(packed: Path, changes: dict[str, object], expected: str) -> None:
    (only,) = differences(msgspec.structs.replace(read_manifest(packed), **changes))
    assert only.startswith(expected)


@pytest.mark.parametrize("name", ["aclog.tar.gz", "aclog.zip"])
def test_file_that_is_no_archive(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not an archive")
    with pytest.raises(SparkArchiveError, match=r"is not an archive of `aclog spark pack`: "):
        read_manifest(tmp_path / name)


def test_archive_of_another_program(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as file:
        file.add(Path(__file__), "bin/python")
    with pytest.raises(SparkArchiveError, match=r"its first member is not aclog-archive\.json"):
        read_manifest(tmp_path / "env.tar.gz")


def test_settings_add_to_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    path = tmp_path / "aclog.tar.gz"
    assert archive_settings(path, {"spark.archives": "a.zip", "spark.executorEnv.PYTHONPATH": "/lib"}) == {
        "spark.archives": f"a.zip,{path.as_uri()}#{DIRECTORY}",
        "spark.executorEnv.PYTHONPATH": f"{DIRECTORY}:/lib",
        "spark.pyspark.python": f"python{sys.version_info.major}.{sys.version_info.minor}",
    }
    assert "spark.pyspark.python" not in archive_settings(path, {"spark.pyspark.python": "/bare/python"})


def test_another_interpreter_of_the_driver_imports_its_packages() -> None:
    code = "import pyarrow, snapshot.errors"
    environment = {**os.environ, "PYTHONPATH": driver_path()}
    subprocess.run([sys.executable, "-S", "-c", code], env=environment, check=True, cwd="/")


def test_pack_does_not_overwrite_and_wants_a_suffix_that_spark_unpacks(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_distributions", only_small)
    done = CliRunner().invoke(cli, ["spark", "pack", "--output", str(packed)])
    assert done.exit_code == ExitCode.USAGE
    assert f"{packed} exists and is not overwritten" in done.stderr
    done = CliRunner().invoke(cli, ["spark", "pack", "--output", str(packed.with_name("aclog.tar.xz"))])
    assert done.exit_code == ExitCode.USAGE
    assert "Spark unpacks *.tar.gz and *.tgz" in done.stderr
    done = CliRunner().invoke(cli, ["spark", "pack", "--output", str(packed), "--force", "--json"])
    assert done.exit_code == ExitCode.OK
    assert f'"archive":"{packed}"' in done.stdout.replace(" ", "")


def test_job_refuses_an_archive_that_does_not_fit(packed: Path, tmp_path: Path) -> None:
    """Before Spark starts: there is no such master."""
    changed = rewritten(packed, lambda found: msgspec.structs.replace(found, python="3.9"))
    log, output = str(tmp_path / "log"), str(tmp_path / "history")
    assert CliRunner().invoke(cli, ["log", "create", "--log", log]).exit_code == ExitCode.OK
    flags = ["--output", output, "--master", "spark://nowhere:1", "--archives", str(changed), "--once"]
    done = CliRunner().invoke(cli, ["spark", "changes", "--log", log, *flags])
    assert done.exit_code == ExitCode.USAGE
    assert f"--archives {changed} does not fit the driver: Python is 3.9" in done.stderr
    assert f"`aclog spark pack --output {changed} --force` makes it again." in done.stderr


def test_doctor_compares_the_archive(packed: Path) -> None:
    found = Diagnosis({})
    assert check_archive(found, packed)
    assert found.findings == []
    changed = rewritten(packed, lambda manifest: msgspec.structs.replace(manifest, pyspark="4.1.0"))
    assert not check_archive(found, changed)
    (only,) = found.findings
    assert only.what == f"--archives {changed} does not fit the driver"
    assert only.why.startswith("pyspark is 4.1.0, the driver's is ")
    assert "aclog spark pack" in only.fix
