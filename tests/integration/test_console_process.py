"""`aclog serve --console`: the console runs in a process of its own."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser, expect

from authorizer.console.console_proxy import ProxiedRequest
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from records.acl import CLUSTER_NAME, AclBinding, AclOperation, ResourceType
from records.log.directory import DirectoryLog
from records.principal import ANONYMOUS, KafkaPrincipal
from support.certificates import Authority
from support.console_page import console_page
from support.metric_scrapes import scrape
from support.node_acls import acl, on_cluster
from support.nodes import SOON_S, create, running_node
from support.serving_workers import Serving, is_running, pause, serving_workers
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
OPEN = {"super.users": str(ANONYMOUS)}
MATRIX = "/console/v1/matrix?type=TOPIC"
ACLS = [acl("User:alice", READ, "orders"), acl("User:bob", READ, "payments")]


def log_with(directory: Path, bindings: list[AclBinding]) -> Path:
    with running_node(directory, log_mode="create") as node:
        create(node, bindings)
    return directory


@contextmanager
def console(
    tmp_path: Path,
    log: Path | None,
    settings: Mapping[str, str] = OPEN,
    *args: str,
    workers: int = 1,
    path: str = "",
) -> Iterator[tuple[Serving, httpx.Client]]:
    """A sidecar with a ready console process, and a client."""
    with serving_workers(tmp_path, log, settings, "--console", *args, workers=workers) as serving:
        serving.wait_until_ready()
        with httpx.Client(base_url=serving.urls[0], timeout=SOON_S) as client:
            wait_until(
                lambda: client.get(f"{path}/console/v1/now").status_code != httpx.codes.SERVICE_UNAVAILABLE
            )
            yield serving, client


def is_decided(client: httpx.Client, topic: str = "orders", **context: Any) -> bool:
    question = {
        "subject": {"type": "User", "id": "alice"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": topic},
        "context": {"host": "10.0.0.1", **context},
    }
    answer = client.post("/access/v1/evaluation", json=question)
    assert answer.status_code == httpx.codes.OK, answer.text
    allowed: bool = answer.json()["decision"]
    return allowed


def assert_all_else_is_answered(client: httpx.Client) -> None:
    """Requests that the workers answer: decisions, health, metrics, and the page itself."""
    for _ in range(20):
        assert is_decided(client)
    for path in ("/livez", "/readyz", "/metrics", "/v1/state", "/console/assets/main.js"):
        assert client.get(path).status_code == httpx.codes.OK, path


def answered(client: httpx.Client, path: str = MATRIX) -> Any:
    """The answer as soon as the console process is ready."""

    def ask() -> Any:
        answer = client.get(path)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            assert answer.headers["retry-after"] == "1"
            return None
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    return wait_until(ask)


def test_requests_of_the_page_wait_only_for_the_console_process(tmp_path: Path) -> None:
    log = log_with(tmp_path / "log", ACLS)
    with console(tmp_path, log) as (serving, client), ThreadPoolExecutor(1) as asking:
        before = answered(client)
        assert {each["principal"] for each in before["columns"]["items"]} >= {"User:alice", "User:bob"}
        pid = serving.console_pid()
        assert pid not in serving.pids().values()
        pause(pid)
        try:
            waiting = asking.submit(httpx.get, f"{serving.urls[0]}{MATRIX}", timeout=SOON_S)
            wait_until(
                lambda: scrape(client).value("aclog_http_requests_in_flight", endpoint="/console/v1/matrix")
            )
            assert_all_else_is_answered(client)
            assert not waiting.done()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert waiting.result(SOON_S).json() == before


def test_a_single_worker_has_no_worker_label(tmp_path: Path) -> None:
    """Logs and metrics have no worker label; the console's decisions have their own."""
    log = log_with(tmp_path / "log", ACLS)
    settings = {"aclog.decision.log": f"file:{tmp_path / 'decisions.jsonl'}", **OPEN}
    with console(tmp_path, log, settings) as (_, client):
        assert is_decided(client)
        before = scrape(client)
        assert before.labels()["aclog_ready"] == before.labels()["aclog_applied_offset"] == set()
        assert client.get("/readyz").json() == {"ready": True, "offset": 2, "lag_records": 0}
        answered(client, "/console/v1/moments")
        # The text of the metrics is cached for a second.
        wait_until(lambda: 'endpoint="/console/v1/moments"' in client.get("/metrics").text)
        name = "aclog_authorizations_total"
        assert scrape(client).value(name, result="allowed") == before.value(name, result="allowed")
        wait_until(lambda: "User:alice" in (tmp_path / "decisions.jsonl").read_text("utf-8"))
        wait_until(lambda: "kafka-cluster" in (tmp_path / "decisions-1.jsonl").read_text("utf-8"))


