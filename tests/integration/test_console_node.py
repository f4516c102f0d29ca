"""The console's node view: decisions, and whether the nodes of one log agree."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from authorizer.api.errors import ConfigError
from authorizer.node.node import Node
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from records.acl import (
    AclOperation,
    AclPermissionType,
)
from records.log.directory import DirectoryLog
from records.log.directory.files import SOCKET_FILE
from records.principal import KafkaPrincipal
from support.console_page import LOOKS, ColorScheme, assert_accessible, console_page
from support.fleets import fleet_config, node_of, running_fleet
from support.metric_scrapes import scrape
from support.node_acls import on_cluster, topic_acl
from support.nodes import SOON_S, config_of, create, running_node, sidecar_of
from support.serving_workers import serving_workers
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

#: Of a running node; a copy of its directory is without it.
SOCKET = shutil.ignore_patterns(SOCKET_FILE)
SCRIPT = "<script>document.title='taken'</script>"
DESCRIBE = on_cluster(AclOperation.DESCRIBE)


@contextmanager
def strange_server(good: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Servers that are not nodes, or malicious, by cluster name; records the requested paths."""
    requested: list[str] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            with suppress(OSError):
                match self.path.split("/")[2:3]:
                    case ["junk"]:
                        self._answer(200, f"{SCRIPT} is no JSON".encode())
                    case ["marked"]:
                        self._answer(
                            200, json.dumps(good | {"cluster_id": SCRIPT, "reason": SCRIPT}).encode()
                        )
                    case ["refusing"]:
                        problem = {"code": "X", "detail": SCRIPT * 1000}
                        self._answer(400, json.dumps(problem).encode(), kind="application/problem+json")
                    case ["elsewhere"]:
                        self._answer(
                            302, b"", location=f"http://{self.headers['host']}/clusters/trap/v1/state"
                        )
                    case ["huge"]:
                        self._answer(200, b"")
                        while not over.is_set():
                            self.wfile.write(b" " * 65536)
                    case ["slow"]:
                        self._answer(200, b"")
                        while not over.wait(0.1):
                            self.wfile.write(b" ")

        def _answer(
            self, status: int, body: bytes, kind: str = "application/json", location: str = ""
        ) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            if location:
                self.send_header("location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # none outlives the test
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requested
    finally:
        over.set()
        server.shutdown()
        serving.join()
        server.server_close()


@contextmanager
def nowhere() -> Iterator[str]:
    """A bound address without a listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Peers of the node in ``directory``, by verdict."""
    home = tmp_path_factory.mktemp("console-node")
    with ExitStack() as opened:
        with running_node(home / "log", log_mode="create") as first:
            create(first, [DESCRIBE, topic_acl("orders")])
        shutil.copytree(home / "log", home / "copy", ignore=SOCKET)
        copy = opened.enter_context(running_node(home / "copy", log_mode="write"))
        create(copy, [topic_acl("only.in.the.copy")])
        other = opened.enter_context(running_node(home / "other", log_mode="create"))
        create(other, [DESCRIBE])
        follower = opened.enter_context(running_node(home / "log", log_mode="read"))
        yield {
            "directory": str(home / "log"),
            "agrees": opened.enter_context(sidecar_of(follower)),
            "differs": opened.enter_context(sidecar_of(copy)),
            "other log": opened.enter_context(sidecar_of(other)),
            "away": opened.enter_context(nowhere()),
        }


@pytest.fixture(scope="module")
def node(peers: dict[str, str]) -> Iterator[Node]:
    copies = ",".join(url for kind, url in peers.items() if kind != "directory")
    with running_node(
        peers["directory"], log_mode="write", console_peers=copies, describe_principals="User:ANONYMOUS"
    ) as running:
        # The same number of records, with other ACLs.
        create(running, [topic_acl("payments", permission=AclPermissionType.DENY)])
        yield running


def shown(number: Locator) -> float:
    return float(number.inner_text().replace(",", ""))


def nodes_of(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {each["url"]: each for each in client.get("/console/v1/nodes").json()["nodes"]}


@pytest.mark.long
def test_peer_nodes_show_whether_and_why_they_agree(
    page: Page, url: str, client: httpx.Client, node: Node, peers: dict[str, str]
) -> None:
    wait_until(lambda: nodes_of(client)[peers["agrees"]]["verdict"] == "agrees")
    page.goto(f"{url}/#view=node")
    rows = page.locator("table.nodes tbody tr")
    expect(rows).to_have_count(4)
    agreeing = rows.filter(has_text=peers["agrees"])
    expect(agreeing).to_contain_text(f"agrees: the same ACLs at offset {node.status().end_offset - 1}")
    expect(agreeing).to_contain_text(node.status().digest)
    with httpx.Client(base_url=peers["agrees"], timeout=SOON_S) as other:
        state = other.get("/v1/state").json()
    assert state["kafka_version"]["version"] is None  # an aclog-managed log has no release
    expect(agreeing).to_contain_text("Kafka release not known")
    expect(agreeing).to_contain_text(f"{state['acl_count']} ACLs")
    differing = rows.filter(has_text=peers["differs"])
    with httpx.Client(base_url=peers["differs"], timeout=SOON_S) as other:
        theirs = other.get("/v1/state").json()
    assert theirs["offset"] == node.status().end_offset
    expect(differing).to_contain_text(
        f"DIFFERS: different ACLs at offset {theirs['offset'] - 1}: digest {theirs['digest']} there, "
        f"{node.status().digest} here"
    )
    expect(rows.filter(has_text=peers["other log"])).to_contain_text("another log")
    expect(rows.filter(has_text=peers["away"])).to_contain_text("away")
    expect(rows.filter(has_text=peers["away"])).to_contain_text("Connection refused")


def test_a_node_ahead_is_compared_once_this_one_reaches_its_offset(
    client: httpx.Client, tmp_path: Path, peers: dict[str, str]
) -> None:
    """The peer's digest is cached until this node reaches its offset."""
    shutil.copytree(peers["directory"], tmp_path / "log", ignore=SOCKET)
    with (
        running_node(tmp_path / "log", log_mode="write") as writer,
        sidecar_of(writer) as leading,
        running_node(tmp_path / "log", log_mode="read", console_peers=leading) as behind,
        sidecar_of(behind, console_listeners="*") as url,
        httpx.Client(base_url=url, timeout=SOON_S) as asking,
    ):
        (found,) = nodes_of(asking).values()
        assert found["verdict"] in ("agrees", "unknown")
        create(writer, [topic_acl("ahead")])
        wait_until(lambda: nodes_of(asking)[leading]["state"]["offset"] == writer.status().end_offset)
        wait_until(lambda: nodes_of(asking)[leading]["verdict"] == "agrees")
        assert str(writer.status().end_offset - 1) in nodes_of(asking)[leading]["why"]


def test_a_peer_that_requires_a_token_is_queried_with_one(peers: dict[str, str], tmp_path: Path) -> None:
    token, stored = new_token(KafkaPrincipal("User", "console"))
    TOKENS_FILE.put(tmp_path / "tokens", stored)
    guarded = {"auth_tokens_file": tmp_path / "tokens", "auth_required_listeners": "PLAINTEXT"}
    with (
        running_node(peers["directory"], log_mode="read") as other,
        sidecar_of(other, **guarded) as peer,
        running_node(
            peers["directory"], log_mode="read", console_peers=peer, console_peers_token_file=tmp_path / "own"
        ) as running,
        sidecar_of(running, console_listeners="*") as url,
        httpx.Client(base_url=url, timeout=SOON_S) as asking,
    ):
        found = nodes_of(asking)[peer]
        assert found["verdict"] == "away"
        assert "No such file" in found["why"]
        (tmp_path / "own").write_text("two\nlines")
        wait_until(lambda: "not one bearer token" in nodes_of(asking)[peer]["why"])
        # The file is read for each query.
        (tmp_path / "own").write_text("wrong")
        wait_until(lambda: "no token of aclog" in nodes_of(asking)[peer]["why"])
        (tmp_path / "own").write_text(token)
        wait_until(lambda: nodes_of(asking)[peer]["verdict"] == "agrees")


@pytest.mark.long
def test_answers_of_other_servers_are_shown_as_text_and_redirects_ignored(
    chromium: Browser, peers: dict[str, str], tmp_path: Path
) -> None:
    with httpx.Client(base_url=peers["agrees"], timeout=SOON_S) as other:
        good = other.get("/v1/state").json()
    with strange_server(good) as (strange, requested):
        kinds = ("junk", "marked", "refusing", "elsewhere", "huge", "slow")
        urls = {kind: f"{strange}/clusters/{kind}" for kind in kinds}
        with (
            running_node(
                tmp_path / "log",
                log_mode="create",
                console_peers=",".join(urls.values()),
            ) as running,
            sidecar_of(running, console_listeners="*") as url,
            console_page(chromium, url) as page,
        ):
            create(running, [DESCRIBE])
            page.goto(f"{url}/#view=node")
            rows = {kind: page.locator("table.nodes tbody tr", has_text=each) for kind, each in urls.items()}
            expect(rows["junk"]).to_contain_text(
                "away: " + urls["junk"] + " does not answer as an aclog node"
            )
            expect(rows["elsewhere"]).to_contain_text("does not answer as an aclog node")
            expect(rows["huge"]).to_contain_text("not an answer of a node")
            expect(rows["slow"]).to_contain_text("sent no complete answer within 2 s")
            expect(rows["marked"]).to_contain_text("another log")
            expect(rows["refusing"]).to_contain_text(SCRIPT)
            assert len(rows["refusing"].inner_text()) < 500
            assert page.title().endswith("aclog")
            assert page.locator("table.nodes script").count() == 0
    assert {path.split("/")[2] for path in requested} == set(kinds)


@pytest.mark.long
def test_decisions_by_rule_equal_the_metrics(page: Page, url: str, client: httpx.Client) -> None:
    page.goto(f"{url}/#view=node")
    figures = page.locator("table.figures")
    denied = figures.locator("tr", has_text="denied by an ACL").locator("td")
    before = scrape(client).value("aclog_authorizations_total", result="denied", rule="MatchingAcl")
    expect(denied.nth(2)).to_have_text(f"{before:,.0f}")
    question = {
        "subject": {"type": "User", "id": "a"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": "payments"},
        "context": {"host": "10.0.0.1"},
    }
    for _ in range(50):
        assert client.post("/access/v1/evaluation", json=question).json()["decision"] is False
    expect(denied.nth(2)).to_have_text(f"{before + 50:,.0f}")
    assert float(denied.nth(1).inner_text()) > 0
    # The page's own requests are counted, too, so these numbers grow while it is open.
    for result, rule, words in (
        ("allowed", "MatchingAcl", "allowed by an ACL"),
        ("denied", "DefaultDeny", "denied: no ACL found"),
    ):
        number = figures.locator("tr", has_text=words).locator("td").nth(2)
        least = scrape(client).value("aclog_authorizations_total", result=result, rule=rule)
        wait_until(lambda number=number, least=least: shown(number) >= least)  # type: ignore[misc]
        at_most = shown(number)
        assert at_most <= scrape(client).value("aclog_authorizations_total", result=result, rule=rule)


@pytest.mark.long
def test_decisions_of_several_workers_are_added_up(tmp_path: Path) -> None:
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    settings = {"super.users": "User:ANONYMOUS"}
    question = {
        "subject": {"type": "User", "id": "nobody"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": "orders"},
        "context": {"host": "10.0.0.1"},
    }
    with serving_workers(tmp_path, tmp_path / "log", settings, "--console") as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            for client in clients.values():
                for _ in range(3):
                    assert client.post("/access/v1/evaluation", json=question).is_success
            for client in clients.values():
                # The console process may start after the workers.
                requested = partial(client.get, "/console/v1/decisions")
                wait_until(lambda requested=requested: requested().is_success)  # type: ignore[misc]
                rules = requested().json()["rules"]
                (denied,) = [each["count"] for each in rules if each["rule"] == "DefaultDeny"]
                assert denied == 6
                labels = {"result": "denied", "rule": "DefaultDeny"}
                assert scrape(client).value("aclog_authorizations_total", **labels) == denied


def test_counts_and_nodes_require_describe_on_the_cluster(tmp_path: Path) -> None:
    with (
        running_node(tmp_path / "log", log_mode="create") as plain,
        sidecar_of(plain, console_listeners="*") as url,
        httpx.Client(base_url=url, timeout=SOON_S) as asking,
    ):
        for path in ("decisions", "nodes"):
            assert asking.get(f"/console/v1/{path}").status_code == httpx.codes.FORBIDDEN, path


def test_an_invalid_peer_address_stops_the_start() -> None:
    for wrong in ("ftp://h:1", "http://user:secret@h:1", "http://h:1/other", "h:1"):
        with pytest.raises(ConfigError, match=re.escape("aclog.console.peers")):
            config_of(console_peers=wrong)


@pytest.fixture(scope="module")
def fleet(peers: dict[str, str], tmp_path_factory: pytest.TempPathFactory, node: Node) -> Iterator[str]:
    """Two ready clusters, one of which the caller may describe, and one that is not ready."""
    del node  # has written all its records
    home = tmp_path_factory.mktemp("console-fleet")
    logs = {"eu": home / "eu", "us": home / "us", "gone": home / "gone"}
    shutil.copytree(peers["directory"], logs["eu"], ignore=SOCKET)
    with running_node(logs["us"], log_mode="create"):
        pass
    logs["gone"].write_bytes(b"a file")
    config = fleet_config(
        logs,
        console_listeners="*",
        **{
            "cluster.eu.console.peers": f"{peers['agrees']},{peers['differs']},{peers['away']}",
            "cluster.us.console.peers": peers["agrees"],
        },
    )
    with running_fleet(config) as (running, url):
        for name in ("eu", "us"):
            node_of(running, name)
        yield url


@pytest.mark.long
def test_a_fleets_root_lists_and_links_its_clusters(chromium: Browser, fleet: str, node: Node) -> None:
    with (
        console_page(chromium, fleet) as page,
        httpx.Client(base_url=fleet, timeout=SOON_S) as asking,
    ):
        page.goto(fleet)
        rows = page.locator("table.fleet tbody tr")
        expect(rows).to_have_count(3)
        expect(page.locator("main")).to_contain_text("3 clusters, 2 ready")
        states = {each["cluster"]: each for each in asking.get("/v1/state").json()["clusters"]}
        for name in ("eu", "us"):
            row = rows.filter(has_text=name)
            expect(row).to_contain_text("✓ ready")
            expect(row).to_contain_text(states[name]["digest"])
            expect(row).to_contain_text(f"{states[name]['acl_count']} ACL")
        assert states["eu"]["digest"] == node.status().digest
        expect(rows.filter(has_text="eu")).to_contain_text("1 agrees")
        expect(rows.filter(has_text="eu")).to_contain_text("1 DIFFERS")
        expect(rows.filter(has_text="eu")).to_contain_text("1 away")
        # Without Describe only what /v1/state shows.
        expect(rows.filter(has_text="us").locator("td").last).to_have_text("")
        expect(rows.filter(has_text="gone")).to_contain_text("✗ not ready")
        assert rows.filter(has_text="gone").locator("a").count() == 0
        page.get_by_role("link", name="eu").click()
        expect(page.locator("table.matrix")).to_be_visible()
        assert page.url.startswith(f"{fleet}/clusters/eu/")
        page.goto(f"{fleet}/clusters/eu")
        expect(page.locator("table.matrix")).to_be_visible()
        # Programs get the index of the API at the same path.
        assert asking.get("/").json()["name"] == "aclog"


def test_a_fleet_without_a_console_has_no_page(tmp_path: Path) -> None:
    with running_node(tmp_path / "log", log_mode="create"):
        pass
    with (
        running_fleet(fleet_config({"one": tmp_path / "log"})) as (_, url),
        httpx.Client(base_url=url, timeout=SOON_S) as asking,
    ):
        assert asking.get("/", headers={"accept": "text/html"}).json()["name"] == "aclog"
        for path in ("/console/assets/fleet.js", "/console/v1/clusters"):
            assert asking.get(path).status_code == httpx.codes.NOT_FOUND


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_pages_are_accessible(
    chromium: Browser, url: str, fleet: str, width: int, scheme: ColorScheme
) -> None:
    with console_page(chromium, url, width=width, color_scheme=scheme) as opened:
        opened.goto(f"{url}/#view=node")
        expect(opened.locator("table.nodes")).to_be_visible()
        expect(opened.locator("table.figures")).to_be_visible()
        assert_accessible(opened, f"node-{width}-{scheme}")
    with console_page(chromium, fleet, width=width, color_scheme=scheme) as opened:
        opened.goto(fleet)
        expect(opened.locator("table.fleet")).to_contain_text("DIFFERS")
        assert_accessible(opened, f"fleet-{width}-{scheme}")
