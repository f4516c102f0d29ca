"""`aclog check --sidecar`, and the other commands that ask a node: as on its log, by any listener."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from authorizer.sidecar.server import Sidecar
from records.acl import AclOperation
from records.principal import KafkaPrincipal
from support.certificates import Authority
from support.data import real_log
from support.kafka_broker import free_ports
from support.node_acls import acl, on_cluster, topic_acl
from support.nodes import SOON_S, create, running_node, sidecar_of

SMALL = real_log("kraft-small")
AUTHORITY = Authority("CN=Test CA")
ALLOWED = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders")
DENIED = ("--principal", "User:dora", "--operation", "Read", "--topic", "orders")
TOKEN, STORED = new_token(KafkaPrincipal("User", "gateway"))


def aclog(*args: object, stdin: str | None = None, **env: str) -> Result:
    return CliRunner(env=env).invoke(cli, [str(arg) for arg in args], input=stdin)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real broker's records, without its checkpoints: those have no offsets of ACLs."""
    copy = tmp_path_factory.mktemp("log") / "__cluster_metadata-0"
    return Path(shutil.copytree(SMALL, copy, ignore=shutil.ignore_patterns("*.checkpoint")))


@pytest.fixture(scope="module")
def url(log: Path) -> Iterator[str]:
    """A sidecar of that log, whose callers may ask about everyone and list nothing."""
    with (
        running_node(log, log_mode="read", describe_principals="User:ANONYMOUS") as node,
        sidecar_of(node) as served,
    ):
        yield served


@pytest.mark.parametrize("more", [(), ("--json",), ("--explain", "--json"), ("--explain",)], ids=" ".join)
@pytest.mark.parametrize("question", [ALLOWED, DENIED], ids=["allowed", "denied"])
def test_one_request_is_answered_as_on_the_log(
    url: str, log: Path, question: tuple[str, ...], more: tuple[str, ...]
) -> None:
    """The same text, JSON and exit code, but for names in ACLs of others: who may not list sees none."""
    of_log = aclog("check", "--log", log, *question, *more)
    of_node = aclog("check", "--sidecar", url, *question, *more)
    assert of_node.exit_code == of_log.exit_code == (question is DENIED)
    assert without_names(of_node.stdout) == without_names(of_log.stdout)
    if more == ("--explain",):
        assert "Near misses with other principals are not shown" in of_node.stdout


def without_names(stdout: str) -> object:
    if stdout.startswith("{"):
        shown = json.loads(stdout)
        notes = [each for each in shown["notes"] if "no ACL names" not in each]
        return {**shown, "nearMisses": None, "nearMissesOfOthers": None, "notes": notes}
    names = ("ear miss", "would have to be", "no ACL names")
    return [line for line in stdout.splitlines() if not any(each in line for each in names)]


