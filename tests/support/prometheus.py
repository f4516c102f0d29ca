"""A real Prometheus that scrapes what a test runs and evaluates the rules in deploy/."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.kafka_broker import HOST, free_ports
from support.nodes import SOON_S
from support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def get(self, path: str, **parameters: object) -> Any:
        """The ``data`` of an endpoint of its HTTP API. Raises AssertionError for an error response."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=SOON_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def query(self, expression: str) -> list[Any]:
        """The series of an instant query."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found


@contextmanager
def running_prometheus(
    programs: Path, directory: Path, targets: Sequence[str], rules: Path
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the targets as job ``aclog``, each second.

    Args:
        programs: where ``prometheus`` is.
        directory: for its data, its configuration and its log.
        targets: ``HOST:PORT`` of each.
        rules: the file that it evaluates.
    """
    config = directory / "prometheus.yml"
    scraping = {"job_name": "aclog", "static_configs": [{"targets": list(targets)}]}
    config.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(rules)],
                "scrape_configs": [scraping],
            }
        ),
        encoding="utf-8",
    )
    (port,) = free_ports(1)
    command = [
        str(programs / "prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={HOST}:{port}",
    ]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://{HOST}:{port}"
            _wait_until_ready(process, url, directory / "prometheus.log")
            yield Prometheus(url)
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            urllib.request.urlopen(f"{url}/-/ready", timeout=1).close()
        except OSError:
            return False
        return True

    wait_until(is_ready, f"Prometheus, whose log is {log}")
