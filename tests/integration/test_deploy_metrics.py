"""The dashboard, the alerts and docs/metrics.md speak of what a running sidecar exposes, and only of that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import httpx
import promql_parser
import pytest

from support.fleets import fleet_config, node_of, running_fleet
from support.instrumented_sidecar import instrumented_sidecar
from support.metric_scrapes import Scrape, scrape
from support.node_acls import topic_acl
from support.nodes import SOON_S, create
from support.prom_queries import (
    ROOT,
    PromQuery,
    alerts,
    dashboard,
    panel_queries,
    panels,
)
from support.waiting import wait_until

#: What Prometheus adds to each series that it scrapes, and its own series.
OF_PROMETHEUS = {"job", "instance"}
#: The label of what is one cluster's, where a process follows several.
CLUSTER = "cluster"
UP = "up"
#: With a polled log only (unit/test_authorizer_metrics.py).
OF_POLLS: Final = {"aclog_poll_age_ms": ("gauge", set()), "aclog_polls_total": ("counter", {"result"})}
#: With the console only (test_console_process.py).
OF_CONSOLE: Final[dict[str, tuple[str, set[str]]]] = {
    "aclog_console_up": ("gauge", set()),
    "aclog_console_restarts_total": ("counter", set()),
}
#: With listeners of Kafka's protocol only (test_admin_limits.py).
OF_ADMIN: Final[dict[str, tuple[str, set[str]]]] = {
    "aclog_admin_request_local_seconds": ("histogram", {"request"}),
    "aclog_admin_request_remote_seconds": ("histogram", {"request"}),
    "aclog_admin_connections": ("gauge", {"listener"}),
    "aclog_admin_connections_closed_total": ("counter", set()),
    "aclog_admin_requests_throttled_total": ("counter", set()),
    "aclog_admin_successful_authentication_total": ("counter", {"listener"}),
    "aclog_admin_failed_authentication_total": ("counter", {"listener"}),
    "aclog_admin_successful_reauthentication_total": ("counter", {"listener"}),
    "aclog_admin_failed_reauthentication_total": ("counter", {"listener"}),
    "aclog_admin_refused_total": ("counter", {"limit"}),
    "aclog_admin_request_bytes": ("gauge", set()),
    "aclog_admin_answer_bytes": ("gauge", set()),
}
ROW = re.compile(r"^\| `([a-z_]+)` \| (gauge|counter|histogram) \| ([a-zA-Z, ]*)\|", re.MULTILINE)
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrape]:
    with instrumented_sidecar(tmp_path_factory.mktemp("sidecar")) as (node, client):
        while (found := scrape(client)).value("aclog_snapshots_written_total") == 0:
            assert node.status().ready
        while found.value("aclog_event_loop_delay_seconds_count") == 0:
            found = scrape(client)
        yield found


@pytest.fixture(scope="module")
def of_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """The samples that a fleet has for each cluster, by their names."""
    directory = tmp_path_factory.mktemp("fleet")
    settings = {"log_mode": "create", "snapshot_store": directory / "snapshots", "snapshot_max_bytes": 1}
    with (
        running_fleet(fleet_config({"eu": directory / "eu"}, **settings)) as (fleet, url),
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        create(node_of(fleet, "eu"), [topic_acl("orders")])
        client.get("/clusters/eu/v1/state")
        wait_until(lambda: scrape(client).value("aclog_snapshots_written_total", cluster="eu") > 0)
        yield {name for name, labels in scrape(client).labels().items() if CLUSTER in labels}


def queries() -> list[PromQuery]:
    return [*panel_queries(), *(PromQuery(rule["alert"], rule["expr"]) for rule in alerts())]


def parts(expression: str) -> list[promql_parser.Expr]:
    """PromQL and everything within it; raises ValueError if it is none."""
    found: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(expression), found.append)
    return found


@pytest.mark.parametrize("each", queries(), ids=lambda each: each.where)
def test_queried_metrics_are_exposed(each: PromQuery, scraped: Scrape, of_clusters: set[str]) -> None:
    """PromQL that parses, of series and labels that there are; in a panel of one cluster what is one's."""
    exposed = scraped.labels() | {UP: set()} | {name: labels for name, (_, labels) in OF_ADMIN.items()}
    for name in of_clusters & exposed.keys():
        exposed[name].add(CLUSTER)
    names = set()
    for part in (found := parts(each.expression)):
        if isinstance(part, promql_parser.VectorSelector):
            assert part.name is not None
            assert part.name in exposed
            labels = {matcher.name for matcher in part.matchers.matchers}
            assert labels <= exposed[part.name] | OF_PROMETHEUS, part.name
            if labels >= OF_PROMETHEUS:  # a panel's
                assert (CLUSTER in labels) == (part.name in of_clusters), part.name
            names.add(part.name)
    assert names
    grouped = {
        label
        for part in found
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
        for label in part.modifier.labels
    }
    assert grouped <= OF_PROMETHEUS.union(*(exposed[name] for name in names))


