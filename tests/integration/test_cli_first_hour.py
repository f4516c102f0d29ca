"""The first hour with a cluster: a real broker with SASL_SSL, and a Java client.properties as it is."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from records.properties import escape_property, parse_properties
from support.aclog_command import checked_aclog as aclog
from support.pasted_commands import commands, section
from support.sasl_clients import PASSWORD
from support.secure_cluster import PLAIN, SecureCluster, secure_cluster
from support.terminal import on_terminal

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with secure_cluster(tmp_path_factory.mktemp("first-hour")) as running:
        yield running


def check(*where: object, code: int = 0) -> Result:
    request = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders")
    return aclog("check", *where, *request, code=code)


def test_the_readmes_three_commands_lead_to_an_explained_answer(
    cluster: SecureCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no file written by hand but Kafka's own client.properties; the shown output is what they print."""
    monkeypatch.chdir(tmp_path)
    cluster.client_properties("client").rename("client.properties")
    text = section((ROOT / "README.md").read_text(encoding="utf-8"), "Your cluster")

    lines = [line.replace("broker.example.org:9093", cluster.secure) for line in commands(text)]
    assert [shlex.split(line)[1] for line in lines] == ["connect", "check", "what-can"]
    output = "".join(aclog(*shlex.split(line)[1:]).stdout for line in lines)

    cluster_id = re.search(r"Cluster (\S+),", output)
    assert cluster_id is not None
    printed = output.replace(cluster.secure, "broker.example.org:9093")
    printed = printed.replace(cluster_id[1], "x1mJc4Y4RfyQpTO4sDfTqg")
    shown = [line for line in text.partition("```text\n")[2].partition("```")[0].splitlines() if line]
    assert len(shown) > 5
    assert [line for line in shown if line not in printed.splitlines()] == []
    assert "alice-secret" not in Path("aclog.properties").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ssl_truststore_type": "JKS", "ssl_truststore_location": "trust.jks"},
        {
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": "ca.pem",
            "ssl_truststore_password": None,
        },
        {
            "sasl_mechanism": "PLAIN",
            "sasl_jaas_config": f'{PLAIN} required username="bob" password="{PASSWORD}";',
        },
    ],
    ids=["PKCS12", "JKS", "PEM", "PLAIN"],
)
def test_a_java_file_is_taken_as_it_is(cluster: SecureCluster, changes: dict[str, str | None]) -> None:
    location = changes.get("ssl_truststore_location", "trust.p12")
    changes = {**changes, "ssl_truststore_location": str(cluster.home / str(location))}
    properties = cluster.client_properties("taken", **changes)
    may_describe = "PLAIN" not in str(changes.get("sasl_mechanism"))

    done = check(
        "--bootstrap-server", cluster.secure, "--command-config", properties, code=0 if may_describe else 2
    )

    if may_describe:
        assert done.output.startswith("ALLOWED")
    else:
        assert "User:bob is not allowed" in done.output
        assert "--operation Describe --cluster" in done.output


def test_the_file_may_name_the_cluster(cluster: SecureCluster) -> None:
    properties = cluster.client_properties("named", bootstrap_servers=cluster.secure)

    assert check("--command-config", properties).output.startswith("ALLOWED")


def test_keys_without_effect_are_reported(cluster: SecureCluster) -> None:
    properties = cluster.client_properties("unused", client_id="admin", retries="3")

    done = check("--bootstrap-server", cluster.secure, "--command-config", properties)

    assert f"{properties}: client.id, retries: no effect in aclog" in done.output


def test_controllers_are_followed_with_the_same_options(cluster: SecureCluster) -> None:
    assert check("--bootstrap-controller", cluster.controllers).output.startswith("ALLOWED")


def test_proposed_commands_name_the_cluster_as_the_user_did(cluster: SecureCluster) -> None:
    where = ("--bootstrap-controller", cluster.controllers)

    request = ("--principal", "User:dave", "--operation", "Read", "--topic", "orders")
    denied = aclog("check", *where, *request, "--explain", code=1)

    assert f"acls {shlex.join(where)} --add --allow-principal User:dave" in denied.output


