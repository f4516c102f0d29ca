"""A denial that rests on a setting of the brokers that is not known says which, and how to set it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from structlog.testing import capture_logs

from authorizer.cli.main import cli
from support.data import real_log
from support.nodes import running_node, sidecar_of

pytestmark = pytest.mark.integration

ADMIN = ("--principal", "User:admin", "--operation", "Describe", "--host", "10.9.9.9")
ON_TOKEN = (*ADMIN, "--delegation-token", "t")
# The log has ACLs for every name of every type, but not from its beginning.
UNCOVERED = (*ON_TOKEN, "--at-offset", "3")
SUPER_USERS = "super.users is unknown here: "
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found is unknown here: "
KEYS = {SUPER_USERS: "super.users=", ALLOW_EVERYONE: "allow.everyone.if.no.acl.found=false"}


def aclog(*args: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, args)])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A broker's directory."""
    return Path(shutil.copytree(real_log("kraft-small"), tmp_path / "__cluster_metadata-0"))


@pytest.mark.parametrize("known", [(), (SUPER_USERS,), (ALLOW_EVERYONE,), (SUPER_USERS, ALLOW_EVERYONE)])
def test_a_denial_names_the_unknown_settings(log: Path, tmp_path: Path, known: tuple[str, ...]) -> None:
    """In text and JSON, and beside the advice to add an ACL; an empty super.users is known."""
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{KEYS[each]}\n" for each in known))
    request = ("check", "--log", log, "--config", config, *UNCOVERED)
    plain, explained, in_json = aclog(*request), aclog(*request, "--explain"), aclog(*request, "--json")
    notes = [each for each in json.loads(in_json.stdout)["notes"] if "unknown here" in each]
    assert plain.exit_code == explained.exit_code == in_json.exit_code == 1
    for setting in KEYS:
        is_reported = setting not in known
        assert (setting in plain.stderr) is is_reported
        assert (setting in explained.stdout) is is_reported
        assert any(setting in each for each in notes) is is_reported
    assert explained.stdout.index("because") < explained.stdout.index("to allow it")
    assert len(notes) == len(KEYS) - len(known)


def test_only_relevant_settings_are_reported(log: Path, tmp_path: Path) -> None:
    """Nothing if it is allowed; nothing about the default if ACLs cover it; nothing by a broker's file."""
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:admin\n")
    allowed = aclog("check", "--log", log, "--config", config, *UNCOVERED)
    assert (allowed.exit_code, "unknown here" in allowed.output) == (0, False)
    covered = aclog("check", "--log", log, *ADMIN, "--cluster")
    assert covered.exit_code == 1, covered.output
    assert SUPER_USERS in covered.output
    assert ALLOW_EVERYONE not in covered.output
    config.write_text(f"process.roles=broker\nnode.id=1\nlog.dirs={tmp_path}\n")
    brokers = aclog("check", "--config", config, *UNCOVERED)
    assert (brokers.exit_code, "is unknown here" in brokers.output) == (1, False), brokers.output


def test_who_can_and_a_batch_report_them_once(log: Path, tmp_path: Path) -> None:
    listed = aclog("what-can", "--log", log, "--principal", "User:nobody")
    assert listed.stderr.count(SUPER_USERS) == listed.stderr.count(ALLOW_EVERYONE) == 1
    queries = tmp_path / "queries.jsonl"
    query = {"principal": "User:x", "host": "1.1.1.1", "operation": "READ", "resourceType": "TOPIC"}
    queries.write_text(f"{json.dumps({**query, 'resourceName': 'x'})}\n" * 3)
    done = aclog("check", "--log", log, "--batch", queries)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"result": "DENIED", "rule": "DefaultDeny"}
    ] * 3
    assert done.stderr.count(SUPER_USERS) == done.stderr.count(ALLOW_EVERYONE) == 1


def test_a_node_warns_in_log_and_answers(log: Path) -> None:
    question = {
        "subject": {"type": "User", "id": "admin"},
        "action": {"name": "DESCRIBE"},
        "resource": {"type": "DELEGATION_TOKEN", "id": "t"},
        "context": {"host": "10.9.9.9"},
    }
    with (
        capture_logs() as logged,
        running_node(log, describe_principals="User:ANONYMOUS") as node,
        sidecar_of(node) as address,
    ):
        evaluated = httpx.post(f"{address}/access/v1/evaluation", json=question).json()
        batch = httpx.post(
            f"{address}/access/v1/evaluations", json={**question, "evaluations": [{}, {}]}
        ).json()
        explained = aclog("check", "--sidecar", address, *ON_TOKEN, "--explain")
        # What is set while it runs is known from then on.
        node.authorizer.reconfigure({"super.users": "", "allow.everyone.if.no.acl.found": "false"})
        after = httpx.post(f"{address}/access/v1/evaluation", json=question).json()
    warned = [each["reason"] for each in logged if each["event"] == "brokers_setting_unknown"]
    assert [setting in each for setting, each in zip(KEYS, warned, strict=True)] == [True, True]
    (note,) = evaluated["context"]["notes"]  # ACLs cover the name
    assert note == warned[0]
    assert note in explained.output.replace("\n", " ")
    assert batch["evaluations"] == [evaluated, evaluated]
    assert "notes" not in after["context"]


def test_an_aclog_managed_log_has_no_unknown_settings(tmp_path: Path) -> None:
    assert aclog("log", "create", "--log", tmp_path / "own").exit_code == 0
    done = aclog("check", "--log", tmp_path / "own", *ON_TOKEN, "--json")
    assert json.loads(done.stdout)["notes"] == ["there are no ACLs in this state"]
