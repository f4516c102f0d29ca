"""aclog as its wheel installs it, without any extra: no Parquet, no Kafka client, no Spark.

The wheel is installed into an empty environment; what it requires is linked from the tests' own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from authorizer.configuration.keys.names import SNAPSHOT_STORE
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.columns.batches import COLUMNS_FROM
from records.entries import AccessControlEntryRecord
from records.ids import binding_uuid
from records.log.directory import DirectoryLog
from support.cli_commands import every_command
from support.data import real_log

ROOT = Path(__file__).parents[2]
PACKAGES = {"aclog", "authorizer", "records", "replay", "snapshot"}
OF_EXTRAS = {
    "confluent_kafka", "cryptography", "fastavro", "fsspec", "kio", "matplotlib",
    "pandas", "pyarrow", "pyspark", "s3fs",
}  # fmt: skip


IMPORTS = """
import json, sys
import aclog
from aclog import Client, Node, load_config
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def requirements_of(found: Distribution) -> list[Requirement]:
    """Those of this Python, without extras."""
    wanted = map(Requirement, found.requires or ())
    return [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]


def base_distributions() -> list[Distribution]:
    """All packages that aclog requires without an extra, also indirectly."""
    found: dict[str, Distribution] = {}
    unseen = requirements_of(distribution("aclog"))
    while unseen:
        requirement = unseen.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = distribution(name)
            unseen += requirements_of(found[name])
            unseen += [
                Requirement(line)
                for line in found[name].requires or ()
                for extra in requirement.extras
                if (marker := Requirement(line).marker) is not None and marker.evaluate({"extra": extra})
            ]
    return list(found.values())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it requires."""
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (site,) = directory.glob("lib/python*/site-packages")
    for each in base_distributions():
        for top in {path.parts[0] for path in each.files or () if path.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(each.locate_file(top))))
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--offline"]
    subprocess.run([*uv, "--python", directory / "bin" / "python", wheel], check=True)
    return directory / "bin"


@pytest.fixture(scope="module")
def many_acls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that is long enough to be decoded by column where Arrow is installed."""
    directory = tmp_path_factory.mktemp("log") / "log"
    records = []
    for number in range(COLUMNS_FROM + 100):
        pattern = ResourcePattern(ResourceType.TOPIC, f"topic-{number}", PatternType.LITERAL)
        entry = AccessControlEntry(f"User:{number % 7}é", "*", AclOperation.READ, AclPermissionType.ALLOW)
        binding = AclBinding(pattern, entry)
        records.append(AccessControlEntryRecord.from_binding(binding_uuid(binding), binding))
    with DirectoryLog.open(directory, mode="create") as log:
        log.append(records)
    return directory