def test_legends_name_labels_of_the_result() -> None:
    """What is between braces in a legend is a label of the result, so no panel shows an empty name."""
    for panel in panels():
        for target in panel["targets"]:
            by = re.search(r"\bby \(([^)]*)\)", target["expr"])
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            if by is not None:
                assert named <= set(re.split(r",\s*", by[1])), panel["title"]


def test_the_dashboard_can_be_imported() -> None:
    """Ids are unique, panels do not overlap, variables that are used are there, and each has its source."""
    found = dashboard()
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    variables = {variable["name"] for variable in found["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", str(found))) - {"__rate_interval", "__all"}
    assert used == variables
    for panel in panels():
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {source["uid"] for source in sources} == {"${datasource}"}


def test_every_metric_is_documented(scraped: Scrape) -> None:
    """docs/metrics.md has each with its type and labels, and none that is not exposed."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    described = {
        name: (kind, set(filter(None, re.split(r",\s*", labels.strip()))))
        for name, kind, labels in ROW.findall(text)
    }
    exposed = {}
    for family in scraped.metric_families.values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        exposed[name] = family.type, labels
    of_process = {name for name in exposed if name.startswith(("process_", "python_"))}
    exposed_by_all = {name: exposed[name] for name in exposed.keys() - of_process}
    assert described == OF_POLLS | OF_CONSOLE | OF_ADMIN | exposed_by_all
    assert {name for name in of_process if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_every_alert_has_a_runbook(rule: dict[str, object]) -> None:
    """Under its name in docs/runbooks.md, and says who is called."""
    name = str(rule["alert"])
    annotations, labels = rule["annotations"], rule["labels"]
    assert isinstance(annotations, dict)
    assert annotations["runbook_url"] == f"docs/runbooks.md#{name.lower()}"
    assert isinstance(labels, dict)
    assert labels["severity"] in {"page", "ticket"}
    runbook = re.search(rf"^#### {name}\n\n(.+?)(?=\n#|\Z)", RUNBOOKS, re.MULTILINE | re.DOTALL)
    assert runbook is not None
    assert len(runbook[1].split()) >= 20, "it says what it means and what to do"


def test_every_runbook_has_its_alert() -> None:
    """What was an alert once is no runbook."""
    runbooks = re.findall(r"^#### (Aclog\w+)$", RUNBOOKS, re.MULTILINE)
    assert sorted(runbooks) == sorted(rule["alert"] for rule in alerts())


def test_runbooks_and_guides_name_metrics_that_exist(scraped: Scrape) -> None:
    """Some are exposed by several processes alone (test_cli_serve_workers)."""
    guides = (page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "how-to").glob("*.md"))
    names = set(re.findall(r"`(aclog_[a-z_]+)`", "".join((RUNBOOKS, *guides))))
    exposed = {re.sub("_(bucket|count|sum)$", "", name) for name in scraped.labels()}
    of_workers = {"aclog_workers", "aclog_worker_up", "aclog_worker_restarts_total"}
    assert names - exposed - OF_ADMIN.keys() == of_workers | OF_POLLS.keys()
