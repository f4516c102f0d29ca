"""A fleet: one process that follows several clusters, each asked by its name and guarded by its own ACLs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from authorizer.client import AuthorizationRequest, Client
from authorizer.listeners.unix_socket import UnixConnection
from authorizer.node.fleet import Fleet
from authorizer.sidecar.app import NODE_OPERATIONS
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from authorizer.sidecar.fleet_app import FLEET_OPERATIONS
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
from records.log.directory import DirectoryLog
from records.log.directory.files import SOCKET_FILE
from records.principal import KafkaPrincipal
from support.data import TESTS
from support.directory_logs import flip_bit
from support.fleets import fleet_config, node_of, running_fleet
from support.kafka_broker import jar_broker
from support.metric_scrapes import scrape
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, running_node
from support.raw_http import connected, request
from support.serving_workers import serving_workers
from support.topic_logs import new_topic
from support.waiting import wait_until

EVALUATION = "/access/v1/evaluation"
ABOUT_A: dict[str, Any] = {
    "subject": {"type": "User", "id": "a"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


def describes(principal: str) -> AclBinding:
    cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    entry = AccessControlEntry(principal, "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    return AclBinding(cluster, entry)


def decided(client: httpx.Client, cluster: str) -> Any:
    return client.post(f"/clusters/{cluster}{EVALUATION}", json=ABOUT_A).json()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[tuple[Fleet, httpx.Client]]:
    """Of eu, where User:a may READ orders and ANONYMOUS may describe, and us, where nobody may anything."""
    config = fleet_config({"eu": tmp_path / "eu", "us": tmp_path / "us"}, log_mode="create")
    with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
        create(node_of(fleet, "eu"), [topic_acl("orders"), describes("User:ANONYMOUS")])
        create(node_of(fleet, "us"), [topic_acl("payments")])
        yield fleet, client


def test_each_cluster_decides_by_its_own_acls_and_rights(
    fleet: tuple[Fleet, httpx.Client],
) -> None:
    """Also for inline answers, and by aclog's client and commands."""
    _, client = fleet
    for _ in range(3):
        assert decided(client, "eu")["decision"] is True
        assert client.post(f"/clusters/us{EVALUATION}", json=ABOUT_A).status_code == 403
    listed = client.get("/clusters/eu/v1/acls").json()["acls"]
    assert {acl["resourceName"] for acl in listed} == {"orders", CLUSTER_NAME}
    assert client.get("/clusters/us/v1/acls").status_code == 403
    url = str(client.base_url)
    question = AuthorizationRequest(
        KafkaPrincipal("User", "a"), AclOperation.READ, ResourceType.TOPIC, "orders", "10.0.0.1"
    )
    with Client(url, cluster="eu") as named, Client(f"{url}/clusters/eu") as in_url:
        assert named.decide(question).is_allowed
        assert in_url.decide(question).is_allowed
    arguments = ["--principal", "User:a", "--operation", "Read", "--topic", "orders", "--host", "10.0.0.1"]
    assert CliRunner().invoke(cli, ["check", "--sidecar", f"{url}/clusters/eu", *arguments]).exit_code == 0
    assert CliRunner().invoke(cli, ["acls", "--list", "--sidecar", f"{url}/clusters/us"]).exit_code != 0
    for wrong in ("..", "a/b", "", "eu?x", "x" * 65):
        with pytest.raises(ValueError, match="no cluster's name"):
            Client(url, cluster=wrong)
    with pytest.raises(ValueError, match="one too many"):
        Client(f"{url}/clusters/eu", cluster="us")


def test_the_process_authenticates_callers_and_each_cluster_authorizes_them(tmp_path: Path) -> None:
    """One token, believed or not before any cluster is asked; health is for everyone, of each cluster too."""
    token, stored = new_token(KafkaPrincipal("User", "gateway"))
    TOKENS_FILE.put(tmp_path / "tokens", stored)
    config = fleet_config(
        {"eu": tmp_path / "eu", "us": tmp_path / "us"},
        log_mode="create",
        auth_tokens_file=tmp_path / "tokens",
        auth_required_listeners="PLAINTEXT",
    )
    with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
        create(node_of(fleet, "eu"), [topic_acl("orders"), describes("User:gateway")])
        node_of(fleet, "us")
        for path in ("/livez", "/readyz", "/openapi.json"):
            assert [client.get(base + path).status_code for base in ("", "/clusters/eu")] == [200, 200]
        for path in ("/clusters/eu/v1/acls", "/clusters/nope/v1/acls", "/clusters/eu/metrics", "/v1/state"):
            assert client.get(path).status_code == 401, path
            assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401, path
        assert client.post(f"/clusters/eu{EVALUATION}", json=ABOUT_A).status_code == 401
        client.headers["authorization"] = f"Bearer {token}"
        assert client.get("/clusters/nope/v1/acls").status_code == 404
        for _ in range(3):  # also for an inline answer
            assert decided(client, "eu")["decision"] is True
            assert client.post(f"/clusters/us{EVALUATION}", json=ABOUT_A).status_code == 403