def run(program: Path, *args: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """A program of the environment, in a directory without aclog's source."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ACLOG_"))
    }
    return subprocess.run(
        [str(program), *map(str, args)],
        cwd=program.parent,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_wheel_has_the_five_packages_and_no_other(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == PACKAGES


def test_the_public_api_is_imported_from_aclog(installed: Path) -> None:
    done = run(installed / "python", "-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    modules = set(json.loads(done.stdout))
    assert modules >= PACKAGES
    assert not modules & (OF_EXTRAS | {"starlette", "uvicorn"})


def test_no_command_needs_an_extra_for_its_help(installed: Path) -> None:
    commands = [[*path, "--help"] for path in every_command()]
    program = (
        "import sys\nfrom authorizer.cli.main import main\n"
        f"for args in {commands!r}:\n"
        "    try:\n        main(args)\n    except SystemExit as end:\n        assert end.code == 0, args\n"
    )
    done = run(installed / "python", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broker_s_directory_is_read(installed: Path) -> None:
    request = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders")
    done = run(installed / "aclog", "check", "--log", real_log("kraft-small"), *request)
    assert done.returncode == 0, done.stderr
    assert "ALLOWED" in done.stdout


def test_a_long_log_has_the_same_acls_without_arrow(installed: Path, many_acls: Path) -> None:
    command = ("acls", "--list", "--log", many_acls)
    ours = run(installed / "aclog", *command)
    with_arrow = run(Path(sys.executable).with_name("aclog"), *command)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout.count("topic-") == COLUMNS_FROM + 100
    assert ours.stdout == with_arrow.stdout


def test_the_quickstart_runs_and_says_what_snapshots_need(installed: Path, tmp_path: Path) -> None:
    """It starts a node and the sidecar with its console, writes ACLs and asks over HTTP."""
    made = tmp_path / "quickstart"
    done = run(installed / "aclog", "quickstart", "--no-spark", "--exit", "--directory", made)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '{"decision":true' in done.stdout
    assert "snapshot create" not in done.stdout
    assert "A snapshot store needs pyarrow: " in done.stdout
    assert "'pyarrow>=20'" in done.stdout
    assert SNAPSHOT_STORE not in (made / "quickstart.properties").read_text("latin-1")


@pytest.mark.parametrize(
    "args",
    [
        ["snapshot", "list", "--snapshots", "store"],
        ["snapshot", "create", "--log", "LOG", "--snapshots", "store"],
        ["check", "--log", "LOG", "--snapshots", "store", "--principal", "User:a", "--operation", "Read"],
    ],
    ids=lambda args: " ".join(args[:2]),
)
def test_a_command_that_needs_a_store_says_how_to_install_it(
    installed: Path, many_acls: Path, args: list[str]
) -> None:
    topic = ["--topic", "t"] if args[0] == "check" else []
    done = run(installed / "aclog", *(str(many_acls) if arg == "LOG" else arg for arg in args), *topic)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: a snapshot store needs pyarrow: ")
    assert "'pyarrow>=20'" in done.stderr


def test_an_avro_file_says_how_to_install_its_writer(installed: Path, tmp_path: Path) -> None:
    """The other formats need nothing."""
    log = real_log("kraft-small")
    avro, jsonl = tmp_path / "acls.avro", tmp_path / "acls.jsonl"
    done = run(installed / "aclog", "snapshot", "export", "--log", log, "--format", "avro", "--output", avro)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("Error: an Avro file needs fastavro: ")
    assert "'fastavro>=1.11'" in done.stderr
    assert not list(tmp_path.iterdir())
    done = run(
        installed / "aclog", "snapshot", "export", "--log", log, "--format", "jsonl", "--output", jsonl
    )
    assert done.returncode == 0, done.stderr


def test_a_topic_says_how_to_install_its_client(installed: Path) -> None:
    done = run(installed / "aclog", "acls", "--list", "--log", "kafka://127.0.0.1:9/acls")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: a topic needs confluent-kafka: ")
    assert "'fastavro>=1.11'" in done.stderr


def test_the_base_install_is_small(wheel: Path) -> None:
    """The goal is 120 MB by pip, which also compiles bytecode: then it takes a third more."""
    packages = sum(path.size or 0 for each in base_distributions() for path in each.files or ())
    ours = sum(member.file_size for member in zipfile.ZipFile(wheel).infolist())
    assert packages + ours < 92_000_000


@pytest.mark.parametrize(
    ("variable", "need"),
    [
        ("ACLOG_SNAPSHOT_STORE", "a snapshot store needs pyarrow: "),
        ("ACLOG_CONSOLE_HISTORY", "`aclog.console.history`: it needs pyarrow: "),
        ("ACLOG_CONSOLE_COUNTS", "`aclog.console.counts`: it needs pyarrow: "),
    ],
)
def test_a_node_does_not_start_without_what_its_settings_need(
    installed: Path, many_acls: Path, tmp_path: Path, variable: str, need: str
) -> None:
    environ = {
        variable: str(tmp_path / "output"),
        "ACLOG_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "ACLOG_CONSOLE_LISTENERS": "*",
    }
    done = run(installed / "aclog", "serve", "--log", many_acls, **environ)
    assert done.returncode == 2, done.stderr
    assert need in done.stderr
    assert "'pyarrow>=20'" in done.stderr
