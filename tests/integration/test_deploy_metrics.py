"""The dashboard, the alerts and docs/metrics.md speak of what a running sidecar exposes, and only of that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
import promql_parser
import pytest

from authorizer.admin_server.server import AdminServer
from authorizer.configuration.load import load_config
from records.log.base import LogIdentity
from snapshot.jobs.planning.log_states import LogBacklog
from snapshot.jobs.running.progress_metrics import JobMetrics
from snapshot.jobs.sources.logs import FollowedLog
from support.admin_requests import ask, request_frame
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
    queries_of,
)
from support.prom_units import GRAFANA_UNITS, unit_of
from support.snapshots import TOPIC_ID
from support.spark_progress import RUN, progress
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
#: With several processes only (test_cli_serve_workers.py); gauges have the label in all panels.
WORKER: Final = "worker"
OF_WORKERS: Final = {
    "aclog_workers": set[str](),
    "aclog_worker_up": {WORKER},
    "aclog_worker_restarts_total": {WORKER},
}
ROW = re.compile(r"^\| `([a-z_]+)` \| (gauge|counter|histogram) \| ([a-zA-Z_, ]*)\|", re.MULTILINE)
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def of_spark() -> Scrape:
    """What a Spark job serves, in a fleet, after a batch."""
    log = FollowedLog(url="/var/acls", identity=LogIdentity("c", TOPIC_ID))
    metrics = JobMetrics([log], ["changes"])
    query = metrics.queries["changes"]
    query.listed()
    query.started("changes", RUN)
    query.planned(LogBacklog(cluster_id="c", start=0, log_end=5, oldest_ms=0, next_ms=None))
    end = '{"c":{"offset":5,"epoch":null}}'
    query.progressed(progress((end,), (end,), durations_ms={"addBatch": 1, "triggerExecution": 2}))
    return Scrape({family.name: family for family in metrics.collect()})


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
    settings |= {
        "cluster_eu_admin_listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "admin_credentials_file": directory / "credentials",
    }
    (directory / "credentials").touch()
    config = fleet_config({"eu": directory / "eu"}, **settings)
    with (
        AdminServer(config) as server,
        running_fleet(config, server) as (fleet, url),
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        create(node_of(fleet, "eu"), [topic_acl("orders")])
        request = request_frame("sasl_handshake", 1, {"mechanism": "SCRAM-SHA-512"})
        wait_until(lambda: ask(server.addresses[0], request), "a request of Kafka's protocol")
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
def test_queried_metrics_are_exposed(
    each: PromQuery, scraped: Scrape, of_clusters: set[str], of_spark: Scrape
) -> None:
    """PromQL that parses, of series and labels that there are; in a panel of one cluster what is one's."""
    exposed = (
        scraped.labels()
        | of_spark.labels()
        | OF_WORKERS
        | {UP: set()}
        | {name: set[str]() for name in OF_CONSOLE}
    )
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


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_has_one_unit_on_its_axis(panel: dict[str, Any]) -> None:
    """Each query's own, and Grafana's unit for it; there is no second axis."""
    units = {unit_of(promql_parser.parse(query.expression)) for query in queries_of(panel)}
    assert len(units) == 1, units
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"] in GRAFANA_UNITS[units.pop() or ""]
    assert "axisPlacement" not in str(panel)
    assert panel["fieldConfig"]["overrides"] == []
    if panel["type"] == "heatmap":  # its axis has the limits of the buckets
        assert panel["options"]["yAxis"]["unit"] == "s"


@pytest.mark.parametrize(
    "expression", ["aclog_lag_ms + aclog_lag_records", "rate(process_cpu_seconds_total[1m]) - time()"]
)
def test_two_units_are_found(expression: str) -> None:
    with pytest.raises(ValueError, match="two units"):
        unit_of(promql_parser.parse(expression))


def test_gauges_of_several_processes_name_their_worker() -> None:
    """A panel of a gauge shows a series for each worker, and its legend names it."""
    gauges = [
        (panel["title"], target["legendFormat"])
        for panel in panels()
        for target in panel["targets"]
        if not re.search(r" by \(|rate\(|increase\(|aclog_console_up", target["expr"])
    ]
    assert [title for title, legend in gauges if "{{worker}}" not in legend] == []


def test_links_lead_to_views_of_the_console() -> None:
    """At the address of the dashboard's variable; from panels, too."""
    found = dashboard()
    (console,) = (each for each in found["templating"]["list"] if each["name"] == "console")
    assert console["query"] == f"http://127.0.0.1:{load_config(environ={}).listeners[0].port}"
    source = (ROOT / "authorizer" / "console" / "assets" / "main.js").read_text("utf-8")
    table = re.search(r"const VIEWS = {(.*?)};", source, re.DOTALL)
    assert table is not None
    views = set(re.findall(r"(\w+): \[", table[1]))
    urls = [link["url"] for each in (found, *panels()) for link in each.get("links", ())]
    assert len(urls) > len(found["links"])
    for url in urls:
        address, _, view = url.partition("/#view=")
        assert (address, view in views) == ("${console}", True), url


def test_annotations_show_changes_of_acls(scraped: Scrape) -> None:
    (annotation,) = dashboard()["annotations"]["list"]
    effects = re.search(r'effect=~"([^"]*)"', annotation["expr"])
    assert effects is not None
    for effect in effects[1].split("|"):
        assert scraped.value("aclog_replay_records_total", effect=effect) >= 0
        assert effect in str(scraped.metric_families["aclog_replay_records"].samples)


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


def test_every_metric_is_documented(scraped: Scrape, of_spark: Scrape) -> None:
    """docs/metrics.md has each with its type and labels, and none that is not exposed."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    described = {
        name: (kind, set(filter(None, re.split(r",\s*", labels.strip()))))
        for name, kind, labels in ROW.findall(text)
    }
    exposed = {}
    for family in (scraped.metric_families | of_spark.metric_families).values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        exposed[name] = family.type, labels
    of_process = {name for name in exposed if name.startswith(("process_", "python_"))}
    exposed_by_all = {name: exposed[name] for name in exposed.keys() - of_process}
    assert described == OF_POLLS | OF_CONSOLE | exposed_by_all
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


def test_runbooks_and_guides_name_metrics_that_exist(scraped: Scrape, of_spark: Scrape) -> None:
    guides = (page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "how-to").glob("*.md"))
    names = set(re.findall(r"`(aclog_[a-z_]+)`", "".join((RUNBOOKS, *guides))))
    exposed = {re.sub("_(bucket|count|sum)$", "", name) for name in scraped.labels() | of_spark.labels()}
    assert names - exposed == OF_WORKERS.keys() | OF_POLLS.keys() | OF_CONSOLE.keys()
