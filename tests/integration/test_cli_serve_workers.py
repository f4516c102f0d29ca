"""`aclog serve --workers N`: several processes that callers see as one sidecar."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from authorizer.cli.main import cli
from records.log.directory import DirectoryLog
from support.data import real_log
from support.kafka_broker import Broker
from support.nodes import SOON_S
from support.serving_workers import SERVE, Serving, is_running, pause, serving_workers
from support.topic_logs import new_topic
from support.waiting import wait_until

ACL = {
    "resourceType": "TOPIC",
    "resourceName": "orders",
    "principal": "User:alice",
    "operation": "READ",
    "permissionType": "ALLOW",
}
OPEN = {"super.users": "User:ANONYMOUS"}


@pytest.fixture
def own_log(tmp_path: Path) -> Path:
    """An empty log that aclog made."""
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    return tmp_path / "log"


def question(topic: str, principal: str = "alice") -> dict[str, Any]:
    return {
        "subject": {"type": "User", "id": principal},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": topic},
        "context": {"host": "10.0.0.1"},
    }


def decision(client: httpx.Client, topic: str, **more: Any) -> bool:
    body = question(topic)
    body["context"].update(more)
    answer = client.post("/access/v1/evaluation", json=body)
    assert answer.status_code == 200, answer.text
    found: bool = answer.json()["decision"]
    return found


def metrics(client: httpx.Client) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by their names."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def decided(client: httpx.Client) -> float:
    """What ACLs allowed: not who may ask, which a super user is."""
    (count,) = (
        value
        for labels, value in metrics(client)["aclog_authorizations_total"]
        if (labels["result"], labels["rule"]) == ("allowed", "MatchingAcl")
    )
    return count


def until_decided(client: httpx.Client, count: float) -> None:
    """Wait until the metrics have as many: their text is kept for a second."""
    wait_until(lambda: decided(client) >= count)


def by_worker(samples: list[tuple[dict[str, str], float]]) -> dict[str, float]:
    return {labels["worker"]: value for labels, value in samples}


def create(client: httpx.Client, topic: str) -> int:
    """An ACL for alice; returns the offset from which on it is visible."""
    answer = client.post("/v1/acls", json={"acls": [{**ACL, "resourceName": topic}]})
    assert answer.status_code == 200, answer.text
    assert [result.get("created") for result in answer.json()["results"]] == [True], answer.text
    offset: int = answer.json()["offset"]
    return offset


def test_every_worker_answers_for_the_sidecar(tmp_path: Path) -> None:
    """One readiness and one /metrics: counters added up, gauges by worker."""
    with serving_workers(tmp_path, str(real_log("kraft-small")), OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            before = decided(clients[0])
            for number, client in clients.items():
                for _ in range(3 + number):
                    assert decision(client, "orders")
            for client in clients.values():
                ready = client.get("/readyz")
                assert ready.json() == {"ready": True, "offset": 281, "lag_records": 0}
                until_decided(client, before + 3 + 4)
                assert decided(client) == before + 3 + 4
                shown = metrics(client)
                assert by_worker(shown["aclog_ready"]) == {"0": 1, "1": 1}
                assert by_worker(shown["aclog_applied_offset"]) == {"0": 280, "1": 280}
                assert by_worker(shown["aclog_worker_up"]) == {"0": 1, "1": 1}
                assert by_worker(shown["aclog_worker_restarts_total"]) == {"0": 0, "1": 0}
                assert shown["aclog_workers"] == [({}, 2)]
    assert len(serving.events("listening")) == 1


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_worker_is_replaced_while_the_others_answer(
    number: int, tmp_path: Path, own_log: Path
) -> None:
    """Each new connection is answered meanwhile; what was counted does not go back."""
    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        before = serving.pids()
        with serving.client_of_each() as clients:
            create(clients[1], "orders")
            for _ in range(5):
                assert decision(clients[number], "orders")
            count = decided(clients[1 - number])
            os.kill(before[number], signal.SIGKILL)
            wait_until(lambda: not is_running(before[number]))
            for _ in range(20):
                with httpx.Client(base_url=serving.urls[0], timeout=SOON_S) as client:
                    answer = client.post("/access/v1/evaluation", json=question("orders"))
                    # The new one may be loading; never a wrong decision.
                    assert answer.status_code == 503 or answer.json()["decision"] is True, answer.text
            assert decision(clients[1 - number], "orders")
            until_decided(clients[1 - number], count + 1)
        after = wait_until(lambda: pids if (pids := serving.pids())[number] != before[number] else None)
        assert after[1 - number] == before[1 - number]
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            for client in clients.values():
                assert decision(client, "orders")
                assert by_worker(metrics(client)["aclog_worker_restarts_total"])[str(number)] == 1
                assert decided(client) >= count
            # The log has its writer again.
            create(clients[1], "payments")
        (ended,) = serving.events("worker_ended")
        assert (ended["worker"], ended["signal"]) == (number, "SIGKILL")


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_a_hanging_worker_is_ended_and_restarted(number: int, tmp_path: Path, own_log: Path) -> None:
    """As one that dies: each of them answers again, and the log has its writer."""
    settings = {**OPEN, "aclog.workers.hang.timeout.ms": "5000"}
    with serving_workers(tmp_path, own_log, settings) as serving:
        serving.wait_until_ready()
        before = serving.pids()
        pause(before[number])
        wait_until(lambda: serving.pids()[number] != before[number])
        assert not is_running(before[number])
        ended = next(event for event in serving.events("worker_ended") if event["pid"] == before[number])
        assert (ended["worker"], ended["signal"]) == (number, "SIGKILL")
        assert ended["reason"] == "it hung: an event loop has not turned for 5 s"
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            offset = create(clients[1 - number], "orders")
            assert all(decision(client, "orders", min_offset=offset) for client in clients.values())


@pytest.mark.long
def test_the_sidecar_is_not_ready_while_one_worker_is_not(tmp_path: Path) -> None:
    """The worker that gets the request reports the number of a worker that does not answer."""
    with serving_workers(tmp_path, str(real_log("kraft-small")), OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            pause(serving.pids()[0])
            try:
                answer = clients[1].get("/readyz")
                assert answer.status_code == 503
                assert answer.json()["reason"] == "worker 0: does not answer"
                assert by_worker(metrics(clients[1])["aclog_worker_up"]) == {"0": 0, "1": 1}
            finally:
                os.kill(serving.pids()[0], signal.SIGCONT)
            wait_until(lambda: clients[1].get("/readyz").is_success)


def test_changes_are_made_through_any_worker_and_seen_by_each(tmp_path: Path, own_log: Path) -> None:
    """A request at the offset of an answer sees the change on every worker."""
    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            for number, client in clients.items():
                assert client.get("/v1/state").json()["writable"] is True
                for at in range(10):
                    topic = f"t-{number}-{at}"
                    offset = create(client, topic)
                    assert client.get("/v1/state").json()["offset"] >= offset
                    assert decision(clients[1 - number], topic, min_offset=offset)
            removed = clients[1].request(
                "DELETE", "/v1/acls", json={"filters": [{"principal": "User:alice"}]}
            )
            assert len(removed.json()["results"][0]["deleted"]) == 20
            assert not decision(clients[0], "t-0-0", min_offset=removed.json()["offset"])
            # An error of one item is reported as without workers.
            refused = clients[1].post("/v1/acls", json={"acls": [{**ACL, "principal": "alice"}]})
            assert refused.json()["results"][0]["error"]["code"] == "INVALID_REQUEST"


def test_confluents_api_changes_acls_through_any_worker(tmp_path: Path, own_log: Path) -> None:
    """The worker that answers a change shows it in its next listing."""
    new = {
        "resource_type": "TOPIC",
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            for number, client in clients.items():
                (cluster,) = client.get("/kafka/v3/clusters").json()["data"]
                path = f"/kafka/v3/clusters/{cluster['cluster_id']}/acls"
                for at in range(5):
                    wanted = {**new, "resource_name": f"t-{number}-{at}"}
                    created = client.post(path, json=wanted)
                    assert created.status_code == 201
                    (found,) = client.get(created.headers["location"]).json()["data"]
                    assert client.delete(path, params=wanted).json()["data"] == [found]
                    assert client.get(created.headers["location"]).json()["data"] == []


def test_plans_are_applied_through_any_worker(tmp_path: Path, own_log: Path) -> None:
    """Once; refused where the effective permissions have changed, whichever worker is asked."""
    changes, plan = tmp_path / "changes", tmp_path / "plan.json"
    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            for number, client in clients.items():
                for topic, moves in ((f"p-{number}", False), (f"q-{number}", True)):
                    changes.write_text(json.dumps({"acl": "added", **ACL, "resourceName": topic}))
                    planned = ("plan", changes, "--log", own_log, "--output", plan, "--force")
                    assert CliRunner().invoke(cli, [*map(str, planned)]).exit_code == 1
                    if moves:
                        create(client, f"t-{number}")
                    answer = client.post("/v1/plans", content=plan.read_bytes()).json()
                    (result,) = answer["results"]
                    if moves:
                        assert result["error"]["name"] == "PlanOutdatedException"
                        continue
                    assert [acl["resourceName"] for acl in result["added"]] == [topic]
                    assert decision(clients[1 - number], topic, min_offset=answer["offset"])
                    again = client.post("/v1/plans", content=plan.read_bytes()).json()["results"]
                    assert [(each["removed"], each["added"]) for each in again] == [([], [])]
                # What a request says of the share that may go reaches the worker that writes.
                there = client.get("/v1/acls").json()["acls"]
                changes.write_text("".join(json.dumps({"acl": "removed", **each}) + "\n" for each in there))
                planned = ("plan", changes, "--log", own_log, "--output", plan, "--force")
                assert CliRunner().invoke(cli, [*map(str, planned)]).exit_code == 1
                (result,) = client.post("/v1/plans", content=plan.read_bytes()).json()["results"]
                assert result["error"]["name"] == "MassRemovalException"
                body = json.loads(plan.read_bytes()) | {"maxRemovedPercent": 100}
                (result,) = client.post("/v1/plans", json=body).json()["results"]
                assert len(result["removed"]) == result["acl_count"] > 0


def test_commands_write_through_the_socket_in_the_logs_directory(tmp_path: Path, own_log: Path) -> None:
    """As with one process; whichever worker is asked next has the change."""
    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        add = ("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        command = (sys.executable, "-m", "authorizer.cli", "acls", "--log", str(own_log), *add, "--json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=SOON_S, check=True)
        offset = json.loads(done.stdout)["endOffset"]
        with serving.client_of_each() as clients:
            for client in clients.values():
                assert decision(client, "orders", min_offset=offset)


def test_a_change_waits_for_a_restarted_writer(tmp_path: Path, own_log: Path) -> None:
    """It is carried out when there is one."""
    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            killed = serving.pids()[0]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: not is_running(killed))
            offset = create(clients[1], "orders")
            assert decision(clients[1], "orders", min_offset=offset)


@pytest.mark.long
def test_one_worker_writes_the_snapshots(tmp_path: Path, own_log: Path) -> None:
    """Each starts from them."""
    store = tmp_path / "store"
    settings = {**OPEN, "aclog.snapshot.store": str(store), "aclog.snapshot.max.bytes": "1"}
    with serving_workers(tmp_path, own_log, settings) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            create(clients[1], "orders")
            wait_until(lambda: any(store.rglob("manifest.json")))
            shown = metrics(clients[1])
            assert by_worker(shown["aclog_snapshot_end_offset"]).keys() == {"0"}
    with serving_workers(tmp_path, own_log, settings) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            assert metrics(clients[0])["aclog_snapshots_loaded_total"] == [({}, 2)]


@pytest.mark.long
def test_a_stream_of_changes_continues_at_another_worker(tmp_path: Path, own_log: Path) -> None:
    """With Last-Event-ID, behind that event and without a reload."""

    def followed(client: httpx.Client, last: int | None, count: int) -> list[tuple[str, int]]:
        headers = {} if last is None else {"last-event-id": str(last)}
        seen: list[tuple[str, int]] = []
        with client.stream("GET", "/v1/changes", headers=headers) as response:
            for line in response.iter_lines():
                if line.startswith("id: "):
                    last = int(line.removeprefix("id: "))
                elif line.startswith("event: ") and last is not None:
                    seen.append((line.removeprefix("event: "), last))
                    if len(seen) == count:
                        break
        return seen

    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients, serving.client_of_each() as writing:
            start = create(writing[0], "one")
            offsets = []
            for topic in ("two", "three", "four"):
                offset = create(writing[0], topic)
                assert decision(writing[1], topic, min_offset=offset)  # each is an update of its own there
                offsets.append(offset)
            assert followed(clients[0], start, 2) == [("start", start), ("change", offsets[0])]
            assert followed(clients[1], offsets[0], 3) == [
                ("start", offsets[0]),
                ("change", offsets[1]),
                ("change", offsets[2]),
            ]


def test_lines_of_several_workers_are_not_mixed(tmp_path: Path) -> None:
    """More output than a pipe holds from both workers, with a slow reader: each line is one JSON object."""
    count, batches = 3000, 3
    config = tmp_path / "sidecar.properties"
    config.write_text("super.users=User:ANONYMOUS\naclog.listeners=PLAINTEXT://127.0.0.1:0\n")
    command = (*SERVE, "--config", str(config), "--workers", "2", "--log", str(real_log("kraft-small")))
    lines: list[bytes] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        stderr = process.stderr
        try:
            for line in stderr:
                lines.append(line)
                if b'"listening"' in line:
                    break
            url = json.loads(lines[-1])["urls"][0]

            def ask(at: int) -> None:
                evaluations = [question(f"t-{at}-{number}-{'x' * 150}") for number in range(count)]
                with httpx.Client(base_url=url, timeout=SOON_S) as client:
                    wait_until(lambda: client.get("/readyz").is_success)
                    answer = client.post("/access/v1/evaluations", json={"evaluations": evaluations})
                    assert len(answer.json()["evaluations"]) == count

            asking = [threading.Thread(target=ask, args=(at,)) for at in range(2 * batches)]
            for thread in asking:
                thread.start()

            def end() -> None:
                for thread in asking:
                    thread.join()
                process.send_signal(signal.SIGTERM)

            threading.Thread(target=end).start()
            for at, line in enumerate(stderr):
                lines.append(line)
                if at % 50 == 0:
                    time.sleep(0.001)  # a slow reader, so that pipes are full
            assert process.wait(SOON_S) == 0
        finally:
            process.kill()
    named = Counter(event["resource_name"] for event in map(json.loads, lines) if "resource_name" in event)
    assert len(named) == 2 * batches * count
    assert set(named.values()) == {1}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_ends_all_processes(number: signal.Signals, tmp_path: Path, own_log: Path) -> None:
    """Whichever processes get it, as a service manager and a terminal send it to all: exit code 0."""
    socket_file = tmp_path / "gateway.sock"
    settings = {
        **OPEN,
        "aclog.listeners": f"PLAINTEXT://127.0.0.1:0,GATEWAY://{socket_file}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,GATEWAY:PLAINTEXT",
    }
    with serving_workers(tmp_path, own_log, settings) as serving:
        serving.wait_until_ready()
        pids = serving.pids()
        directory = socket_directory(serving)
        assert socket_file.is_socket()
        with serving.client_of_each() as clients:
            assert decision(clients[0], "orders") is False
            for pid in (*pids.values(), serving.process.pid):
                os.kill(pid, number)
            assert serving.process.wait(SOON_S) == 0
        assert not any(map(is_running, pids.values()))
        assert not socket_file.exists()
        assert not directory.exists()
        assert not (own_log / "aclog.sock").exists()
        # The line of the decision was written all the same.
        assert '"resource_name":"orders"' in serving.stderr_file.read_text("utf-8")


def test_the_workers_end_when_the_supervisor_is_killed(tmp_path: Path, own_log: Path) -> None:
    """The port is free then, and the log too."""
    with serving_workers(tmp_path, own_log, OPEN) as serving:
        serving.wait_until_ready()
        pids, directory = serving.pids(), socket_directory(serving)
        serving.process.kill()
        serving.process.wait()
        wait_until(lambda: not any(map(is_running, pids.values())))
        assert not directory.exists()
        DirectoryLog.open(own_log, mode="write").close()


def socket_directory(serving: Serving) -> Path:
    """The directory of the workers' sockets."""
    opened: set[Path] = set()
    for each in Path(f"/proc/{serving.pids()[1]}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            opened.add(each.readlink())
    (lock,) = (path for path in opened if path.name == "output.lock")
    return lock.parent


LEVEL = "aclog.audit.level"


def setting(client: httpx.Client) -> tuple[str, str]:
    """The audit level, and what it was set by."""
    configs = {each["name"]: each for each in client.get("/v1/config").json()["configs"]}
    return configs[LEVEL]["value"], configs[LEVEL]["source"]


def test_settings_change_in_all_workers_or_in_none(tmp_path: Path) -> None:
    """By SIGHUP to the first process, and by PUT to any worker; said in the log once."""
    with serving_workers(tmp_path, real_log("kraft-small"), OPEN) as serving:
        serving.wait_until_ready()
        config = tmp_path / "sidecar.properties"
        text = config.read_text()
        with serving.client_of_each() as clients:

            def hang_up(line: str) -> None:
                config.write_text(text + line)
                serving.process.send_signal(signal.SIGHUP)

            hang_up(f"{LEVEL}=DEBUG\n")
            wait_until(lambda: {setting(client) for client in clients.values()} == {("DEBUG", "file")})
            hang_up(f"{LEVEL}=OFF\naclog.log.mode=write\n")
            wait_until(lambda: serving.events("settings_not_changed"))
            assert {setting(client) for client in clients.values()} == {("DEBUG", "file")}

            put = clients[1].put("/v1/config", json={"configs": {LEVEL: "TRACE"}})
            assert put.json()["changed"] == [{"name": LEVEL, "old": "DEBUG", "new": "TRACE"}]
            assert {setting(client) for client in clients.values()} == {("TRACE", "put")}
            refused = clients[0].put("/v1/config", json={"configs": {LEVEL: "OFF", "aclog.max.lag.ms": "x"}})
            assert (refused.status_code, refused.headers["aclog-error"]) == (400, "INVALID_CONFIG")
            body = {"configs": {LEVEL: "OFF"}, "validate_only": True}
            assert clients[0].put("/v1/config", json=body).json()["changed"][0]["new"] == "OFF"
            assert {setting(client) for client in clients.values()} == {("TRACE", "put")}
        assert [event["new"] for event in serving.events("setting_changed")] == ["DEBUG", "TRACE"]
        assert serving.events("worker_ended") == []


@pytest.mark.long
def test_a_new_worker_has_the_current_settings(tmp_path: Path) -> None:
    """Not with those of the start."""
    with serving_workers(tmp_path, real_log("kraft-small"), OPEN) as serving:
        serving.wait_until_ready()
        killed = serving.pids()[1]
        with serving.client_of_each() as clients:
            assert clients[0].put("/v1/config", json={"configs": {LEVEL: "TRACE"}}).is_success
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: serving.pids()[1] != killed)
        with serving.client_of_each() as clients:
            assert setting(clients[1]) == ("TRACE", "put")
            assert clients[1].put("/v1/config", json={"configs": {LEVEL: None}}).is_success
            assert {setting(client) for client in clients.values()} == {("INFO", "default")}