def test_the_root_endpoints_show_the_status_of_each_cluster(fleet: tuple[Fleet, httpx.Client]) -> None:
    """Readiness, states and metrics; no cluster's digest of meanings, which takes a right there."""
    _, client = fleet
    decided(client, "eu")
    ready = client.get("/readyz").json()
    assert ready["ready"]
    assert {name: each["ready"] for name, each in ready["clusters"].items()} == {"eu": True, "us": True}
    states = client.get("/v1/state?meaning=true").json()["clusters"]
    assert [(each["cluster"], each["acl_count"], each["meaning"]) for each in states] == [
        ("eu", 2, None),
        ("us", 1, None),
    ]
    assert states[0] == {"cluster": "eu", **client.get("/clusters/eu/v1/state").json()}
    scraped = scrape(client)
    assert scraped.value("aclog_acls_total", cluster="eu") == 2
    assert scraped.value("aclog_acls_total", cluster="us") == 1
    assert (
        scraped.value("aclog_authorizations_total", cluster="eu", rule="MatchingAcl", result="allowed") >= 1
    )
    assert scraped.value("aclog_authorizations_total", cluster="us", rule="MatchingAcl") == 0
    assert scraped.value("aclog_http_requests_total", cluster="eu", endpoint=EVALUATION, status="200") == 1
    labels = scraped.labels()
    of_process = {name for name, found in labels.items() if "cluster" not in found}
    assert {"aclog_build_info", "aclog_audit_lost_total", "aclog_http_connections"} <= of_process
    names = [
        line.split()[2] for line in client.get("/metrics").text.splitlines() if line.startswith("# TYPE")
    ]
    assert len(names) == len(set(names))
    with httpx.Client(base_url=f"{client.base_url}/clusters/eu") as alone:
        assert "cluster" not in scrape(alone).labels()["aclog_acls_total"]


def test_a_path_without_a_known_cluster_is_not_found(fleet: tuple[Fleet, httpx.Client]) -> None:
    _, client = fleet
    url = str(client.base_url)
    unknown = (
        *("/clusters/nope/v1/acls", "/clusters//v1/acls", "/clusters/", "/clusters", "/v1/acls", EVALUATION),
        *(
            "/clusters/EU/v1/acls",
            "/clusters/../v1/acls",
            "/clusters/eu/../us/v1/acls",
            "//clusters/eu/v1/acls",
        ),
        *("/clusters/eu%2Fv1/acl", "/clusters/%65u%00/v1/acls", "/clusters/eu;us/v1/acls"),
        *("/clusters/eu/clusters/us/v1/acls", "/clusters/eu/clusters/eu/v1/acls", "/clusters/" + "x" * 4000),
        *(
            "/clusters/%0d%0aset-cookie:%20x/v1/acls",
            "/clusters/%F0%9F%92%A9/v1/acls",
            "/clusters/{cluster}/livez",
        ),
    )
    for target in unknown:
        with connected(url) as wire:
            wire.send(request("GET", target))
            answer = wire.answer()
        assert answer is not None, target
        assert (answer.status, answer.headers["aclog-error"]) == (404, "NOT_FOUND"), target
        assert "set-cookie" not in answer.headers
        assert len(answer.body) < 1000 + len(target), target
    assert "there are eu, us" in client.get("/clusters/nope/v1/acls").json()["detail"]
    # As AuthZEN has its errors.
    assert "no cluster `nope`" in client.post(f"/clusters/nope{EVALUATION}", json=ABOUT_A).json()
    # An encoded name is the same name, and guarded the same.
    assert client.get("/clusters/%65u/v1/acls").status_code == 200
    assert client.get("/clusters/%75s/v1/acls").status_code == 403


