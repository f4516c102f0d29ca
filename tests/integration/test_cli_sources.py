"""The options that name ACLs: the same in every command, and the same answer from each source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from snapshot.store.snapshot_store import SnapshotStore
from support.aclog_command import aclog
from support.cli_commands import command_at
from support.nodes import running_node, sidecar_of

QUESTION = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders")
EXPECTED = '[[expect]]\nname = "alice reads"\nallow = ["User:alice"]\noperation = "Read"\ntopic = "orders"\n'
REQUEST = (
    '{"principal": "User:alice", "host": "10.0.0.1", "operation": "Read", "resourceType": "TOPIC", '
    '"resourceName": "orders"}\n'
)
#: What each command is asked here.
COMMANDS = {
    "check": QUESTION,
    "what-can": QUESTION[:2],
    "who-can": QUESTION[2:],
    "lint": (),
    "test": ("access.toml",),
    "report": ("--format", "csv", "--output", "-"),
    "diff": ("acls.txt",),
    "plan": ("changes.jsonl",),
    "review": ("--requests", "authorizer.log", "--limit", "0"),
    "shell": ("ls", "/acl/principal"),
}
#: What these commands can read beside a log.
REFUSALS = {
    "blame": {"--acls": "--history", "--sidecar": "--log"},
    "apply": {"--acls": "--sidecar"},
    "acls": {"--acls": "--sidecar"},
}
SOURCES = ("--log", "--bootstrap-server", "--bootstrap-controller", "--sidecar", "--acls")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, its ACLs as a file, and what the commands read."""
    home = tmp_path_factory.mktemp("sources")
    log = home / "log"
    aclog("log", "create", "--log", log, code=0)
    for effect, who in (("--allow-principal", "User:alice"), ("--deny-principal", "User:mallory")):
        aclog("acls", "--log", log, "--add", effect, who, *QUESTION[2:], code=0)
    # Every caller of the node may list its ACLs.
    list_acls = ("--allow-principal", "User:ANONYMOUS", "--operation", "Describe", "--cluster")
    aclog("acls", "--log", log, "--add", *list_acls, code=0)
    (home / "none.properties").touch()
    (home / "acls.txt").write_text(aclog("acls", "--log", log, "--list").stdout)
    (home / "access.toml").write_text(EXPECTED)
    (home / "queries.jsonl").write_text(REQUEST)
    change = {"acl": "added", "resourceType": "TOPIC", "resourceName": "t", "patternType": "LITERAL"}
    entry = {"principal": "User:bob", "host": "*", "operation": "READ", "permissionType": "ALLOW"}
    (home / "changes.jsonl").write_text(json.dumps(change | entry))
    (home / "authorizer.log").write_text(
        "[2026-11-20 10:00:00,000] DEBUG Principal = User:alice is Allowed operation = READ from host = "
        "10.0.0.1 on resource = Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1 based on "
        "rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=LITERAL, "
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW)) (kafka.authorizer.logger)\n"
    )
    return home


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with running_node(home / "log", log_mode="read") as node, sidecar_of(node) as served:
        yield served


