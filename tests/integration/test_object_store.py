"""A snapshot store on a real object store: commands, a node, the Spark jobs, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import support.spark  # noqa: F401 - names the directories of jars
from snapshot.errors import SnapshotStoreUnavailableError
from snapshot.image import AclsImage
from snapshot.store.layout import MANIFEST_NAME
from snapshot.store.retention import WRITING_S
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SnapshotState
from support.changing_log import write_log
from support.data import real_log
from support.go_programs import VERSITYGW
from support.kafka_broker import HOST, free_ports
from support.naive_tables import assert_tables_are_of
from support.s3_server import BUCKET, S3Server, s3_server
from support.snapshots import CLUSTER, IDENTITY, image_of
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("object-store")]

ROOT = Path(__file__).resolve().parents[2]
ACLOG = [sys.executable, "-m", "authorizer.cli"]
SMALL = real_log("kraft-small")
CHECKPOINT = SMALL / "00000000000000000208-0000000001.checkpoint"
TIMEOUT_S = 300
SMALL_SPARK = ("--once", "--shards", 2, "--master", "local[2]")
#: What a store that is not there may cost, on a machine with other work.
PROMPT_S = 60


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    directory = VERSITYGW.directory()
    if directory is None:
        pytest.skip(VERSITYGW.missing_reason())
    with s3_server(directory / VERSITYGW.name, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def server(started: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, and this process and its children as clients of it."""
    for name, value in started.environment.items():
        monkeypatch.setenv(name, value)
    return started


@pytest.fixture
def url(server: S3Server, request: pytest.FixtureRequest) -> str:
    """A store of this test's own."""
    return f"s3://{BUCKET}/{request.node.name.replace('[', '-').rstrip(']')}"


