"""The report as PDF: the print file, printed by Chromium without a window."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO, Any, Final

from authorizer.cli.failure import ExitCode, Failure

#: Names the program, instead of one on PATH.
CHROMIUM: Final = "ACLOG_CHROMIUM"
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PRINT_TIMEOUT_S: Final = 300
_WAY_OUT: Final = "Or use --format print, and print that file with any browser."


def chromium() -> str:
    """The program. Failure if there is none."""
    named = os.environ.get(CHROMIUM)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is not None:
        return found
    if named:
        raise Failure(f"{CHROMIUM} names `{named}`, which is no program", ExitCode.USAGE, _WAY_OUT)
    raise Failure(
        f"--format pdf needs Chromium or Chrome: none of {', '.join(_PROGRAMS)} is on PATH",
        ExitCode.USAGE,
        f"Install it (apt-get install chromium), or name the program in {CHROMIUM}. {_WAY_OUT}",
    )


def pdf(pieces: Iterable[bytes], program: str) -> bytes:
    """Print a file without a script. Failure if the program cannot."""
    with tempfile.TemporaryDirectory(prefix="aclog-report-", ignore_cleanup_errors=True) as directory:
        source = Path(directory, "report.html")
        with source.open("wb") as file:
            file.writelines(pieces)
        try:
            with _running(program, directory) as browser:
                return browser.print(source.as_uri())
        except (OSError, KeyError, ValueError) as error:
            raise Failure(f"{program} did not print the report: {error}", ExitCode.USAGE, _WAY_OUT) from error


class _Chromium:
    """A running browser, driven by the Chrome DevTools Protocol: JSON messages, each ended by a zero byte."""

    def __init__(self, to_browser: IO[bytes], from_browser: IO[bytes]) -> None:
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._unread = b""
        self._count = 0

    def print(self, url: str) -> bytes:
        """Return a page as PDF, with the page size of its style."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable", session)
        self._call("Page.navigate", session, url=url)
        while self._next_message().get("method") != "Page.loadEventFired":
            pass
        stream = self._call(
            "Page.printToPDF",
            session,
            preferCSSPageSize=True,
            generateTaggedPDF=True,
            transferMode="ReturnAsStream",
        )["stream"]
        parts = []
        while True:
            part = self._call("IO.read", session, handle=stream)
            parts.append(base64.b64decode(part["data"]) if part["base64Encoded"] else part["data"].encode())
            if part["eof"]:
                return b"".join(parts)

    def close(self) -> None:
        self._call("Browser.close")
        while self._from_browser.read1():  # type: ignore[attr-defined]  # as below
            pass

    def _call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._to_browser.write(json.dumps(message).encode() + b"\0")
        self._to_browser.flush()
        while (answer := self._next_message()).get("id") != self._count:
            pass
        if "error" in answer:
            raise ValueError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            part = self._from_browser.read1()  # type: ignore[attr-defined]  # a buffered reader
            if not part:
                raise OSError("it ended, or took too long")
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def _running(program: str, directory: str) -> Iterator[_Chromium]:
    """A browser without a window, with its profile in ``directory``."""
    words = [
        program,
        "--headless",
        "--disable-gpu",
        # Containers have a small /dev/shm.
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--remote-debugging-pipe",
        f"--user-data-dir={directory}/profile",
    ]
    if os.geteuid() == 0:
        # Chromium's sandbox refuses root. The file has no script and requests nothing.
        words.append("--no-sandbox")
    to_read, to_write = _pipe_above_nine(), _pipe_above_nine()
    with os.fdopen(to_write[1], "wb") as to_browser, os.fdopen(to_read[0], "rb") as from_browser:
        try:
            # The browser reads descriptor 3 and writes descriptor 4.
            pid = os.posix_spawn(
                program,
                words,
                os.environ,
                file_actions=[
                    *((os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in range(3)),
                    (os.POSIX_SPAWN_DUP2, to_write[0], 3),
                    (os.POSIX_SPAWN_DUP2, to_read[1], 4),
                ],
            )
        finally:
            os.close(to_write[0])
            os.close(to_read[1])
        deadline = Timer(_PRINT_TIMEOUT_S, os.kill, (pid, signal.SIGKILL))
        deadline.daemon = True
        deadline.start()
        try:
            browser = _Chromium(to_browser, from_browser)
            yield browser
            browser.close()
        finally:
            deadline.cancel()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _pipe_above_nine() -> tuple[int, int]:
    """A pipe whose descriptors are not those that the browser gets; it reads from the first."""
    ends = os.pipe()
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in ends]
    for each in ends:
        os.close(each)
    return moved[0], moved[1]
