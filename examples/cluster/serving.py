"""One ``aclog serve`` in a process of its own, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from examples.cluster import ROOT
from support.dies_with_parent import dying_with_parent
from support.kafka_broker import HOST, free_ports, stop

_REQUEST_TIMEOUT_S = 10.0
_READY_TIMEOUT_S = 60.0


class NotReadyError(Exception):
    """The process ended, or was not ready in time; the message has what it logged last."""


class ServingNode:
    """A node that can be killed and started again; its port stays, and so does its log file.

    Attributes:
        name: for people.
        url: of its sidecar.
    """

    def __init__(self, name: str, home: Path, settings: Mapping[str, str]) -> None:
        self.name = name
        self._port = free_ports(1)[0]
        self.url = f"http://{HOST}:{self._port}"
        self._log_file = home / f"{name}.log"
        self._environment = {**settings, "ACLOG_LISTENERS": f"PLAINTEXT://{HOST}:{self._port}"}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process without waiting for it."""
        with self._log_file.open("ab") as output:
            self._process = subprocess.Popen(
                dying_with_parent([sys.executable, "-m", "authorizer.cli", "serve"]),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
            )

    def wait_until_ready(self) -> None:
        """Return when /readyz says so; raises NotReadyError."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            if self._answers("/readyz"):
                return
            time.sleep(0.1)
        raise NotReadyError(
            f"{self.name} is not ready:\n{self._log_file.read_text(encoding='utf-8')[-2000:]}"
        )

    def may_read(self, principal: str, topic: str, *, min_offset: int = 0) -> tuple[bool, int]:
        """Whether it may, and at which offset that was decided; waits until ``min_offset`` is visible."""
        [answer] = self.may_read_all([(principal, topic)], min_offset=min_offset)
        return answer

    def may_read_all(
        self, questions: Sequence[tuple[str, str]], *, min_offset: int = 0
    ) -> list[tuple[bool, int]]:
        """The same for several, all decided on one state."""
        body = {
            "action": {"name": "READ"},
            "context": {"host": "10.0.0.1", "min_offset": min_offset},
            "evaluations": [
                {
                    "subject": {"type": "User", "id": principal},
                    "resource": {"type": "TOPIC", "id": topic},
                }
                for principal, topic in questions
            ],
        }
        status, answer = self._request("POST", "/access/v1/evaluations", json.dumps(body))
        if status != http.client.OK:
            raise NotReadyError(f"{self.name}: {answer}")
        return [(each["decision"], each["context"]["offset"]) for each in json.loads(answer)["evaluations"]]

    def state(self) -> dict[str, Any]:
        """/v1/state."""
        return dict(json.loads(self._request("GET", "/v1/state")[1]))

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        text = self._request("GET", "/metrics")[1]
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """SIGTERM, if it runs."""
        if self._process is not None and self._process.poll() is None:
            stop(self._process)

    def _answers(self, path: str) -> bool:
        try:
            return self._request("GET", path)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def _request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=_REQUEST_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8")
        finally:
            connection.close()