@pytest.mark.parametrize("more", [("--explain", "--json"), ("--explain",)], ids=" ".join)
def test_who_may_list_sees_near_misses_as_on_the_log(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Also those of other principals; only the command that would allow it goes through the node."""
    with running_node(tmp_path / "log", log_mode="create") as node, sidecar_of(node) as served:
        create(node, [topic_acl("t"), acl("User:b", AclOperation.WRITE, "t")])
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        question = ("--principal", "User:a", "--operation", "Write", "--topic", "t", *more)
        of_log = aclog("check", "--log", tmp_path / "log", *question)
        of_node = aclog("check", "--sidecar", served, *question)
    assert "User:b" in of_node.stdout
    assert of_node.stdout.replace(f"--sidecar {served}", f"--log {tmp_path / 'log'}") == of_log.stdout


def test_a_file_of_requests_is_answered_as_on_the_log(url: str, log: Path) -> None:
    """Every kind except listings, in order; an invalid line has an error."""
    lines = [
        {"principal": "User:alice", "host": "10.0.0.1", "operation": "READ"},
        {"principal": "User:dora", "host": "::1", "operation": "WRITE"},
        {"kind": "authorizedOperations", "principal": "User:alice", "host": "10.0.0.1"},
        {"principal": "nobody", "host": "10.0.0.1", "operation": "READ"},
        {"principal": "User:alice", "host": "10.0.0.1", "operation": "READ", "patternType": "PREFIXED"},
    ]
    queries = [{**line, "resourceType": "TOPIC", "resourceName": "orders"} for line in lines]
    queries.append({"kind": "aclCount"})
    queries.append({**queries[0], "kind": "authorizeByResourceType"})
    text = "\n".join(map(json.dumps, queries))
    of_log = aclog("check", "--log", log, "--batch", "-", stdin=text)
    of_node = aclog("check", "--sidecar", url, "--batch", "-", stdin=text)
    assert (of_node.stdout, of_node.exit_code) == (of_log.stdout, 0)
    audited = json.dumps({**queries[0], "audit": True})
    bad = aclog("check", "--sidecar", url, "--batch", "-", stdin=f"{audited}\n{text}")
    assert (bad.exit_code, bad.stdout.partition("\n")[2]) == (4, of_log.stdout)
    assert "without the line of its audit log" in bad.stderr


def test_an_earlier_state_is_queried_by_its_offset(tmp_path: Path) -> None:
    """--at-offset names the last record that counts, for a log and for a node; a node holds some."""
    with (
        running_node(tmp_path / "log", log_mode="create", describe_principals="User:ANONYMOUS") as node,
        sidecar_of(node) as served,
    ):
        create(node, [topic_acl("other")])
        create(node, [topic_acl("t")])
        question = ("--principal", "User:a", "--operation", "Read", "--topic", "t", "--at-offset")
        for offset, code in ((0, 1), (1, 0)):
            of_log = aclog("check", "--log", tmp_path / "log", *question, offset)
            of_node = aclog("check", "--sidecar", served, *question, offset)
            assert (of_node.stdout, of_node.exit_code) == (of_log.stdout, of_log.exit_code)
            assert of_node.exit_code == code, of_node.output
        line = {"principal": "User:a", "host": "1.1.1.1", "operation": "READ", "resourceType": "TOPIC"}
        requests = [
            {**line, "resourceName": "t", "logOffset": 0},
            {**line, "resourceName": "t", "atOffset": 2},
        ]
        lines = aclog(
            "check", "--sidecar", served, "--batch", "-", stdin="\n".join(map(json.dumps, requests))
        )
        assert [json.loads(each)["result"] for each in lines.stdout.splitlines()] == ["DENIED", "ALLOWED"]
    with (
        running_node(tmp_path / "log", describe_principals="User:ANONYMOUS") as node,
        sidecar_of(node) as served,
    ):
        dropped = aclog("check", "--sidecar", served, *question, 0)
        assert (dropped.exit_code, "is not held here" in dropped.stderr) == (2, True)
        lines = aclog("check", "--sidecar", served, "--batch", "-", stdin=json.dumps(requests[0]))
        assert (lines.exit_code, "is not held here" in lines.stdout) == (4, True)


def test_a_caller_without_the_right_gets_an_error_not_denied(tmp_path: Path) -> None:
    """Exit code 2, and nothing on stdout: 1 is a decision."""
    with running_node(tmp_path / "log", log_mode="create") as node, sidecar_of(node) as served:
        refused = aclog("check", "--sidecar", served, *ALLOWED)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "may ask about itself only" in refused.stderr
        line = json.dumps({"principal": "User:b", "host": "1.1.1.1", "operation": "READ"})
        line = line[:-1] + ', "resourceType": "TOPIC", "resourceName": "t"}'
        batch = aclog("check", "--sidecar", served, "--batch", "-", stdin=line)
        assert (batch.exit_code, batch.stdout) == (2, "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--log", "x", "--sidecar", "http://127.0.0.1:1", *ALLOWED), "--log and --sidecar cannot be used"),
        (
            ("--config", "x", "--sidecar", "http://127.0.0.1:1", *ALLOWED),
            "--sidecar cannot be used with --log",
        ),
        (("--log", "x", "--ca-file", __file__, *ALLOWED), "--ca-file is for a node"),
        (
            ("--sidecar", "http://127.0.0.1:1", "--batch", "-", "--records", "x"),
            "cannot be used with --sidecar",
        ),
        (("--sidecar", "https://localhost:1", "--ca-file", __file__, *ALLOWED), "certificate"),
    ],
)
def test_contradicting_flags_are_refused(args: tuple[str, ...], message: str) -> None:
    refused = aclog("check", *args)
    assert (refused.exit_code, message in refused.stderr) == (2, True), refused.output


def test_an_address_without_a_server_is_reported() -> None:
    """Exit code 3 without a wait, for any request."""
    (free,) = free_ports(1)
    for args in (("check", "--sidecar", f"http://127.0.0.1:{free}", *ALLOWED), verify(free)):
        refused = aclog(*args)
        assert refused.exit_code == 3, refused.output
        assert "Connection refused" in refused.stderr
        assert "Is `aclog serve` running" in refused.stderr


def verify(port: int) -> tuple[object, ...]:
    return "log", "verify", "--log", SMALL, "--with", f"http://127.0.0.1:{port}"


@contextmanager
def guarded(tmp_path: Path) -> Iterator[Sidecar]:
    """Mutual TLS and a token, and a Unix socket that wants a token; ACLs that gateway may list."""
    TOKENS_FILE.put(tmp_path / "tokens", STORED)
    (tmp_path / "authorities.pem").write_text(AUTHORITY.pem)
    flags = {
        "aclog.log.url": str(SMALL),
        "aclog.log.mode": "read",
        "aclog.auth.tokens.file": str(tmp_path / "tokens"),
        "aclog.listeners": f"SSL://localhost:0,LOCAL://{tmp_path}/sidecar.sock",
        "aclog.auth.required.listeners": "SSL,LOCAL",
        "aclog.describe.principals": "User:gateway",
        "ssl.keystore.location": str(AUTHORITY.issue("CN=localhost").write(tmp_path / "server.pem")),
        "ssl.truststore.location": str(tmp_path / "authorities.pem"),
        "ssl.client.auth": "required",
    }
    config = load_config(environ={}, flags=flags)
    with Sidecar(config) as sidecar, Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        sidecar.start(node)
        yield sidecar


def test_every_command_authenticates_in_the_same_way(tmp_path: Path) -> None:
    """--token-file or ACLOG_SIDECAR_TOKEN, --ca-file, --certificate-file; over TLS and a Unix socket."""
    token, client = tmp_path / "token", AUTHORITY.issue("CN=proxy").write(tmp_path / "client.pem")
    token.write_text(TOKEN)
    tls = ("--ca-file", tmp_path / "authorities.pem", "--certificate-file", client)
    with guarded(tmp_path) as sidecar:
        over_tls, socket = sidecar.urls[0], f"unix:{tmp_path}/sidecar.sock"
        # Each with its way to name the node, and its exit code.
        commands: list[tuple[tuple[object, ...], str, int]] = [
            (("check", *ALLOWED), "--sidecar", 0),
            (("acls", "--list"), "--sidecar", 1),
            (("log", "verify", "--log", SMALL), "--with", 0),
        ]
        for words, flag, code in commands:
            done = aclog(*words, flag, over_tls, *tls, "--token-file", token)
            assert done.exit_code == code, done.output
            done = aclog(*words, flag, socket, ACLOG_SIDECAR_TOKEN=TOKEN)
            assert done.exit_code == code, done.output
            untrusted = aclog(*words, flag, over_tls, "--token-file", token)
            assert (untrusted.exit_code, "certificate verify failed" in untrusted.stderr) == (3, True)
        wrong = aclog("check", *ALLOWED, "--sidecar", socket, ACLOG_SIDECAR_TOKEN=f"{TOKEN[:-3]}AAA")
        assert (wrong.exit_code, "not known here" in wrong.stderr) == (2, True)