class TestMistakes:
    """Each ends with one message that names the cause and the way out."""

    def test_a_plaintext_port_with_tls(self, cluster: SecureCluster) -> None:
        properties = cluster.client_properties("clear")

        done = check("--bootstrap-server", cluster.plaintext, "--command-config", properties, code=2)

        assert f"{cluster.plaintext} is a port without TLS" in done.output
        assert f"set security.protocol of {properties} to PLAINTEXT or SASL_PLAINTEXT" in done.output

    def test_an_unknown_key(self, cluster: SecureCluster) -> None:
        properties = cluster.client_properties("unknown", securityprotocol="SSL")

        done = check("--bootstrap-server", cluster.secure, "--command-config", properties, code=2)

        assert "`securityprotocol`" in done.output
        assert str(properties) in done.output

    def test_two_sources(self, cluster: SecureCluster) -> None:
        done = check("--bootstrap-server", cluster.secure, "--log", "file:./acls", code=2)

        assert "--log and --bootstrap-server cannot be used together" in done.output

    def test_a_node_and_a_cluster(self, cluster: SecureCluster) -> None:
        node = ("--sidecar", "http://127.0.0.1:1")

        done = check(*node, "--bootstrap-server", cluster.secure, code=2)
        assert "--bootstrap-server and --sidecar cannot be used together" in done.output
        done = check(*node, "--command-config", cluster.home / "x", code=2)
        assert "the node has a log and a store; remove --command-config" in done.output

    def test_an_existing_configuration_is_not_overwritten(
        self, cluster: SecureCluster, tmp_path: Path
    ) -> None:
        config = tmp_path / "aclog.properties"
        config.write_text("# mine\n", encoding="utf-8")

        done = aclog("connect", "--bootstrap-server", cluster.plaintext, "--output", config, code=2)

        assert "--force" in done.output
        assert config.read_text(encoding="utf-8") == "# mine\n"


def test_connect_stores_polls_where_the_log_says(cluster: SecureCluster, tmp_path: Path) -> None:
    config, url = tmp_path / "aclog.properties", f"describe://{cluster.secure}{tmp_path}/polls"
    properties = cluster.client_properties("polls")

    aclog("connect", "--log", url, "--command-config", properties, "--output", config)

    assert f"aclog.log.url={escape_property(url)}\n" in config.read_text(encoding="utf-8")
    assert check("--config", config).output.startswith("ALLOWED")


def test_a_directory_is_written_with_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, config = tmp_path / "log", tmp_path / "conf" / "aclog.properties"
    config.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    aclog("log", "create", "--log", "file:log")

    connected = aclog("connect", "--log", "file:log", "--output", config)

    assert "over PLAINTEXT" not in connected.output
    assert parse_properties(config.read_text(encoding="utf-8"))["aclog.log.url"] == f"file:{log}"


def test_connect_answers_in_json(cluster: SecureCluster, tmp_path: Path) -> None:
    config = tmp_path / "aclog.properties"

    done = CliRunner().invoke(
        cli, ["connect", "--bootstrap-server", cluster.plaintext, "--output", str(config), "--json"]
    )

    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["ways"][0] == {
        "log": f"describe://{cluster.plaintext}",
        "works": True,
        "aclCount": 2,
        "problem": None,
    }
    assert answer["unknown"] == ["super.users", "allow.everyone.if.no.acl.found"]
    assert answer["output"] == str(config)


