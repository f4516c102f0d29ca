"""``/v1/config`` and SIGHUP: the settings of a running node, seen and changed while it answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from authorizer.configuration.keys.table import BY_NAME
from authorizer.node.node import Node
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
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, node_with_client
from support.waiting import wait_until

PATH = "/v1/config"
ROOT = Path(__file__).resolve().parents[2]


def on_cluster(operation: AclOperation) -> AclBinding:
    cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    return AclBinding(cluster, AccessControlEntry("User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW))


def put(client: httpx.Client, **configs: str | None) -> httpx.Response:
    return client.put(
        PATH, json={"configs": {name.replace("_", "."): text for name, text in configs.items()}}
    )


def shown(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in client.get(PATH).raise_for_status().json()["configs"]}


def test_kafkas_acls_authorize_reads_and_changes_of_settings(tmp_path: Path) -> None:
    """Rights without an ACL are given by who may give them by one, too."""
    with node_with_client(tmp_path / "log") as (node, client):
        assert client.get(PATH).status_code == put(client, aclog_audit_level="OFF").status_code == 403
        create(node, [on_cluster(AclOperation.DESCRIBE_CONFIGS)])
        assert client.get(PATH).status_code == 200
        refused = put(client, aclog_audit_level="OFF")
        assert "needs AlterConfigs on the cluster" in refused.json()["detail"]
        create(node, [on_cluster(AclOperation.ALTER_CONFIGS)])
        assert put(client, aclog_audit_level="OFF").status_code == 200
        for name in ("super_users", "allow_everyone_if_no_acl_found", "aclog_describe_principals"):
            refused = put(client, aclog_audit_level="INFO", **{name: "User:ANONYMOUS"})
            assert "needs Alter on the cluster" in refused.json()["detail"]
        assert node.config.audit_level == "OFF"
        create(node, [on_cluster(AclOperation.ALTER)])
        assert put(client, super_users="User:ANONYMOUS").status_code == 200
        assert node.authorizer.state.settings.super_users == {"User:ANONYMOUS"}


@contextmanager
def configured(tmp_path: Path) -> Iterator[tuple[Node, httpx.Client]]:
    """Whose callers may see and change it."""
    operations = (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER)
    acls = [topic_acl("orders"), *map(on_cluster, operations)]
    with node_with_client(tmp_path / "log", acls, kafka_sasl_password="secret") as node_and_client:
        yield node_and_client


def test_every_key_is_shown_with_its_value_and_source(tmp_path: Path) -> None:
    with configured(tmp_path) as (_, client):
        answer = put(client, super_users="User:root", aclog_max_lag_ms=None)
        assert answer.json() == {
            "changed": [{"name": "super.users", "old": "", "new": "User:root"}],
            "persisted": False,
        }
        assert set(shown(client)) == set(BY_NAME)
        some = shown(client)
        assert some["super.users"] == {
            "name": "super.users",
            "value": "User:root",
            "source": "put",
            "dynamic": True,
            "secret": False,
        }
        assert (some["aclog.log.mode"]["source"], some["aclog.log.mode"]["dynamic"]) == ("flag", False)
        assert some["ssl.key.password"] | {"value": None} == some["ssl.key.password"]
        assert "secret" not in {str(each["value"]) for each in some.values()}


def test_a_change_is_atomic(tmp_path: Path) -> None:
    with configured(tmp_path) as (node, client):
        before = node.config
        for configs in (
            {"super.users": "nobody", "aclog.audit.level": "OFF"},
            {"aclog.audit.level": "OFF", "aclog.log.url": "elsewhere"},
            {"aclog.audit.level": "OFF", "no.such": "1"},
        ):
            answer = client.put(PATH, json={"configs": configs})
            assert (answer.status_code, answer.headers["aclog-error"]) == (400, "INVALID_CONFIG")
            assert any(name in answer.json()["detail"] for name in configs if name != "aclog.audit.level")
        trial = {"configs": {"aclog.audit.level": "OFF"}, "validate_only": True}
        assert client.put(PATH, json=trial).json()["changed"]
        assert client.put(PATH, json=trial, headers={"origin": "http://page"}).status_code == 403
        assert client.put(f"{PATH}?x=1", json=trial).status_code == 400
        assert node.config is before


def test_super_users_change_between_two_decisions(tmp_path: Path) -> None:
    """While others ask all the time: each answer is by the settings before or by those after, in one step."""
    question = {
        "subject": {"type": "User", "id": "ANONYMOUS"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": "secret"},
        "context": {"host": "10.0.0.1"},
    }
    answers: list[bool] = []
    stop = threading.Event()
    with configured(tmp_path) as (_, client):

        def ask() -> None:
            with httpx.Client(base_url=client.base_url, timeout=SOON_S) as asking:
                while not stop.is_set():
                    batch = {**question, "evaluations": [{}] * 50}
                    got = asking.post("/access/v1/evaluations", json=batch).raise_for_status().json()
                    decided = {each["decision"] for each in got["evaluations"]}
                    assert len(decided) == 1  # a request has one state
                    answers.append(decided.pop())

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            deadline_s = time.monotonic() + SOON_S
            while set(answers) != {True, False}:
                assert time.monotonic() < deadline_s
                for users, expected in (("User:ANONYMOUS", True), ("", False)):
                    assert put(client, super_users=users).status_code == 200
                    answer = client.post("/access/v1/evaluation", json=question)
                    assert answer.json()["decision"] is expected
        finally:
            stop.set()
            asking.join()


def test_a_change_of_settings_invalidates_the_caches_of_clients(tmp_path: Path) -> None:
    with (
        node_with_client(tmp_path / "log", [on_cluster(AclOperation.ALL)]) as (_, client),
        client.stream("GET", "/v1/changes") as stream,
    ):
        lines = stream.iter_lines()
        while next(lines) != "event: start":
            pass
        assert put(client, super_users="User:a").status_code == 200
        while (line := next(lines)) != "event: reload":
            assert line != "event: change"


def test_settings_are_refused_before_the_node_is_ready(tmp_path: Path) -> None:
    """A signal may, from the machine itself."""
    with node_with_client(tmp_path / "log") as (node, client):
        node.authorizer.on_not_ready("for a test")
        assert client.get(PATH).status_code == put(client, super_users="User:a").status_code == 503


# --- aclog serve ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_signal_reloads_the_file(tmp_path: Path) -> None:
    config, log = tmp_path / "aclog.properties", tmp_path / "log"
    lines = (
        f"aclog.log.url={log}\naclog.log.mode=create\naclog.listeners=PLAINTEXT://127.0.0.1:0\n"
        "aclog.logging.format=json\n"
    )
    config.write_text(f"{lines}super.users=User:root\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "authorizer.cli", "serve", "--config", config],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        url = next(each for each in events if each["event"] == "listening")["urls"][0]

        def after_signal() -> dict[str, Any]:
            process.send_signal(signal.SIGHUP)
            return next(each for each in events if "setting" in each["event"])

        wait_until(lambda: httpx.get(f"{url}/readyz").status_code == 200)
        assert httpx.get(url + PATH).status_code == 403
        config.write_text(f"{lines}super.users=User:root;User:ANONYMOUS\naclog.logging.level=WARNING\n")
        changes = [after_signal(), next(events)]
        assert {change["key"]: (change["old"], change["new"]) for change in changes} == {
            "super.users": ("User:root", "User:root;User:ANONYMOUS"),
            "aclog.logging.level": ("INFO", "WARNING"),
        }
        source = {each["name"]: each["source"] for each in httpx.get(url + PATH).json()["configs"]}
        assert (source["super.users"], source["node.id"]) == ("file", "default")
        config.write_text(f"{lines}super.users=User:b\naclog.snapshot.store={tmp_path}\n")
        refused = after_signal()
        assert refused["event"] == "settings_not_changed"
        assert refused["reason"].startswith("aclog.snapshot.store: this takes a restart")
        assert httpx.get(url + PATH).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_signal_without_a_file_is_reported(tmp_path: Path) -> None:
    """And does not end it."""
    environ = {**os.environ, "ACLOG_LISTENERS": "PLAINTEXT://127.0.0.1:0", "ACLOG_LOGGING_FORMAT": "json"}
    process = subprocess.Popen(
        [sys.executable, "-m", "authorizer.cli", "serve", "--log", tmp_path / "log"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**environ, "ACLOG_LOG_MODE": "create"},
    )
    try:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        next(each for each in events if each["event"] == "listening")
        process.send_signal(signal.SIGHUP)
        event = next(each for each in events if "setting" in each["event"])
        assert "without a file" in event["reason"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON_S) == 0
    finally:
        process.kill()
        process.communicate()
