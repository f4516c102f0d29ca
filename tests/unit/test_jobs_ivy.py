"""Jars are fetched completely or not at all, from any repository with Maven's layout."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from snapshot.errors import SparkJarsError
from snapshot.jobs.session import ivy
from snapshot.jobs.session.ivy import Jar, jar_directory

VARIABLE = "ACLOG_TEST_JARS"
CONTENTS = {f"org/example/part-{number}/1.0/part-{number}-1.0.jar": bytes([number]) for number in range(20)}
JARS = [Jar(path, hashlib.sha256(content).hexdigest()) for path, content in CONTENTS.items()]


class Server(ThreadingHTTPServer):
    daemon_threads = False  # its end waits for theirs


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the jars in Maven's layout on a local server, which a test may damage."""
    root = tmp_path / "repository"
    for path, content in CONTENTS.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_bytes(content)
    with Server(("127.0.0.1", 0), partial(QuietHandler, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(ivy, "_ROOT", f"http://127.0.0.1:{server.server_port}")
        yield root
        server.shutdown()
        thread.join()


def test_jars_are_fetched_completely_and_once(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size is printed first, then the progress; the second call needs no network."""
    monkeypatch.setattr(ivy, "_PROGRESS_INTERVAL_S", 0)
    directory = tmp_path / "cache" / "jars"
    assert jar_directory(directory, VARIABLE, JARS, "Example 1.0") == directory
    assert {jar.name: jar.read_bytes() for jar in directory.iterdir()} == {
        path.rpartition("/")[2]: content for path, content in CONTENTS.items()
    }
    progress = capsys.readouterr().err.splitlines()
    assert progress == [
        f"Fetching Example 1.0 into {directory}: 20 jars",
        *(f"  {count} of 20" for count in range(1, 20)),
    ]
    for path in CONTENTS:
        (repository / path).unlink()
    assert jar_directory(directory, VARIABLE, JARS, "Example 1.0") == directory
    assert capsys.readouterr().err == ""


def test_a_damaged_directory_is_replaced(repository: Path, tmp_path: Path) -> None:
    directory = tmp_path / "jars"
    directory.mkdir()
    (directory / "more.jar").touch()
    (directory / JARS[0].file).write_bytes(b"half")
    jar_directory(directory, VARIABLE, JARS, "Example 1.0")
    assert sorted(jar.name for jar in directory.iterdir()) == sorted(jar.file for jar in JARS)
    assert (directory / JARS[0].file).read_bytes() == CONTENTS[JARS[0].path]


def test_another_content_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / JARS[3].path).write_bytes(b"not reviewed")
    with pytest.raises(SparkJarsError, match=r"differ from the reviewed ones: part-3-1\.0\.jar is different"):
        jar_directory(tmp_path / "jars", VARIABLE, JARS, "Example 1.0")
    assert not (tmp_path / "jars").exists()


def test_a_jar_that_is_not_there_is_named(repository: Path, tmp_path: Path) -> None:
    (repository / JARS[3].path).unlink()
    with pytest.raises(SparkJarsError, match=r"org\.example#part-3;1\.0: not found"):
        jar_directory(tmp_path / "jars", VARIABLE, JARS, "Example 1.0")
    assert not (tmp_path / "jars").exists()
