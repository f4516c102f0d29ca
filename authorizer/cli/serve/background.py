"""``aclog serve --background``: a process that serves, and a command that returns when it is ready."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.api.authorizer_api import SecurityProtocol
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.rendering.output import note
from authorizer.sidecar.http.systemd import KAFKA_SCHEME, NOTIFY_SOCKET, urls_of_notice

if TYPE_CHECKING:
    from authorizer.configuration.load import Config

#: After which a node that is not ready is ended.
READY_TIMEOUT_S: Final = 60.0
_POLL_INTERVAL_S: Final = 0.1
_ANSWER_TIMEOUT_S: Final = 5.0
#: Longer than the shutdown of workers and of a node that writes a snapshot.
_END_TIMEOUT_S: Final = 45.0
_NOTICE_BYTES: Final = 1 << 16
_WITHOUT_TLS: Final = ("http:", "unix:")


def serve_in_background(config: Config, output_file: Path) -> None:
    """Fork a process that serves; this returns in that process only.

    The process has its own session, so that no terminal ends it, and appends its output to ``output_file``.
    In the command's process Exit or an error is raised.
    """
    if all(each.security_protocol is SecurityProtocol.SSL for each in config.served_listeners()):
        raise click.UsageError(
            "--background asks a PLAINTEXT or UNIX listener whether the node is ready: add one, such as "
            "--listener PLAINTEXT://127.0.0.1:8180"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    with (
        output_file.open("ab") as output,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices,
        Path(os.devnull).open("rb") as no_input,
    ):
        # Linux chooses a free abstract address.
        notices.bind("")
        begin = output.tell()
        process = os.fork()
        if not process:
            os.setsid()
            os.environ[NOTIFY_SOCKET] = f"@{notices.getsockname()[1:].decode()}"
            for descriptor, file in enumerate((no_input, output, output)):
                os.dup2(file.fileno(), descriptor)
            return
        started = _Started(process, notices, output_file, begin)
        try:
            urls = started.wait_until_ready()
        except BaseException:
            started.end()
            raise
    note(
        f"Serving on {', '.join(urls)}, ready. Its output is in {output_file}. End it with: kill {process}",
        label="",
    )
    click.echo(process)
    raise click.exceptions.Exit(ExitCode.OK)


class _Started:
    """The process that serves, for the command that started it."""

    def __init__(self, process: int, notices: socket.socket, output_file: Path, begin: int) -> None:
        self._process = process
        self._is_running = True
        self._notices = notices
        self._output_file = output_file
        self._begin = begin
        notices.settimeout(_POLL_INTERVAL_S)

    def wait_until_ready(self) -> list[str]:
        """Return the URLs of its listeners."""
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        urls: list[str] = []
        reason = "it does not listen yet"
        while time.monotonic() < deadline_s:
            self._raise_if_ended()
            if not urls:
                with suppress(TimeoutError):
                    urls = urls_of_notice(self._notices.recv(_NOTICE_BYTES))
                continue
            found = _not_ready_reason(next(url for url in urls if url.startswith(_WITHOUT_TLS)))
            for url in urls:
                if url.startswith(KAFKA_SCHEME):
                    found = found or _not_accepting_reason(url)
            if found is None:
                return urls
            reason = found
            time.sleep(_POLL_INTERVAL_S)
        raise Failure(
            f"the node is not ready after {READY_TIMEOUT_S:g} s and was ended: {reason}",
            ExitCode.NOT_READY,
            f"Its output is in {self._output_file}. If the log takes longer to load, run `aclog serve` "
            "without --background, and ask /readyz.",
        )

    def end(self) -> None:
        if not self._is_running:
            return
        os.kill(self._process, signal.SIGTERM)
        deadline_s = time.monotonic() + _END_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if os.waitpid(self._process, os.WNOHANG)[0]:
                return
            time.sleep(_POLL_INTERVAL_S)
        os.kill(self._process, signal.SIGKILL)

    def _raise_if_ended(self) -> None:
        ended, status = os.waitpid(self._process, os.WNOHANG)
        if not ended:
            return
        self._is_running = False
        code = os.waitstatus_to_exitcode(status)
        with self._output_file.open("rb") as output:
            output.seek(self._begin)
            click.echo(output.read(), nl=False, err=True)
        if code > 0:
            raise click.exceptions.Exit(code)
        by = f" by {signal.Signals(-code).name}" if code else ""
        raise Failure(f"the node was ended{by} before it was ready", ExitCode.NOT_READY)


def _not_accepting_reason(url: str) -> str | None:
    """Why a listener of Kafka's protocol cannot be used; None if it accepts connections."""
    host, _, port = url.removeprefix(KAFKA_SCHEME).rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_TIMEOUT_S).close()
    except OSError as error:
        return f"{url} does not accept connections: {error.strerror or error}"
    return None


def _not_ready_reason(url: str) -> str | None:
    """The reason that /readyz gives; None if the node is ready."""
    from authorizer.client.address import Address
    from authorizer.client.exchange import TRANSPORT_ERRORS

    address = Address(url, None, None)
    timeouts = dict.fromkeys(("connect", "read", "write", "pool"), _ANSWER_TIMEOUT_S)
    request = address.request("GET", "/readyz", {}, timeout_s=timeouts, body=None)
    with ExitStack() as opened:
        try:
            response = address.pool(opened).request(**request)
        except TRANSPORT_ERRORS as error:
            return f"{url}: {type(error).__name__} {error}"
    answer: dict[str, Any] = json.loads(response.content)
    return None if answer["ready"] else str(answer["reason"])