def test_decisions_take_precedence_over_the_console(tmp_path: Path) -> None:
    with console(tmp_path, log_with(tmp_path / "log", ACLS)) as (serving, _):
        console_pid, worker = serving.console_pid(), serving.pids()[0]
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, worker) == niceness
        assert os.getpriority(os.PRIO_PROCESS, console_pid) == min(19, niceness + 19)
        assert Path(f"/proc/{console_pid}/oom_score_adj").read_text("ascii") == "1000\n"


def test_a_killed_console_process_is_restarted(tmp_path: Path) -> None:
    log = log_with(tmp_path / "log", ACLS)
    with console(tmp_path, log) as (serving, client):
        before, pid, workers = answered(client), serving.console_pid(), serving.pids()
        shown = scrape(client)
        assert (shown.value("aclog_console_up"), shown.value("aclog_console_restarts_total")) == (1, 0)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))
        assert_all_else_is_answered(client)
        serving.console_pid(other_than=pid)
        assert answered(client) == before
        wait_until(lambda: scrape(client).value("aclog_console_restarts_total") == 1)
        shown = scrape(client)
        assert shown.value("aclog_console_up") == 1
        # The console process is not a worker.
        assert (shown.value("aclog_workers"), shown.value("aclog_worker_restarts_total")) == (1, 0)
        assert serving.pids() == workers
        assert not serving.events("worker_ended")
        (ended,) = serving.events("console_ended")
        assert (ended["pid"], ended["signal"]) == (pid, "SIGKILL")


def test_a_hanging_console_process_is_restarted(tmp_path: Path) -> None:
    """Pending requests get an error, and the log has a line."""
    log = log_with(tmp_path / "log", ACLS)
    settings = {**OPEN, "aclog.workers.hang.timeout.ms": "5000"}
    with console(tmp_path, log, settings) as (serving, client):
        before, pid = answered(client), serving.console_pid()
        pause(pid)
        refused = client.get(MATRIX)
        assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert refused.headers["aclog-error"] == "CONSOLE_AWAY"
        assert refused.headers["retry-after"] == "1"
        serving.console_pid(other_than=pid)
        assert answered(client) == before
        (ended,) = serving.events("console_ended")
        assert ended["reason"] == "it hung: an event loop has not turned for 5 s"


def socket_directory(serving: Serving) -> Path:
    opened = {each.readlink() for each in Path(f"/proc/{serving.pids()[0]}/fd").iterdir()}
    (lock,) = (path for path in opened if path.name == "output.lock")
    return lock.parent


@pytest.mark.long
def test_a_failed_start_is_shown_on_the_page_and_affects_nothing_else(
    chromium: Browser, tmp_path: Path
) -> None:
    log = log_with(tmp_path / "log", ACLS)
    with console(tmp_path, log) as (serving, client):
        before, pid, url = answered(client), serving.console_pid(), serving.urls[0]
        assert (socket_directory(serving).stat().st_mode & 0o777) == 0o700
        in_the_way = socket_directory(serving) / "console.sock"
        assert (in_the_way.stat().st_mode & 0o777) == 0o600
        with console_page(chromium, url, unavailable=True) as page:
            page.goto(f"{url}/")
            expect(page.locator("table.matrix")).to_contain_text("orders")
            in_the_way.unlink()
            in_the_way.mkdir()
            os.kill(pid, signal.SIGKILL)
            ended = wait_until(lambda: [each for each in serving.events("console_ended") if each["reason"]])[
                0
            ]
            assert "Address already in use" in ended["reason"]
            # The start is retried.
            wait_until(lambda: len(serving.events("console_ended")) > 3)
            refused = client.get(MATRIX)
            assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
            assert "Address already in use" in refused.json()["detail"]
            assert scrape(client).value("aclog_console_up") == 0
            assert_all_else_is_answered(client)
            alert = page.get_by_role("alert")
            expect(alert).to_contain_text("the console is not available")
            expect(alert).to_contain_text("Address already in use")
            in_the_way.rmdir()
            assert answered(client) == before
            expect(page.locator("table.matrix")).to_contain_text("orders")
            expect(alert).to_have_count(0)