def test_documents_and_metadata_name_the_cluster(fleet: tuple[Fleet, httpx.Client]) -> None:
    _, client = fleet
    base = f"{client.base_url}/clusters/us"
    for path in (
        "/clusters/us/.well-known/authzen-configuration",
        "/.well-known/authzen-configuration/clusters/us",
    ):
        found = client.get(path).json()
        assert found["policy_decision_point"] == base
        assert found["access_evaluation_endpoint"] == base + EVALUATION
    paths = client.get("/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, each in paths.items() for method in each}
    of_clusters = {(method, f"/clusters/{{cluster}}{path}") for method, path in NODE_OPERATIONS}
    assert described == {*FLEET_OPERATIONS, *of_clusters}
    assert {"name": "cluster", "in": "path", "required": True, "schema": {"type": "string"}} in paths[
        f"/clusters/{{cluster}}{EVALUATION}"
    ]["post"]["parameters"]
    assert client.get("/clusters/us/openapi.json").json()["servers"] == [{"url": "/clusters/us"}]


def test_the_socket_in_a_logs_directory_serves_its_cluster(
    fleet: tuple[Fleet, httpx.Client], tmp_path: Path
) -> None:
    """Who may write eu's log may do everything there, and nothing in us."""
    for name, topic in (("eu", "orders"), ("us", "payments")):
        with closing(UnixConnection(tmp_path / name / SOCKET_FILE, SOON_S)) as connection:
            connection.request("GET", "/v1/acls")
            assert topic in {acl["resourceName"] for acl in json.load(connection.getresponse())["acls"]}
            for path in ("/clusters/us/v1/acls", "/clusters/eu/v1/acls"):
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 404
        listed = CliRunner().invoke(cli, ["acls", "--list", "--log", str(tmp_path / name)])
        assert topic in listed.output


def test_a_log_that_cannot_be_opened_is_retried(tmp_path: Path) -> None:
    """Missing, then there, then its node is gone with the process; eu is answered for all the time."""
    logs = {"eu": tmp_path / "eu", "us": tmp_path / "us"}
    config = fleet_config(logs, **{"cluster.eu.log_mode": "create"})
    with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
        create(node_of(fleet, "eu"), [topic_acl("orders"), describes("User:ANONYMOUS")])
        wait_until(lambda: str(tmp_path / "us") in fleet.members["us"].reason)
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["clusters"]["eu"]["ready"] is True
        assert ready.json()["reason"].startswith("us: ")
        assert client.get("/clusters/us/livez").status_code == client.get("/livez").status_code == 200
        assert client.get("/clusters/us/readyz").json()["ready"] is False
        assert client.get("/v1/state").json()["clusters"][1]["log"] == str(tmp_path / "us")
        for method, path in NODE_OPERATIONS:
            if path not in {"/livez", "/readyz"}:
                answer = client.request(method, f"/clusters/us{path}", json={})
                assert answer.headers["aclog-error"] == "AUTHORIZER_NOT_READY", path
        scraped = scrape(client)
        assert [scraped.value("aclog_ready", cluster=name) for name in logs] == [1, 0]
        assert decided(client, "eu")["decision"] is True
        DirectoryLog.open(tmp_path / "made", mode="create").close()
        shutil.move(tmp_path / "made", tmp_path / "us")
        create(node_of(fleet, "us"), [topic_acl("payments")])
        assert client.get("/readyz").status_code == client.get("/clusters/us/readyz").status_code == 200
        assert (tmp_path / "us" / SOCKET_FILE).exists()
    assert not (tmp_path / "us" / SOCKET_FILE).exists()


def test_requests_that_wait_for_one_cluster_do_not_limit_another(tmp_path: Path) -> None:
    """As they do while it is away; streams of changes are requests that never end."""
    logs = {"eu": tmp_path / "eu", "us": tmp_path / "us"}
    settings = {"log_mode": "create", **{f"cluster.{name}.super_users": "User:ANONYMOUS" for name in logs}}
    config = fleet_config(logs, sidecar_max_requests_in_flight=2, **settings)
    with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
        for name in logs:
            create(node_of(fleet, name), [topic_acl("orders")])
        with ExitStack() as waiting:
            for _ in range(2):
                waiting.enter_context(connected(url)).send(request("GET", "/clusters/us/v1/changes"))
            stream = {"cluster": "us", "endpoint": "/v1/changes"}
            wait_until(lambda: scrape(client).value("aclog_http_requests_in_flight", **stream) == 2)
            refused = client.get("/clusters/us/v1/state")
            assert (refused.status_code, refused.headers["aclog-error"]) == (503, "OVERLOADED")
            assert client.get("/clusters/us/readyz").status_code == 200
            assert client.get("/clusters/eu/v1/state").status_code == 200
            assert decided(client, "eu")["decision"] is True


def test_the_audit_log_and_decision_events_name_the_cluster(tmp_path: Path) -> None:
    """Equal requests to two clusters are not folded into one event."""
    events = tmp_path / "events.jsonl"
    settings = {"log_mode": "create", "decision_log": f"file:{events}", "decision_log_fold_ms": 60_000}
    config = fleet_config({"eu": tmp_path / "eu", "us": tmp_path / "us"}, **settings)
    about_itself = {**ABOUT_A, "subject": {"type": "User", "id": "ANONYMOUS"}}
    with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
        for name in ("eu", "us", "eu"):
            node_of(fleet, name)
            answer = client.post(f"/clusters/{name}{EVALUATION}", json=about_itself)
            assert answer.json()["decision"] is False
    found = [json.loads(line)["data"] for line in events.read_text().splitlines()]
    assert sorted((each["cluster"], each["count"]) for each in found) == [("eu", 2), ("us", 1)]


def test_settings_belong_to_one_cluster(tmp_path: Path) -> None:
    """What is the process's is not to be seen or changed by who has rights in one cluster."""
    logs = {"eu": tmp_path / "eu", "us": tmp_path / "us"}
    settings = {"log_mode": "create", "cluster.eu.super_users": "User:ANONYMOUS"}
    with (
        running_fleet(fleet_config(logs, **settings)) as (fleet, url),
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        node_of(fleet, "eu")
        node_of(fleet, "us")
        shown = {each["name"]: each for each in client.get("/clusters/eu/v1/config").json()["configs"]}
        assert shown["super.users"]["value"] == "User:ANONYMOUS"
        assert shown["aclog.log.url"]["value"] == str(tmp_path / "eu")
        assert not {"aclog.listeners", "aclog.auth.tokens.file", "aclog.audit.level"} & set(shown)
        assert client.get("/clusters/us/v1/config").status_code == 403
        put = {"configs": {"allow.everyone.if.no.acl.found": "true"}}
        assert client.put("/clusters/eu/v1/config", json=put).status_code == 200
        assert decided(client, "eu")["decision"] is True
        assert fleet.members["us"].reconfiguration.config.allow_everyone_if_no_acl_found is False
        refused = client.put("/clusters/eu/v1/config", json={"configs": {"aclog.audit.level": "OFF"}})
        assert refused.status_code == 400
        assert "aclog.cluster.eu.audit.level" in refused.json()["detail"]


@pytest.mark.slow
def test_a_signal_reloads_the_settings_of_all_clusters_or_none(tmp_path: Path) -> None:
    config = tmp_path / "fleet.properties"
    lines = (
        "aclog.clusters=eu,us\naclog.log.mode=create\naclog.listeners=PLAINTEXT://127.0.0.1:0\n"
        f"aclog.cluster.eu.log.url={tmp_path / 'eu'}\naclog.cluster.us.log.url={tmp_path / 'us'}\n"
        "aclog.logging.format=json\n"
    )
    config.write_text(f"{lines}super.users=User:root\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "authorizer.cli", "serve", "--config", config],
        stderr=subprocess.PIPE,
        text=True,
        cwd=TESTS.parent,
    )
    try:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        url = next(event for event in events if event["event"] == "listening")["urls"][0]
        wait_until(lambda: httpx.get(f"{url}/readyz").status_code == 200)

        def after_signal(count: int) -> list[dict[str, Any]]:
            process.send_signal(signal.SIGHUP)
            events_of_settings = (event for event in events if "setting" in event["event"])
            return [next(events_of_settings) for _ in range(count)]

        def may() -> list[bool]:
            return [httpx.get(f"{url}/clusters/{name}/v1/acls").status_code == 200 for name in ("eu", "us")]

        assert may() == [False, False]
        config.write_text(f"{lines}super.users=User:root\naclog.cluster.us.super.users=User:ANONYMOUS\n")
        events_of_settings = after_signal(3)  # nothing of the process and of eu
        changed = [event for event in events_of_settings if event["event"] == "setting_changed"]
        assert [(event["key"], event["cluster"]) for event in changed] == [("super.users", "us")]
        assert may() == [False, True]
        config.write_text(
            f"{lines}super.users=User:ANONYMOUS\naclog.cluster.us.super.users=User:root\n"
            "aclog.cluster.us.max.lag.ms=-1\n"
        )
        (refused,) = after_signal(1)
        assert refused["event"] == "settings_not_changed"
        assert "aclog.cluster.us.max.lag.ms" in refused["reason"]
        assert may() == [False, True]
        config.write_text(f"{lines.replace('eu,us', 'eu,us,new')}aclog.cluster.new.log.url=/x\n")
        (refused,) = after_signal(1)
        assert refused["reason"].startswith("aclog.clusters: this takes a restart")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON_S) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_several_workers_are_one_fleet(tmp_path: Path) -> None:
    """Changes and settings of a cluster through any of them; a log that comes late is opened by all."""
    settings = {
        "aclog.clusters": "eu,us",
        "aclog.cluster.eu.log.url": str(tmp_path / "eu"),
        "aclog.cluster.us.log.url": str(tmp_path / "us"),
        "aclog.cluster.eu.log.mode": "create",
        "aclog.cluster.eu.super.users": "User:ANONYMOUS",
    }
    acl = {
        "resourceType": "TOPIC",
        "resourceName": "orders",
        "principal": "User:a",
        "operation": "READ",
        "permissionType": "ALLOW",
    }
    with serving_workers(tmp_path, None, settings) as serving, serving.client_of_each() as clients:
        second = clients[1]
        for client in clients.values():
            wait_until(lambda client=client: readiness(client, "eu")["ready"])  # type: ignore[misc]
            found = client.get("/readyz").json()
            assert found["reason"].startswith("us: worker 0: ")
            assert client.post(f"/clusters/us{EVALUATION}", json=ABOUT_A).status_code == 503
        written = second.post("/clusters/eu/v1/acls", json={"acls": [acl]}).json()
        assert written["results"][0]["created"]
        body = {**ABOUT_A, "context": {"host": "10.0.0.1", "min_offset": written["offset"]}}
        for client in clients.values():
            # Each worker has replayed the ACL then, and counts it below.
            assert client.post(f"/clusters/eu{EVALUATION}", json=body).json()["decision"] is True
        for client in clients.values():
            # One at each worker; a worker renders its metrics at most once a second.
            wait_until(lambda client=client: scrape(client).value("aclog_acls_total", cluster="eu") == 2)  # type: ignore[misc]
            scraped = scrape(client)
            allowed = {"rule": "MatchingAcl", "result": "allowed"}
            assert scraped.value("aclog_authorizations_total", cluster="eu", **allowed) >= 1
            assert scraped.labels()["aclog_acls_total"] == {"cluster", "worker"}
            with httpx.Client(base_url=f"{client.base_url}/clusters/eu") as alone:
                assert scrape(alone).labels()["aclog_acls_total"] == {"worker"}
        DirectoryLog.open(tmp_path / "made", mode="create").close()
        shutil.move(tmp_path / "made", tmp_path / "us")
        serving.wait_until_ready()
        # What one cluster is given is nothing to the other, at any worker.
        put = {"configs": {"allow.everyone.if.no.acl.found": "true"}}
        assert second.put("/clusters/eu/v1/config", json=put).status_code == 200
        about_other = {**ABOUT_A, "resource": {"type": "TOPIC", "id": "other"}}
        for client in clients.values():
            assert client.post(f"/clusters/eu{EVALUATION}", json=about_other).json()["decision"] is True
            assert client.post(f"/clusters/us{EVALUATION}", json=about_other).status_code == 403
        # Also at the one that comes after a worker that was killed; and its logs have their writer again.
        killed = serving.pids()[0]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: serving.pids()[0] != killed)
        serving.wait_until_ready()
        written = second.post("/clusters/eu/v1/acls", json={"acls": [{**acl, "resourceName": "late"}]}).json()
        assert written["results"][0]["created"], written
        with serving.client_of_each() as again:
            assert again[0].post(f"/clusters/eu{EVALUATION}", json=about_other).json()["decision"] is True
            # SIGHUP is of all clusters, in all workers.
            serving.process.send_signal(signal.SIGHUP)
            for client in again.values():
                wait_until(lambda client=client: not may_other(client, about_other))  # type: ignore[misc]