@pytest.mark.parametrize(
    "way", ["--log describe", "--bootstrap-server", "--bootstrap-controller", "--log kraft"]
)
def test_a_plan_prints_the_command_that_applies_it(cluster: SecureCluster, tmp_path: Path, way: str) -> None:
    """And that command runs as it is printed."""
    flag, _, scheme = way.partition(" ")
    server = cluster.controllers if "kraft" in way or "controller" in way else cluster.plaintext
    where = (flag, f"{scheme}://{server}" if scheme else server)
    plan, changes = tmp_path / "plan.json", tmp_path / "changes.txt"

    for action in ("--add", "--remove --force"):
        changes.write_text(
            f"{action} --allow-principal User:carol --operation Write --topic orders\n", encoding="utf-8"
        )
        planned = aclog("plan", changes, *where, "--output", plan, code=1)
        command = shlex.split(planned.stderr.partition("to apply the plan: `")[2].partition("`")[0])
        assert command[:2] == ["aclog", "apply"]
        applied = aclog(*command[1:], *(["--allow-mass-removal"] if "remove" in action else []))
        assert ("1 ACLs removed" if "remove" in action else "1 added") in applied.output
        plan.unlink()


class TestUnknownSettings:
    """super.users and the like, which brokers do not tell."""

    @pytest.mark.parametrize("flag", ["--bootstrap-server", "--bootstrap-controller"])
    def test_an_answer_that_depends_on_them_says_so(
        self, cluster: SecureCluster, tmp_path: Path, flag: str
    ) -> None:
        server = cluster.plaintext if "server" in flag else cluster.controllers
        about = ("--operation", "Read", "--topic", "orders")
        commands = (
            ("check", "--principal", "User:admin", *about),
            ("check", "--principal", "User:admin", *about, "--explain"),
            ("who-can", *about),
            ("what-can", "--principal", "User:admin"),
        )
        config = tmp_path / "aclog.properties"
        config.write_text("super.users=User:ops\nallow.everyone.if.no.acl.found=false\n")

        for command in commands:
            denied = CliRunner().invoke(cli, [*command, flag, server])
            assert denied.output.count("super.users is unknown here: ") == 1, denied.output
            known = CliRunner().invoke(cli, [*command, flag, server, "--config", str(config)])
            assert known.exit_code == denied.exit_code
            assert "unknown here" not in known.output

    def test_connect_asks_for_them_on_a_terminal(self, cluster: SecureCluster, tmp_path: Path) -> None:
        """And asks again if the answer is not valid."""
        config = tmp_path / "aclog.properties"
        connect = [sys.executable, "-m", "authorizer.cli", "connect", "--output", str(config)]

        typed = ["admin\n", "User:admin;User:ops\n", "yes\n", "false\n"]
        code, output = on_terminal(
            [*connect, "--bootstrap-server", cluster.plaintext], prompt="do not know): ", typed=typed
        )

        assert code == 0, output
        found = parse_properties(config.read_text(encoding="utf-8"))
        assert found["super.users"] == "User:admin;User:ops"
        assert found["allow.everyone.if.no.acl.found"] == "false"
        assert output.count("super.users of the brokers") == 2
        assert "unknown from here" not in output

    @pytest.mark.parametrize(("typed", "written"), [("none\n", ""), ("\n", None)])
    def test_nothing_typed_is_unknown(
        self, cluster: SecureCluster, tmp_path: Path, typed: str, written: str | None
    ) -> None:
        config = tmp_path / "aclog.properties"
        connect = [sys.executable, "-m", "authorizer.cli", "connect", "--output", str(config)]
        where = ["--bootstrap-server", cluster.plaintext, "--no-allow-everyone"]

        code, output = on_terminal([*connect, *where], prompt="do not know): ", typed=[typed])

        assert code == 0, output
        assert parse_properties(config.read_text(encoding="utf-8")).get("super.users") == written

    def test_a_variable_makes_them_known(
        self, cluster: SecureCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ACLOG_SUPER_USERS", "User:admin")
        config = tmp_path / "aclog.properties"

        connected = aclog("connect", "--bootstrap-server", cluster.plaintext, "--output", config)

        assert "unknown from here: allow.everyone.if.no.acl.found of" in connected.output
        assert parse_properties(config.read_text(encoding="utf-8"))["super.users"] == "User:admin"