@pytest.mark.parametrize(
    "what", ["log", *(pytest.param(what, marks=pytest.mark.long) for what in ("port", "tokens", "lock"))]
)
def test_a_start_error_is_reported_once(what: str, tmp_path: Path) -> None:
    """The message and the exit code are those of one process."""
    log, settings = str(real_log("kraft-small")), {"ACLOG_LISTENERS": "PLAINTEXT://127.0.0.1:0"}

    def ended(workers: str) -> tuple[int, str]:
        command = (*SERVE, "--workers", workers, "--log", log)
        environment = {**os.environ, **settings}
        done = subprocess.run(command, capture_output=True, timeout=SOON_S, check=False, env=environment)
        return done.returncode, done.stderr.decode()

    with ExitStack() as held:
        match what:
            case "port":
                taken = held.enter_context(socket.create_server(("127.0.0.1", 0)))
                settings["ACLOG_LISTENERS"] = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
            case "tokens":
                settings["ACLOG_AUTH_TOKENS_FILE"] = str(tmp_path / "none")
            case "log":
                log = str(tmp_path / "missing")
            case "lock":
                log = str(tmp_path / "held")
                held.enter_context(closing(DirectoryLog.open(tmp_path / "held", mode="create")))
        alone = ended("1")
        assert alone[0] == (3 if what == "lock" else 2)
        assert alone[1].startswith("Error: ")
        assert ended("3") == alone


@pytest.mark.long
def test_a_used_port_of_workers_is_reported(tmp_path: Path) -> None:
    """Another sidecar of the same user is refused, though the workers share the port among them."""
    log = str(real_log("kraft-small"))
    with serving_workers(tmp_path, log, OPEN) as serving:
        serving.wait_until_ready()
        port = httpx.URL(serving.urls[0]).port
        for workers in ("1", "2"):
            done = subprocess.run(
                (*SERVE, "--log", log, "--workers", workers),
                capture_output=True,
                text=True,
                timeout=SOON_S,
                check=False,
                env={**os.environ, "ACLOG_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}"},
            )
            assert done.returncode == 2
            assert "in use" in done.stderr


@pytest.mark.long
@pytest.mark.integration
def test_changes_of_a_topic_go_through_one_worker(tmp_path: Path, broker: Broker) -> None:
    """The topic is made by it, too, and written by one producer."""
    with serving_workers(tmp_path, new_topic(broker), OPEN) as serving:
        serving.wait_until_ready()
        with serving.client_of_each() as clients:
            for number, client in clients.items():
                offset = create(client, f"t-{number}")
                assert decision(clients[1 - number], f"t-{number}", min_offset=offset)
