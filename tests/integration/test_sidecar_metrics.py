"""What a sidecar counts of its requests: all of them, each once, and no more labels than endpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from authorizer.listeners.durations import BOUNDS_S
from authorizer.sidecar.http.request_metrics import TIMED_EVERY, RequestMetrics
from authorizer.sidecar.routes import node_routes
from records.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from support.metric_scrapes import Scrape, scrape
from support.node_acls import topic_acl
from support.nodes import SOON_S, node_with_client
from support.raw_http import connected, request
from support.waiting import wait_until

DURATION = "aclog_http_request_duration_seconds"
ONE, MANY = "/access/v1/evaluation", "/access/v1/evaluations"
QUESTION: dict[str, Any] = {
    "subject": {"type": "User", "id": "a"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """Of a node with User:a allowed to READ orders; it may describe the cluster. Each scrape is new."""
    monkeypatch.setattr(node_routes, "TEXT_TTL_S", 0.0)
    describes = AclBinding(
        ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
        AccessControlEntry("User:ANONYMOUS", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    )
    with node_with_client(tmp_path / "log", [topic_acl("orders"), describes]) as (_, client):
        yield client


def counted(scraped: Scrape) -> dict[tuple[str, str, str], int]:
    """Requests by method, endpoint and status, without those for /metrics."""
    return {
        (each.labels["method"], each.labels["endpoint"], each.labels["status"]): int(each.value)
        for each in scraped.metric_families["aclog_http_requests"].samples
        if each.labels["endpoint"] != "/metrics" and each.value
    }


def test_each_request_is_counted_once_inline_or_by_the_application(client: httpx.Client) -> None:
    """What the protocol answers and what the application does are under one name, by endpoint and status."""
    for _ in range(3):
        assert client.post(ONE, json=QUESTION).json()["decision"] is True
    client.post(MANY, json={**QUESTION, "evaluations": [{}, {}]})
    client.post(MANY, json={**QUESTION, "evaluations": [{}] * 101})  # by the application
    client.post(ONE, content=b"{")
    client.post(ONE, content=json.dumps(QUESTION), headers={"content-type": "text/plain"})
    client.get("/v1/acls", params={"principal": "User:a"})
    client.get("/v1/acls/AAAAAAAAAAAAAAAAAAAAAA")
    client.delete(ONE)
    client.get("/readyz")
    assert counted(scrape(client)) == {
        ("POST", ONE, "200"): 3,
        ("POST", ONE, "400"): 2,
        ("POST", MANY, "200"): 2,
        ("GET", "/v1/acls", "200"): 1,
        ("GET", "/v1/acls/{id}", "404"): 1,
        ("DELETE", ONE, "405"): 1,
        ("GET", "/readyz", "200"): 1,
    }


def test_application_answers_are_timed_and_a_sixteenth_of_inline_ones(client: httpx.Client) -> None:
    """The first one, too, so that a sidecar that is asked now and then has durations."""
    for _ in range(TIMED_EVERY + 1):
        client.post(ONE, json=QUESTION)
    for _ in range(3):
        client.get("/v1/state")
    scraped = scrape(client)
    assert scraped.value(f"{DURATION}_count", endpoint=ONE) == 2
    assert scraped.value(f"{DURATION}_count", endpoint="/v1/state") == 3
    assert 0 < scraped.value(f"{DURATION}_sum", endpoint=ONE) < SOON_S


def test_unknown_paths_share_one_label(client: httpx.Client) -> None:
    """A scanner's paths and methods do not make the memory grow."""
    for name in range(20):
        client.get(f"/wp-admin/{name}")
    for method in ("PURGE", "MKCOL", "REPORT"):
        client.request(method, "/")
    client.request("INVENTED", "/")  # no HTTP for the parser
    assert counted(scrape(client)) == {
        ("GET", "other", "404"): 20,
        ("other", "/", "405"): 3,
        ("other", "other", "400"): 1,
    }


def test_open_streams_and_connections_are_counted(client: httpx.Client) -> None:
    """In flight by endpoint, connections by listener; and they go away."""

    def open_ones() -> tuple[float, float]:
        scraped = scrape(client)
        return (
            scraped.value("aclog_http_requests_in_flight", endpoint="/v1/changes"),
            scraped.value("aclog_http_connections", listener="PLAINTEXT"),
        )

    assert open_ones() == (0, 1)
    with client.stream("GET", "/v1/changes") as stream:
        assert stream.status_code == 200
        assert open_ones() == (1, 2)
    wait_until(lambda: open_ones() == (0, 1))
    assert counted(scrape(client)) == {("GET", "/v1/changes", "200"): 1}


def test_a_client_that_closes_before_its_answer_is_counted_separately(client: httpx.Client) -> None:
    """Half a body, then nothing: there is no status."""
    with connected(str(client.base_url)) as wire:
        wire.send(request("POST", "/v1/filter", body=b"{}")[:-1])
        wait_until(lambda: scrape(client).value("aclog_http_requests_in_flight", endpoint="/v1/filter"))
    wait_until(lambda: counted(scrape(client)) == {("POST", "/v1/filter", "none"): 1})


def test_the_event_loops_delay_is_measured(client: httpx.Client) -> None:
    """Twice a second it is noted how late it is."""
    wait_until(lambda: scrape(client).value("aclog_event_loop_delay_seconds_count"))


def test_histogram_buckets_have_inclusive_upper_bounds() -> None:
    """Cumulative, with the bound itself below it, and the sum in seconds."""
    requests = RequestMetrics()
    for duration_s in (*BOUNDS_S, 60.0):
        requests.add("POST", ONE, 200, duration_s)
    (family,) = [each for each in requests.collect() if each.name == DURATION]
    buckets = {each.labels["le"]: each.value for each in family.samples if each.name.endswith("_bucket")}
    assert list(buckets.values()) == list(range(1, len(BOUNDS_S) + 2))
    assert [float(bound) for bound in buckets] == [*BOUNDS_S, math.inf]
    (total,) = [each.value for each in family.samples if each.name.endswith("_sum")]
    assert total == pytest.approx(sum(BOUNDS_S) + 60)
