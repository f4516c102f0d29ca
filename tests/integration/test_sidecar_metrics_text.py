"""The text of /metrics: one rendering at a time, beside the event loop, for all who ask within a second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import prometheus_client
import pytest

from authorizer.sidecar.routes import node_routes
from support.fleets import fleet_config, node_of, running_fleet
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, node_with_client, running_node
from support.waiting import wait_until

CLIENTS = 20
QUESTION = {
    "subject": {"type": "User", "id": "ANONYMOUS"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


class Renderings:
    """Renders as prometheus_client does, once it is let.

    Attributes:
        count: how many there were.
        most: how many there were at the same time.
        may_end: they wait for this.
    """

    def __init__(self) -> None:
        self.count = self.most = self._now = 0
        self.may_end = threading.Event()
        self._lock = threading.Lock()
        self._render = prometheus_client.generate_latest

    def __call__(self, collected: prometheus_client.CollectorRegistry) -> bytes:
        with self._lock:
            self.count += 1
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            assert self.may_end.wait(SOON_S)
            return self._render(collected)
        finally:
            with self._lock:
                self._now -= 1


@pytest.fixture
def renderings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Renderings]:
    found = Renderings()
    monkeypatch.setattr(prometheus_client, "generate_latest", found)
    yield found
    found.may_end.set()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with node_with_client(tmp_path / "log", [topic_acl("orders")]) as (_, client):
        client.timeout = httpx.Timeout(SOON_S)
        yield client


@contextmanager
def scraping(client: httpx.Client, may_end: threading.Event, *paths: str) -> Iterator[list[str]]:
    """Many clients that ask for each path at the same time; their texts, at the end, which ``may_end``."""
    texts: list[str] = []

    def scrape(path: str) -> None:
        with httpx.Client(base_url=client.base_url, timeout=SOON_S) as another:
            answer = another.get(path)
            assert answer.status_code == 200
            texts.append(answer.text)

    with ThreadPoolExecutor(CLIENTS) as threads:
        scrapes = [threads.submit(scrape, path) for path in paths * (CLIENTS // len(paths))]
        try:
            yield texts
        finally:
            may_end.set()
        for each in scrapes:
            each.result()


def test_concurrent_scrapes_share_one_rendering_and_block_no_request(
    client: httpx.Client, renderings: Renderings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_routes, "TEXT_TTL_S", 3600.0)
    with scraping(client, renderings.may_end, "/metrics") as texts:
        wait_until(lambda: renderings.count == 1)
        for _ in range(3):
            assert client.post("/access/v1/evaluation", json=QUESTION).status_code == 200
            assert client.get("/livez").status_code == 200
        assert texts == []
    # And those who ask soon afterwards.
    texts += [client.get("/metrics").text for _ in range(10)]
    assert renderings.count == 1
    assert len(set(texts)) == 1
    assert len(texts) == CLIENTS + 10


def test_a_rendered_text_is_cached_briefly(
    client: httpx.Client, renderings: Renderings, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderings.may_end.set()
    monkeypatch.setattr(node_routes, "TEXT_TTL_S", 0.0)
    assert 'endpoint="/v1/state"' not in client.get("/metrics").text
    client.get("/v1/state")
    assert 'endpoint="/v1/state"' in client.get("/metrics").text
    assert renderings.count == 2


def test_a_closed_client_does_not_end_the_rendering_for_others(
    client: httpx.Client, renderings: Renderings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A client that is late on a busy machine gets the same text.
    monkeypatch.setattr(node_routes, "TEXT_TTL_S", 3600.0)
    with scraping(client, renderings.may_end, "/metrics") as texts:
        wait_until(lambda: renderings.count == 1)
        with pytest.raises(httpx.ReadTimeout):
            client.get("/metrics", timeout=0.1)
    assert len(texts) == CLIENTS
    assert renderings.count == 1


def test_a_failed_rendering_is_retried(
    client: httpx.Client, renderings: Renderings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> bytes:
        raise ValueError("a metric that cannot be shown")

    renderings.may_end.set()
    with monkeypatch.context() as patch:
        patch.setattr(prometheus_client, "generate_latest", fail)
        assert client.get("/metrics").status_code == 500
    assert client.get("/metrics").status_code == 200


def test_a_fleet_renders_one_text_at_a_time(tmp_path: Path, renderings: Renderings) -> None:
    """Each cluster has a text, and all together have one."""
    for name in ("eu", "us"):
        with running_node(tmp_path / name, log_mode="create") as node:
            create(node, [topic_acl("orders")])
    config = fleet_config({name: tmp_path / name for name in ("eu", "us")})
    with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
        for name in ("eu", "us"):
            node_of(fleet, name)
        paths = "/metrics", "/clusters/eu/metrics", "/clusters/us/metrics"
        with scraping(client, renderings.may_end, *paths) as texts:
            wait_until(lambda: renderings.count == 1)
            assert client.get("/livez").status_code == 200
        assert len(texts) == CLIENTS // 3 * 3
        assert renderings.most == 1