def aclog(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: s3fs remembers connections by what was asked for, not by the environment."""
    return subprocess.run(
        [*ACLOG, *map(str, args)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        cwd=ROOT,
        env=os.environ | environment,
        check=False,
    )


def answer(*args: object) -> Any:
    done = aclog(*args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def objects(server: S3Server, url: str) -> set[str]:
    """Paths below the store, as the server has them."""
    root = server.root / url.removeprefix("s3://")
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_the_snapshot_commands_use_an_object_store(server: S3Server, url: str, tmp_path: Path) -> None:
    """Snapshots of `create` and `import` are listed, complete, equal to the log, and exported."""
    made = answer("snapshot", "create", "--log", SMALL, "--snapshots", url)
    assert (made["endOffset"], made["count"]) == (281, 59)
    answer("snapshot", "import", CHECKPOINT, "--snapshots", url)
    listed = answer("snapshot", "list", "--snapshots", url)["snapshots"]
    assert [(row["endOffset"], row["state"]) for row in listed] == [(208, "complete"), (281, "complete")]
    verified = answer("snapshot", "verify", "--snapshots", url, "--log", SMALL)["snapshots"]
    assert [(row["whole"], row["equalToLog"]) for row in verified] == [(True, True)] * 2
    exported = answer("snapshot", "export", "--snapshots", url, "--format", "csv", "--output", tmp_path / "c")
    assert (exported["endOffset"], exported["digest"]) == (281, made["digest"])
    compared = answer("log", "verify", "--log", SMALL, "--with", url)["comparison"]
    assert (compared["equal"], compared["otherEndOffset"]) == (True, 281)
    done = aclog(
        *("check", "--log", SMALL, "--snapshots", url, "--principal", "User:alice"),
        *("--operation", "Read", "--topic", "orders"),
    )
    assert done.returncode == 0, done.stderr
    answer("snapshot", "create", "--log", SMALL, "--snapshots", url, "--keep", 1)
    (name,) = {path.split("/")[1] for path in objects(server, url)}
    assert name.startswith("00000000000000000281-")


def test_an_empty_store_in_an_existing_bucket_is_listed(url: str) -> None:
    """A path in a bucket need not be made."""
    assert answer("snapshot", "list", "--snapshots", url)["snapshots"] == []


@pytest.mark.parametrize(
    "command",
    [
        ("snapshot", "list", "--snapshots", "{}"),
        ("snapshot", "verify", "--snapshots", "{}"),
        ("snapshot", "create", "--log", SMALL, "--snapshots", "{}"),
        ("log", "verify", "--log", SMALL, "--with", "{}"),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_a_missing_bucket_is_reported(server: S3Server, command: tuple[object, ...]) -> None:
    """A missing bucket is named, with exit code 2, and not created."""
    missing = "s3://no-such-bucket/store"
    refused = aclog(*(str(word).format(missing) for word in command))
    assert refused.returncode == 2, refused.stderr
    assert f"Error: {missing}: bucket `no-such-bucket` does not exist" in refused.stderr
    assert not (server.root / "no-such-bucket").exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "access denied: "),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "access key"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "credentials"),
    ],
    ids=["secret", "key", "none"],
)
def test_wrong_credentials_are_reported(server: S3Server, environment: dict[str, str], message: str) -> None:
    """Exit code 3, the store, what the server or the library said, and where credentials come from."""
    url = f"s3://{BUCKET}/x"
    for command in (
        ("snapshot", "list", "--snapshots", url),
        ("snapshot", "create", "--log", SMALL, "--snapshots", url),
    ):
        refused = aclog(*command, **environment)
        assert refused.returncode == 3, refused.stderr
        last = refused.stderr[refused.stderr.index("Error: ") :]
        assert url in last
        assert message in last
        assert "AWS_SECRET_ACCESS_KEY" in last


def test_an_unreachable_server_is_reported(server: S3Server) -> None:
    """Exit code 3 and the address, soon."""
    (port,) = free_ports(1)
    began_s = time.monotonic()
    refused = aclog(
        "snapshot", "list", "--snapshots", f"s3://{BUCKET}/x", AWS_ENDPOINT_URL=f"http://{HOST}:{port}"
    )
    assert time.monotonic() - began_s < PROMPT_S
    assert refused.returncode == 3, refused.stderr
    assert f"cannot list s3://{BUCKET}/x: Could not connect to the endpoint URL" in refused.stderr
    assert f"{HOST}:{port}" in refused.stderr
    assert "defect" not in refused.stderr


def write_at_once(url: str, image: AclsImage) -> None:
    """By three nodes."""
    barrier = threading.Barrier(3)
    failed: list[BaseException] = []

    def node() -> None:
        barrier.wait()
        try:
            SnapshotStore(url, rows_per_part=2).write(image, IDENTITY, log_end_time_ms=1)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            failed.append(error)

    threads = [threading.Thread(target=node) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_concurrent_writes_of_one_snapshot_leave_one_attempt(server: S3Server, url: str) -> None:
    """The server's own condition decides (If-None-Match), and the other's parts go."""
    for count in range(1, 11):
        write_at_once(url, image_of(*range(count)))
    store = SnapshotStore(url)
    named = {
        status.ref.file(name)
        for status in store.survey(CLUSTER)
        if status.manifest is not None
        for name in (MANIFEST_NAME, *(part.name for part in status.manifest.parts))
    }
    assert {status.state for status in store.survey(CLUSTER)} == {SnapshotState.COMPLETE}
    assert objects(server, url) == named


def test_a_server_killed_during_a_snapshot_leaves_the_store_sound(server: S3Server, url: str) -> None:
    """The writer says so; the snapshot before is the latest; the next write and retention leave nothing."""
    store = SnapshotStore(url, rows_per_part=1)
    before = store.write(image_of(1), IDENTITY, log_end_time_ms=1)
    image = image_of(*range(1_000))
    failed: list[BaseException] = []

    def write() -> None:
        try:
            store.write(image, IDENTITY, log_end_time_ms=1)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: len(objects(server, url)) >= 20 or not writer.is_alive())
        assert writer.is_alive()
        server.kill()
        writer.join(TIMEOUT_S)
    finally:
        server.start()
    (error,) = failed
    assert isinstance(error, SnapshotStoreUnavailableError), error
    assert f"cannot write {url}" in str(error)
    found = store.latest(IDENTITY)
    assert found is not None
    assert found.ref == before
    assert aclog("snapshot", "verify", "--snapshots", url).returncode == 0
    later = SnapshotStore(url, rows_per_part=500, clock_s=lambda: time.time() + WRITING_S + 1)
    ref = later.write(image, IDENTITY, log_end_time_ms=1, keep=1)
    assert later.verify(ref) == ()
    (status,) = later.survey(CLUSTER)
    assert status.manifest is not None
    assert {path.rpartition("/")[2] for path in objects(server, url)} == {
        MANIFEST_NAME,
        *(part.name for part in status.manifest.parts),
    }


def test_a_node_stores_its_snapshots_in_an_object_store(server: S3Server, url: str, tmp_path: Path) -> None:
    """It goes on while the store is away, writes when it is back, and the next start reads what it wrote."""
    config = tmp_path / "sidecar.properties"
    config.write_text(
        "super.users=User:ANONYMOUS\naclog.listeners=PLAINTEXT://127.0.0.1:0\naclog.logging.format=json\n"
        "aclog.snapshot.max.age.ms=200\n"
    )

    def serve(until: str, ready: str | None = None) -> dict[str, Any]:
        """The first line of its log with that event; `ready` is fetched before."""
        process = subprocess.Popen(
            [*ACLOG, "serve", "--config", str(config), "--log", str(SMALL), "--snapshots", url],
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                event = json.loads(line) if line.startswith("{") else {}
                if event.get("event") == "listening" and ready is not None:
                    urllib.request.urlopen(event["urls"][0] + ready, timeout=TIMEOUT_S).close()
                if event.get("event") == until:
                    return event
            pytest.fail("".join(lines))
        finally:
            process.kill()
            process.communicate()

    assert serve("snapshot_written")["offset"] == 281
    (manifest,) = (path for path in objects(server, url) if path.endswith(MANIFEST_NAME))
    assert manifest.split("/")[1].startswith("00000000000000000281-")
    again = serve("image_published")
    assert (again["offset"], again["acls"], again.get("records", 0)) == (281, 59, 0), again
    server.kill()
    try:
        failed = serve("snapshot_failed", ready="/livez")
        assert failed["kind"] == "SnapshotStoreUnavailableError"
        assert url in failed["error"]
    finally:
        server.start()


@pytest.mark.long
def test_a_spark_job_without_its_store_fails(server: S3Server, tmp_path: Path) -> None:
    """A bucket that is not there: the job says so, and does not begin."""
    run = ("spark", "snapshots", "--log", SMALL, "--snapshots", "s3://no-such-bucket/x", *SMALL_SPARK)
    refused = aclog(*run, "--checkpoint", tmp_path / "checkpoint")
    assert refused.returncode == 2, refused.stderr
    assert "bucket `no-such-bucket` does not exist" in refused.stderr


def stopped(pid: int) -> list[int]:
    """A process and those that it started, the JVM and Python's workers, after SIGSTOP to each."""
    os.kill(pid, signal.SIGSTOP)
    found = [pid]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found += stopped(int(stat.parent.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize("how", ["one-checkpoint", "two-checkpoints"])
def test_two_jobs_on_one_output_write_no_wrong_state(
    server: S3Server, url: str, tmp_path: Path, how: str
) -> None:
    """The second is refused while the first runs. The first ends when it finds that another took over.

    With one checkpoint the first is paused in the middle of a publication, and goes on when the other one has
    written more. With two the other one does not wait.
    """
    log = write_log(tmp_path / "log", 1, 4, "c")
    command = [
        *ACLOG, "spark", "changes", "--log", f"file:{log}", "--output", url, "--format", "delta",
        "--max-offsets", "8", "--shards", "1", "--master", "local[2]",
    ]  # fmt: skip
    other = [] if how == "one-checkpoint" else ["--checkpoint", f"{url}-other"]
    lost = "checkpoint" if how == "one-checkpoint" else "output"
    publications = server.root / url.removeprefix("s3://") / "tables" / "_publications"

    def start() -> subprocess.Popen[str]:
        job = subprocess.Popen([*command, "--interval", "1"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        while job.poll() is None and not list(publications.glob("*.json")):
            time.sleep(0.05)  # polls without a deadline; the job ends with the test
        return job

    def run_once(*options: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*command, "--once", *other, *options], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return run_once(*options) if "the machine is too busy" in done.stderr and done.returncode else done

    first = start()
    while first.poll() is not None:
        _, output = first.communicate()
        assert "the machine is too busy" in output
        first = start()
    paused: list[int] = []
    try:
        if how == "one-checkpoint":
            paused = stopped(first.pid)
            assert len(paused) > 1
        else:
            refused = run_once()
            assert refused.returncode == 3, refused.stderr
            assert f"the output {url} is in use by process {first.pid} on " in refused.stderr
            assert first.poll() is None
        write_log(log, 2, 3, "c")
        second = run_once(*(["--take-over"] if how == "two-checkpoints" else []))
        assert second.returncode == 0, second.stderr
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
        _, output = first.communicate(timeout=TIMEOUT_S)
        assert first.returncode == 3, output
        assert f"this job has lost its {lost}" in output
    finally:
        for pid in paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        first.kill()
        first.communicate()
    assert answer("log", "verify", "--log", log, "--with", f"{url}/state")["comparison"]["equal"]
    assert_tables_are_of(server.root / url.removeprefix("s3://"), log)


@pytest.mark.long
@pytest.mark.parametrize("on_s3", ["--output", "--checkpoint"])
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "access denied: "),
        ({"AWS_ENDPOINT_URL": f"http://{HOST}:1"}, f'endpoint URL: "http://{HOST}:1'),
    ],
    ids=["credentials", "endpoint"],
)
def test_a_job_names_the_store_that_it_cannot_use(
    server: S3Server, tmp_path: Path, on_s3: str, environment: dict[str, str], message: str
) -> None:
    """Exit code 3, the location, the reason, where its settings are, and the command that checks them."""
    paths = {"--output": str(tmp_path / "out"), "--checkpoint": str(tmp_path / "checkpoint")}
    paths[on_s3] = f"s3://{BUCKET}/unusable"
    options = [word for pair in paths.items() for word in pair]
    done = aclog("spark", "changes", "--log", SMALL, *options, *SMALL_SPARK, **environment)
    assert done.returncode == 3, done.stderr
    last = done.stderr[done.stderr.index("Error: ") :]
    assert f"s3://{BUCKET}/unusable" in last
    assert message in last
    assert "AWS_ENDPOINT_URL" in last
    assert "spark doctor` finds the cause" in last


@pytest.mark.long
@pytest.mark.parametrize(
    ("environment", "bucket", "fix"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, BUCKET, "set AWS_ACCESS_KEY_ID"),
        ({}, "no-such-bucket", "create the bucket"),
        ({"AWS_ENDPOINT_URL": f"http://{HOST}:1"}, BUCKET, "correct AWS_ENDPOINT_URL"),
    ],
    ids=["credentials", "bucket", "endpoint"],
)
def test_doctor_names_what_is_wrong_with_the_object_store(
    server: S3Server, environment: dict[str, str], bucket: str, fix: str
) -> None:
    """One finding for each location: of s3fs for an output, and of Spark's S3A for the checkpoint."""
    output, checkpoint = f"s3://{bucket}/out", f"s3://{bucket}/checkpoint"
    done = aclog(
        *("spark", "doctor", "--output", output, "--checkpoint", checkpoint, "--format", "delta"),
        *("--master", "local[2]", "--json"),
        **environment,
    )
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert [finding["fix"] for finding in findings if fix not in finding["fix"]] == []
    for location in (output, checkpoint):
        assert any(location in finding["what"] for finding in findings)
    assert not list((server.root / BUCKET).rglob(".aclog-doctor-*"))