def may_other(client: httpx.Client, question: dict[str, Any]) -> bool:
    return bool(client.post(f"/clusters/eu{EVALUATION}", json=question).json()["decision"])


def test_a_damaged_log_leaves_the_others_deciding_and_writing(tmp_path: Path) -> None:
    """I7 is of each cluster: not opened for writing, or read up to the damage and said not to be ready."""
    with running_node(tmp_path / "unopened", log_mode="create") as node:
        for name in ("orders", "payments"):
            create(node, [topic_acl(name)])
    (segment,) = (tmp_path / "unopened").glob("*.log")
    flip_bit(segment, segment.stat().st_size // 2)
    shutil.copytree(tmp_path / "unopened", tmp_path / "stopped")
    settings = {"cluster.good.log_mode": "create", "cluster.stopped.log_mode": "read"}
    names = ("good", "unopened", "stopped")
    config = fleet_config(
        {name: tmp_path / name for name in names}, describe_principals="User:ANONYMOUS", **settings
    )
    with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
        create(node_of(fleet, "good"), [topic_acl("orders")])
        for name in names[1:]:
            wait_until(lambda name=name: " byte " in (readiness(client, name).get("reason") or ""))  # type: ignore[misc]
            assert client.post(f"/clusters/{name}{EVALUATION}", json=ABOUT_A).status_code == 503
        assert client.get("/readyz").json()["reason"].startswith("unopened: ")
        assert decided(client, "good")["decision"] is True
        create(node_of(fleet, "good"), [topic_acl("payments")])
        scraped = scrape(client)
        assert [scraped.value("aclog_ready", cluster=name) for name in names] == [1, 0, 0]
        assert scraped.value("aclog_apply_errors_total", cluster="stopped") > 0
        assert scraped.value("aclog_apply_errors_total", cluster="good") == 0


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.xdist_group("broker")
def test_hanging_dead_and_wrong_clusters_leave_the_rest_deciding(tmp_path: Path) -> None:
    """What is away decides by what it knew, and says that it is behind; a wrong one is never ready."""
    with jar_broker() as broker:
        assert broker.pid is not None
        quorum, topic = f"kraft://{broker.controllers}", new_topic(broker)
        config = fleet_config(
            {"local": tmp_path / "log", "quorum": quorum, "topic": topic, "wrong": quorum},
            **{
                "cluster.local.log_mode": "create",
                "cluster.quorum.max_lag_ms": 500,
                "cluster.topic.max_lag_ms": 500,
                "cluster.topic.acl_update_timeout_ms": 5000,
                "cluster.topic.super_users": "User:ANONYMOUS",
                "cluster.wrong.kafka.cluster.id": "AAAAAAAAAAAAAAAAAAAAAQ",
                "describe_principals": "User:ANONYMOUS",
            },
        )
        away = ("quorum", "topic")
        with running_fleet(config) as (fleet, url), httpx.Client(base_url=url, timeout=SOON_S) as client:
            create(node_of(fleet, "local"), [topic_acl("orders")])
            create(node_of(fleet, "topic"), [topic_acl("orders")])
            node_of(fleet, "quorum")
            wait_until(lambda: "another cluster" in (readiness(client, "wrong").get("reason") or ""))
            assert client.get("/readyz").json()["reason"].startswith("wrong: ")

            def the_rest_decides() -> None:
                """And what is away says so, by all ways that there are."""
                wait_until(lambda: not any(readiness(client, name)["ready"] for name in away))
                create(node_of(fleet, "local"), [topic_acl("payments")])
                found = client.get("/readyz").json()["clusters"]
                assert [name for name, each in found.items() if each["ready"]] == ["local"]
                assert [decided(client, name)["decision"] for name in ("local", *away)] == [True, False, True]
                assert client.post(f"/clusters/wrong{EVALUATION}", json=ABOUT_A).status_code == 503
                scraped = scrape(client)
                assert [scraped.value("aclog_ready", cluster=name) for name in fleet.members] == [1, 0, 0, 0]
                assert scraped.value("aclog_lag_ms", cluster="local") == 0
                assert all(scraped.value("aclog_lag_ms", cluster=name) > 500 for name in away)

            os.kill(broker.pid, signal.SIGSTOP)
            try:
                the_rest_decides()
                acl = {
                    "resourceType": "TOPIC",
                    "resourceName": "late",
                    "principal": "User:a",
                    "operation": "READ",
                    "permissionType": "ALLOW",
                }
                written = client.post("/clusters/topic/v1/acls", json={"acls": [acl]}).json()
                assert written["results"][0]["error"]["code"] == "REQUEST_TIMED_OUT"
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            for name in away:
                node_of(fleet, name)
            os.kill(broker.pid, signal.SIGKILL)
            the_rest_decides()


def readiness(client: httpx.Client, cluster: str) -> Any:
    return client.get(f"/clusters/{cluster}/readyz").json()