def test_no_process_is_left_when_the_first_one_is_killed(tmp_path: Path) -> None:
    log = log_with(tmp_path / "log", ACLS)
    with console(tmp_path, log) as (serving, _):
        pids, directory = [*serving.pids().values(), serving.console_pid()], socket_directory(serving)
        serving.process.kill()
        serving.process.wait()
        wait_until(lambda: not any(map(is_running, pids)))
        assert not directory.exists()
        DirectoryLog.open(log, mode="write").close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_plan_is_written_by_the_writer_and_in_force_at_its_offset(workers: int, tmp_path: Path) -> None:
    log = log_with(tmp_path / "log", ACLS)
    with console(tmp_path, log, workers=workers) as (serving, _), serving.client_of_each() as clients:
        new = {
            "principal": "User:alice",
            "operation": "READ",
            "resourceType": "TOPIC",
            "permissionType": "ALLOW",
        }
        page_headers = {"origin": serving.urls[0], "sec-fetch-site": "same-origin"}
        for number, client in clients.items():
            topic = f"new-{number}"
            assert not is_decided(client, topic)
            change = {"add": [{**new, "resourceName": topic}], "to_apply": True}
            made = client.post("/console/v1/plan", json=change, headers=page_headers)
            assert made.status_code == httpx.codes.OK, made.text
            assert made.json()["granted"] == 1
            plan = made.json()["plan"]
            for forged in ({**page_headers, "origin": "https://evil.example"}, {"origin": "null"}):
                assert client.post("/console/v1/apply", json=plan, headers=forged).status_code == 403
            applied = client.post("/console/v1/apply", json=plan, headers=page_headers).json()
            assert len(applied["results"][0]["added"]) == 1
            for each in clients.values():
                assert is_decided(each, topic, min_offset=applied["offset"])
            assert client.get("/console/v1/now").json()["end_offset"] >= applied["offset"]
            assert (
                client.post("/console/v1/plan", content=b" " * (5 << 20), headers=page_headers).status_code
                == 413
            )


def test_the_console_process_takes_the_caller_from_the_worker(tmp_path: Path) -> None:
    """By a token, a certificate or an address, never by a header of the client."""
    admin, alice = KafkaPrincipal("User", "admin"), KafkaPrincipal("User", "alice")
    log = log_with(
        tmp_path / "log",
        [
            acl(str(admin), DESCRIBE, CLUSTER_NAME, kind=ResourceType.CLUSTER),
            acl(str(ANONYMOUS), DESCRIBE, CLUSTER_NAME, host="10.9.9.9", kind=ResourceType.CLUSTER),
            *ACLS,
        ],
    )
    tokens = {}
    for principal in (admin, alice):
        tokens[principal], stored = new_token(principal)
        TOKENS_FILE.put(tmp_path / "tokens", stored)
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.pem)
    certificate = authority.issue("CN=admin").write(tmp_path / "admin.pem")
    settings = {
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,SSL:SSL",
        "aclog.console.listeners": "PLAINTEXT,SSL",
        "aclog.auth.tokens.file": str(tmp_path / "tokens"),
        "ssl.keystore.location": str(authority.issue("CN=localhost").write(tmp_path / "server.pem")),
        "ssl.truststore.location": str(tmp_path / "authority.pem"),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
    }
    with serving_workers(tmp_path, log, settings, workers=1) as serving:
        serving.wait_until_ready()
        plain, other, secured = serving.urls
        trusting = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
        trusting.load_cert_chain(certificate)
        with httpx.Client(timeout=SOON_S, verify=trusting) as client:

            def now(
                url: str, principal: KafkaPrincipal | None = None, claims: Mapping[str, str] | None = None
            ) -> tuple[str, bool]:
                """The caller, and whether it may describe the cluster."""
                headers = dict(claims or {})
                if principal is not None:
                    headers["authorization"] = f"Bearer {tokens[principal]}"
                answer = client.get(f"{url}/console/v1/now", headers=headers)
                assert answer.status_code == httpx.codes.OK, answer.text
                return answer.json()["caller"], answer.json()["sees_all"]

            wait_until(lambda: client.get(f"{plain}/console/v1/now").is_success)
            assert now(plain) == (str(ANONYMOUS), False)
            assert now(plain, alice) == (str(alice), False)
            assert now(plain, admin) == (str(admin), True)
            assert now(secured) == (str(admin), True)
            assert now(secured, alice) == (str(alice), False)
            wrong = client.get(f"{plain}/console/v1/now", headers={"authorization": "Bearer wrong"})
            assert wrong.status_code == httpx.codes.UNAUTHORIZED
            assert "www-authenticate" in wrong.headers
            assert client.get(f"{other}/console/v1/now").status_code == httpx.codes.NOT_FOUND

            # No header of the client sets the caller, whatever its name.
            claims = {name: str(admin) for name in ("principal", "caller", "aclog-principal", "remote-user")}
            claims |= {"x-forwarded-for": "10.9.9.9", "x-real-ip": "10.9.9.9", "listener": "SSL"}
            assert now(plain, claims=claims) == (str(ANONYMOUS), False)
            assert now(plain, alice, claims=claims) == (str(alice), False)
            proxied = ProxiedRequest(
                "GET", "/console/v1/acls", b"", [], b"", "PLAINTEXT", admin, "10.9.9.9", True
            )
            for path in ("now", "acls", "plan", ""):
                answer = client.post(f"{plain}/console/v1/{path}", content=msgspec.msgpack.encode(proxied))
                assert answer.status_code in {400, 403, 404, 405}, path
                assert "User:bob" not in answer.text

            # Without Describe the caller sees only its own decisions.
            for path in ("moments", "acls", "matrix?at_offset=1", "decisions", "nodes"):
                assert client.get(f"{plain}/console/v1/{path}").status_code == httpx.codes.FORBIDDEN, path
            assert "User:bob" not in client.get(plain + MATRIX).text
            assert client.get(f"{plain}/console/v1/nothing").status_code == httpx.codes.NOT_FOUND
            assert client.post(f"{plain}/console/v1/now").status_code == httpx.codes.METHOD_NOT_ALLOWED
            repeated = client.get(f"{plain}/console/v1/acls", headers={"x-request-id": "mine"})
            assert repeated.headers.get_list("x-request-id") == ["mine"]
            assert len(repeated.headers.get_list("content-length")) == 1


