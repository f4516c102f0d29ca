"""A real Prometheus scrapes real nodes, shows every panel of the dashboard and evaluates every alert."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from support.go_programs import PROMETHEUS
from support.instrumented_sidecar import instrumented_sidecar, send_requests
from support.node_acls import topic_acl
from support.nodes import create
from support.prom_queries import ALERTS, ROOT, PromQuery, alerts, panel_queries
from support.prometheus import Prometheus, running_prometheus
from support.serving_workers import serving_workers
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prometheus")]

RULE_TESTS = ROOT / "tests" / "data" / "alerts_test.yml"
#: What says that the machine has other work: pending, and no more, where other tests take the cores.
OF_THE_MACHINE = {"AclogOverloaded"}
SCRAPES = 4


@pytest.fixture(scope="module")
def programs() -> Path:
    directory = PROMETHEUS.directory()
    if directory is None:
        pytest.skip(PROMETHEUS.missing_reason())
    return directory


@pytest.fixture(scope="module")
def prometheus(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped two nodes of one log several times during requests and a change.

    The second one has several processes and the console.
    """
    directory = tmp_path_factory.mktemp("prometheus")
    settings = {"aclog.log.mode": "read", "aclog.console.listeners": "*"}
    with (
        instrumented_sidecar(directory) as (node, client),
        serving_workers(directory, directory / "log", settings) as serving,
    ):
        serving.wait_until_ready()
        targets = [urlsplit(url).netloc for url in (str(client.base_url), serving.urls[0])]
        with running_prometheus(programs, directory, targets, ALERTS) as running:
            scrapes = "count_over_time(aclog_ready[1m])"
            has_changed = False

            def are_enough() -> bool:
                nonlocal has_changed
                send_requests(client)
                counts = [float(each["value"][1]) for each in running.query(scrapes)]
                if len(counts) == 3 and min(counts) >= SCRAPES and not has_changed:
                    create(node, [topic_acl("changed")])
                    has_changed = True
                changes = running.query('increase(aclog_replay_records_total{effect="added"}[1m]) > 0')
                return has_changed and bool(changes)

            wait_until(are_enough, "scrapes")
            yield running


@pytest.mark.parametrize("panel_query", list(panel_queries()), ids=lambda panel_query: panel_query.where)
def test_every_panel_shows_data(panel_query: PromQuery, prometheus: Prometheus) -> None:
    """With the variables filled in as Grafana does, over a range and now: series, and numbers in them."""
    now_s = time.time()
    series = prometheus.get("query_range", query=panel_query.expression, start=now_s - 60, end=now_s, step=1)[
        "result"
    ]
    assert series, panel_query.expression
    assert prometheus.query(panel_query.expression)


def test_every_alert_is_evaluated_and_none_fires(prometheus: Prometheus) -> None:
    """By Prometheus itself, without an error; all is well, but the certificate is for a day."""

    def evaluated() -> dict[str, Any] | None:
        (group,) = prometheus.get("rules")["groups"]
        return group if all(rule["health"] != "unknown" for rule in group["rules"]) else None

    group = wait_until(evaluated, "every rule's evaluation")
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in alerts()]
    assert [rule["lastError"] for rule in group["rules"] if rule["health"] != "ok"] == []
    states = {(alert["labels"]["alertname"], alert["state"]) for alert in prometheus.get("alerts")["alerts"]}
    of_the_machine = {(name, "pending") for name in OF_THE_MACHINE}
    assert states - of_the_machine == {("AclogCertificateExpires", "firing")}


def test_alerts_fire_under_their_conditions(programs: Path) -> None:
    """Each at its moment and not before, by promtool, which also checks the configuration that is shipped."""
    shipped = ROOT / "deploy" / "prometheus.yml"
    for command in (("test", "rules", str(RULE_TESTS)), ("check", "config", str(shipped))):
        done = subprocess.run([programs / "promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_test() -> None:
    """promtool is content with rules that no test names."""
    text = RULE_TESTS.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["rule_files"] == ["../../deploy/alerts.yml"]
    assert [rule["alert"] for rule in alerts() if rule["alert"] not in text] == []