@pytest.mark.parametrize("command", COMMANDS)
def test_every_source_gives_the_same_answer(
    command: str, home: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file has no offsets and a node has its own settings, so lines that name them are not compared."""
    monkeypatch.chdir(home)
    sources = (("--log", "file:log"), ("--acls", "acls.txt"), ("--acls", "file:log"), ("--sidecar", url))
    by_source = {source: aclog(command, *COMMANDS[command], *source) for source in sources}
    assert len({done.exit_code for done in by_source.values()}) == 1, [d.output for d in by_source.values()]
    texts = {source: done.stdout for source, done in by_source.items()}
    for name in (home / "log", *(name for _, name in sources)):
        texts = {source: text.replace(str(name), "SOURCE") for source, text in texts.items()}
    match command:
        case "check":
            assert {text.split()[0] for text in texts.values()} == {"ALLOWED"}
            assert "in SOURCE: User:alice" in texts["--acls", "acls.txt"]
        case "report":
            rows = [
                [line for line in text.splitlines() if line.startswith("access,")] for text in texts.values()
            ]
            assert rows[0]
            assert all(row == rows[0] for row in rows)
        case "lint":
            assert all("DENY User:mallory" in text for text in texts.values())
        case _:
            assert len(set(texts.values())) == 1, texts


@pytest.mark.parametrize("command", [*COMMANDS, *REFUSALS])
def test_every_command_has_every_source(command: str) -> None:
    """With one text; what a command cannot read is not in its help."""
    options = {each.opts[0]: each for each in command_at((command,)).params if isinstance(each, click.Option)}
    of_check = {
        each.opts[0]: each for each in command_at(("check",)).params if isinstance(each, click.Option)
    }
    for flag in SOURCES:
        assert options[flag].help == of_check[flag].help
        assert options[flag].hidden == (flag in REFUSALS.get(command, ()))


@pytest.mark.parametrize(
    ("command", "flag", "instead"),
    [(command, flag, instead) for command, flags in REFUSALS.items() for flag, instead in flags.items()],
)
def test_a_source_that_cannot_answer_is_refused(command: str, flag: str, instead: str, home: Path) -> None:
    file = str(home / "changes.jsonl")
    words = {"apply": (file,), "acls": ("--list",), "blame": QUESTION}[command]
    refused = aclog(command, *words, flag, "http://127.0.0.1:1", code=2).stderr
    assert f"{flag} http://127.0.0.1:1: " in refused
    assert instead in refused.partition("http://127.0.0.1:1: ")[2]


def test_a_file_of_requests_is_decided_by_a_set(home: Path) -> None:
    """It has one state: a request for another one is refused."""
    queries, acls = home / "queries.jsonl", ("--acls", home / "acls.txt")
    by_set = aclog("check", "--batch", queries, *acls, code=0)
    assert by_set.stdout == aclog("check", "--batch", queries, "--log", home / "log", code=0).stdout
    earlier = json.dumps({**json.loads(REQUEST), "logOffset": 0})
    refused = aclog("check", "--batch", "-", *acls, code=4, stdin=earlier)
    assert "no state at offset 0: --acls names one state" in refused.stderr
    assert "LOG@OFFSET" in aclog("check", *QUESTION, *acls, "--at-offset", 0, code=2).stderr


def test_answers_about_a_set_have_no_offsets(home: Path) -> None:
    """An explanation names the set; LOG@OFFSET has offsets as a log has."""
    acls, log = home / "acls.txt", home / "log"
    explained = aclog("check", *QUESTION, "--acls", acls, "--explain", code=0).stdout
    assert explained.startswith(f"ALLOWED by MatchingAcl in {acls}\n")
    assert "offset" not in explained
    assert json.loads(aclog("check", *QUESTION, "--acls", acls, "--json", code=0).stdout)["endOffset"] is None
    first = json.loads(aclog("check", *QUESTION, "--acls", f"{log}@0", "--json", code=0).stdout)
    assert (first["endOffset"], first["acl"]["offset"]) == (1, 0)


def test_diff_takes_its_first_set_by_an_option(home: Path, tmp_path: Path) -> None:
    """Then the argument is the second; three sets, or one, are refused."""
    log, acls = home / "log", home / "acls.txt"
    by_flag = aclog("diff", "--log", log, home / "changes.jsonl")
    assert by_flag.stdout == aclog("diff", log, home / "changes.jsonl").stdout
    aclog("diff", "--log", log, "--as", "4.3", "--as", "4.4", code=0)
    config = tmp_path / "aclog.properties"
    config.write_text(f"aclog.log.url={log}\n")
    assert by_flag.stdout == aclog("diff", home / "changes.jsonl", "--config", config).stdout
    by_release = aclog("diff", acls, "--config", config, "--as", "4.3", "--as", "4.4", code=0)
    assert by_release.stdout.startswith("4.3 ")
    for words in (("--acls", acls), ("--acls", acls, "a", "b"), ("--acls", acls, "--as", "4.3")):
        assert f"name A and B (--acls {acls} is A); or A alone" in aclog("diff", *words, code=2).stderr
    assert "cannot both read stdin" in aclog("diff", "--acls", "-", "-", code=2, stdin="[]").stderr


def test_a_plan_of_a_set_is_shown_and_not_written(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    refused = aclog(
        "plan", home / "changes.jsonl", "--acls", home / "acls.txt", "--output", plan, code=2
    ).stderr
    assert "--log, --bootstrap-server or --sidecar" in " ".join(refused.split())
    assert not plan.exists()


@pytest.mark.parametrize("command", ["check", "what-can", "report", "acls", "apply"])
def test_options_that_a_source_has_no_use_for_are_refused(command: str, home: Path) -> None:
    """Credentials need a node; a node has its own connection and store."""
    words = {**COMMANDS, "acls": ("--list",), "apply": (home / "changes.jsonl",)}[command]
    token, properties = home / "acls.txt", home / "none.properties"
    node = ("--sidecar", "http://127.0.0.1:1")
    if command != "apply":  # reads its plan first
        refused = aclog(command, *words, "--log", home / "log", "--token-file", token, code=2)
        assert "--token-file is for a node: name it with --sidecar" in refused.stderr
        refused = aclog(command, *words, *node, "--command-config", properties, code=2)
        assert "remove --command-config" in refused.stderr
    refused = aclog(command, *words, "--log", home / "log", *node, code=2)
    assert "--log and --sidecar cannot be used together" in refused.stderr


def test_the_printed_next_steps_run_on_the_same_source(home: Path, url: str, tmp_path: Path) -> None:
    """They name the node, and overwrite the plan of an earlier run."""
    changes, plan = tmp_path / "c.jsonl", tmp_path / "c.plan.json"
    lint = ("lint", "--sidecar", url, "--changes", changes)
    first = aclog(*lint).stderr
    assert f"aclog plan {changes} --sidecar {url} --output {plan}\n" in first
    assert f"aclog apply {plan} --sidecar {url}\n" in first
    plan.write_text("{}")
    assert f"--output {plan} --force\n" in aclog(*lint, "--force").stderr
    assert (
        f"aclog plan {changes} --log URL --output"
        in aclog("lint", "--acls", home / "acls.txt", *lint[3:], "--force").stderr
    )


def test_every_command_starts_from_the_snapshots_of_a_store(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As check does; a store that does not exist is refused, and one beside another set, too."""
    monkeypatch.chdir(home)
    store = tmp_path / "store"
    aclog("snapshot", "create", "--log", "log", "--snapshots", store, code=0)
    for command, words in COMMANDS.items():
        with monkeypatch.context() as patch:
            read = Mock(wraps=SnapshotStore.read)
            patch.setattr(SnapshotStore, "read", lambda *args, read=read: read(*args))
            by_store = aclog(command, *words, "--log", "log", "--snapshots", store)
        read.assert_called()
        if command != "report":  # has the time at which it was made
            assert by_store.stdout == aclog(command, *words, "--log", "log").stdout
        missing = aclog(command, *words, "--log", "log", "--snapshots", tmp_path / "none", code=2)
        assert "none" in missing.stderr
        beside = aclog(command, *words, "--acls", "acls.txt", "--snapshots", store, code=2)
        assert "--snapshots is for a log" in beside.stderr