def test_a_trusted_proxy_reports_the_clients_address(tmp_path: Path) -> None:
    only_there = acl(str(ANONYMOUS), DESCRIBE, CLUSTER_NAME, host="10.9.9.9", kind=ResourceType.CLUSTER)
    log = log_with(tmp_path / "log", [only_there, *ACLS])
    settings = {"aclog.trusted.proxies": "127.0.0.0/8"}
    with console(tmp_path, log, settings) as (_, client):
        assert not client.get("/console/v1/now").json()["sees_all"]
        there = client.get("/console/v1/now", headers={"x-forwarded-for": "10.9.9.9"})
        assert there.json()["sees_all"]


def test_the_console_process_follows_settings_and_acls(tmp_path: Path) -> None:
    with console(tmp_path, log_with(tmp_path / "log", [on_cluster(DESCRIBE), *ACLS])) as (_, client):
        new = {
            "resourceType": "TOPIC",
            "resourceName": "later",
            "principal": "User:carol",
            "operation": "READ",
            "permissionType": "ALLOW",
        }
        assert client.post("/v1/acls", json={"acls": [new]}).is_success
        wait_until(lambda: "User:carol" in client.get(MATRIX).text)
        assert client.get("/console/v1/now").json()["may_alter"]
        put = client.put("/v1/config", json={"configs": {"super.users": "User:admin"}})
        assert put.status_code == httpx.codes.OK, put.text
        now = client.get("/console/v1/now").json()
        assert (now["sees_all"], now["may_alter"]) == (True, False)


def test_the_clusters_of_a_fleet_are_separate(tmp_path: Path) -> None:
    logs = {
        "one": log_with(tmp_path / "one", [on_cluster(DESCRIBE), ACLS[0]]),
        "two": log_with(tmp_path / "two", [ACLS[1]]),
    }
    settings = {"aclog.clusters": ",".join(logs)}
    settings |= {f"aclog.cluster.{name}.log.url": str(log) for name, log in logs.items()}
    with console(tmp_path, None, settings, workers=2, path="/clusters/two") as (serving, client):
        answered(client, "/clusters/one/console/v1/now")
        listed = answered(client, "/console/v1/clusters")
        assert [(each["cluster"], each["ready"]) for each in listed["clusters"]] == [
            ("one", True),
            ("two", True),
        ]
        one = client.get("/clusters/one/console/v1/now").json()
        two = client.get("/clusters/two/console/v1/now").json()
        assert (one["cluster"], one["sees_all"], one["clusters"]) == ("one", True, ["two"])
        assert (two["cluster"], two["sees_all"], two["clusters"]) == ("two", False, ["one"])
        assert "User:alice" in client.get(f"/clusters/one{MATRIX}").text
        assert client.get("/clusters/one/console/v1/flips?cluster=two").status_code == 403
        assert client.get("/clusters/three/console/v1/now").status_code == 404
        os.kill(serving.console_pid(), signal.SIGKILL)
        assert client.get("/clusters/one/readyz").is_success
        assert answered(client, "/clusters/one/console/v1/now") == one
