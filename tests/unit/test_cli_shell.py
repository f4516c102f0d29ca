"""`aclog shell`: its tree, its paths, and the output of each command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizer.api.acl_json import acl_json
from authorizer.cli.main import cli
from authorizer.cli.shell.interactive import completed_lines
from authorizer.cli.shell.paths import BadPathError, found, parse_path, shown_name, shown_path, split_words
from authorizer.cli.shell.session import Browser, Entry
from authorizer.cli.shell.tree import Leaf, tree_of
from records.entries import (
    METADATA_VERSION_FEATURE,
    BrokerRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    ScramCredentialRecord,
    SupportedLevels,
    TopicRecord,
)
from records.ids import uuid_to_string
from snapshot.files.kraft_checkpoint import write_checkpoint
from snapshot.image import AclsImage
from support.snapshots import acl, acl_id, image_of, replayed

HOSTILE = [
    "a/b",
    "a b",
    "*",
    "?",
    "{x}",
    "..",
    ".",
    "",
    '""',
    "\\",
    "\\n",
    "a\nb",
    "\x1b[2J",
    "a\u202eb",
    "\u2028",
    "😀é",
]
IMAGE = replayed(
    [
        FeatureLevelRecord(METADATA_VERSION_FEATURE, 30),
        *(acl(n, resource_name=name, principal=f"User:{name}") for n, name in enumerate(HOSTILE)),
        acl(50, resource_name="orders", pattern_type=4, principal="User:alice"),
        acl(51, resource_name="orders", principal="User:alice", resource_type=99, operation=77),
        acl(52, resource_name="orders", principal="User:alice"),
    ],
    epoch=3,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(IMAGE, tmp_path_factory.mktemp("checkpoint"))


def shell(checkpoint: Path, *words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["shell", "--acls", str(checkpoint), *words], input=typed)


def ids(*numbers: int) -> list[str]:
    return sorted(uuid_to_string(acl_id(number)) for number in numbers)


def test_no_name_slows_down_a_pattern() -> None:
    """Any user may choose names. The time limit only ends a run that hangs."""
    program = (
        "from authorizer.cli.shell.paths import parse_path\n"
        "(component,) = parse_path('*a' * 12 + '*b', ())\n"
        "assert component.pattern.fullmatch('a' * 4000) is None\n"
        "assert component.pattern.fullmatch('a' * 12 + 'b\\nb')\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=300, check=False).returncode == 0


def test_acls_are_found_by_id_principal_and_resource(checkpoint: Path) -> None:
    """The same ACL has three paths; a code without a name has its number."""
    by_paths = {
        "/acl/id": [uuid_to_string(found.record.id) for found in IMAGE],
        "/acl/principal/User:alice": ids(50, 51, 52),
        "/acl/resource": ["99", "TOPIC"],
        "/acl/resource/TOPIC/orders": ["LITERAL", "PREFIXED"],
        "/acl/resource/TOPIC/orders/PREFIXED": ids(50),
        "/acl/resource/99/orders/LITERAL": ids(51),
    }
    for path, names in by_paths.items():
        done = shell(checkpoint, "ls", path)
        assert (done.exit_code, done.stdout.splitlines()) == (0, sorted(names)), path
    (one,) = ids(50)
    for path in (
        "/acl/id",
        "/acl/principal/User:alice",
        "/acl/resource/TOPIC/orders/PREFIXED",
        "/image/acls/byId",
    ):
        assert shell(checkpoint, "cat", f"{path}/{one}").stdout == (
            "StandardAcl[resourceType=TOPIC, resourceName=orders, patternType=PREFIXED, "
            "principal=User:alice, host=*, operation=READ, permissionType=ALLOW]\n"
        )
        row = json.loads(shell(checkpoint, "cat", f"{path}/{one}", "--json").stdout)
        assert row == {
            "path": f"{path}/{one}",
            "value": acl_json(acl(50, resource_name="orders", pattern_type=4, principal="User:alice")),
        }
    (other,) = ids(51)
    assert shell(checkpoint, "cat", f"/acl/resource/TOPIC/orders/PREFIXED/{other}").exit_code == 1


def test_each_command_prints_its_output(checkpoint: Path) -> None:
    """The output of kafka-metadata-shell; tests/integration/test_cli_shell.py compares both."""
    for words, lines in (
        (("ls", "/"), ["acl", "cluster", "features", "image", "topics"]),
        (("ls", "/features", "/cluster"), ["features:", "metadata.version", "", "cluster:", "brokers"]),
        (("ls", "/features/*", "/cluster"), ["metadata.version", "", "cluster:", "brokers"]),
        (("cat", "/features/metadata.version"), ["30"]),
        (("tree", "features"), ["metadata.version:", "  30"]),
        (("find", "features"), ["features", "features/metadata.version"]),
        (("find", "/feat{ures,}"), ["/features", "/features/metadata.version"]),
        (("tree", "/image/{features,provenance}"), [
            "metadataVersion:", "  Optional[4.3-IV0]", "offset 19, epoch 3, time 1970-01-01T00:00:19Z[UTC]",
        ]),
        (("pwd",), ["/"]),
    ):  # fmt: skip
        done = shell(checkpoint, *words)
        assert (done.exit_code, done.stdout.splitlines()) == (0, lines), words
    rows = [json.loads(line) for line in shell(checkpoint, "tree", "/features", "--json").stdout.splitlines()]
    assert rows == [
        {"path": "/features", "directory": True},
        {"path": "/features/metadata.version", "value": 30},
    ]


def test_other_metadata_of_the_log_is_shown() -> None:
    """By aclog's names and by Kafka's; a part of a leaf is marked as one, and there is no secret."""
    browser = Browser(
        tree_of(
            replayed(
                [
                    FeatureLevelRecord("kraft.version", 1),
                    BrokerRecord(0, 4, 10, SupportedLevels(7, 30)),
                    BrokerRecord(0, 4, 9, SupportedLevels(7, 99)),
                    TopicRecord(2, 0, acl_id(1), "orders"),
                    ScramCredentialRecord(11, 0, "alice", 2),
                    DelegationTokenRecord(10, 0, "token-1", "User:owner"),
                ]
            )
        )
    )
    topic = uuid_to_string(acl_id(1))
    credential = (
        "ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], "
        "iterations=[redacted])"
    )
    expected = {
        "/cluster/brokers/10": "metadata.version 3.3-IV3 to 4.3-IV0",
        "/cluster/brokers/9": "metadata.version 3.3-IV3 to 99",
        "/features/kraft.version": "1",
        "/topics/orders": topic,
        "/image/cluster/brokers/9": (
            "BrokerRegistration(id=9, ..., supportedFeatures={..., metadata.version: 7-99, ...}, ...)"
        ),
        "/image/delegationToken/token-1": "DelegationTokenDatatokenId=...(owner=User:owner(...",
        "/image/features/finalized_kraft.version": "1",
        "/image/features/metadataVersion": "Optional.empty",
        "/image/scram/SCRAM-SHA-512/alice": credential,
        f"/image/topics/byId/{topic}/id": topic,
        f"/image/topics/byId/{topic}/name": "orders",
        "/image/topics/byName/orders/id": topic,
        "/image/topics/byName/orders/name": "orders",
    }
    for path, text in expected.items():
        (entry,) = browser.entries("cat", [path])
        assert isinstance(entry, Entry), path
        assert list(entry.lines("cat")) == [text]
    assert list(browser.listing(["/cluster/brokers", "/image/scram/SCRAM-SHA-256"], iter)) == [
        "brokers:",
        "10",
        "9",
    ]


def test_errors_are_printed_separately_and_set_the_exit_code(checkpoint: Path) -> None:
    """1: a path does not exist, the others are shown; 2: an unknown command, or an invalid path."""
    for words, out, err, code in (
        (("ls", "/no", "/features"), "metadata.version\n", "ls: /no: no such file or directory.\n", 1),
        (("cat", "/acl"), "", "cat: /acl: Is a directory\n", 1),
        (("cd", "/features/metadata.version"), "", "cd: /features/metadata.version: not a directory.\n", 1),
        (("cd", "/x"), "", "cd: /x: no such directory.\n", 1),
        (("rm", "/acl"), "", "`rm` is not a command", 2),
        (("cat",), "", "cat needs a path", 2),
        (("ls", "/{a"), "", "has no end", 2),
    ):
        done = shell(checkpoint, *words)
        assert (done.exit_code, done.stdout, err in done.stderr) == (code, out, True), done.stderr


def test_a_script_of_commands_on_stdin(checkpoint: Path) -> None:
    """It continues after an error, and ends with exit."""
    done = shell(
        checkpoint,
        typed="cd /acl/principal\n\npwd\ncd User:alice\nls .. nowhere\nnothing\ncd\npwd\nexit\npwd\n",
    )
    first, *names, last = done.stdout.splitlines()
    assert (first, last) == ("/acl/principal", "/")
    assert len(names) == len(HOSTILE) + 1
    assert "ls: nowhere: no such file" in done.stderr
    assert "`nothing` is not a command" in done.stderr


def test_hostile_names_are_shown_safely_and_can_be_typed(checkpoint: Path) -> None:
    """The listing has one line for each name."""
    listed = shell(checkpoint, "ls", "/acl/resource/TOPIC").stdout.splitlines()
    assert len(listed) == len({*HOSTILE}) + 1
    assert all(name.isprintable() for name in listed)
    for number, name in enumerate(HOSTILE):
        done = shell(checkpoint, "ls", f"/acl/resource/TOPIC/{shown_name(name)}/LITERAL")
        assert done.stdout.splitlines() == ids(number), name
    everything = shell(checkpoint, "cat", "/acl/id/*").stdout
    assert len(everything.splitlines()) == len(IMAGE)
    assert everything.replace("\n", "").isprintable()


NAMES = st.text(
    st.sampled_from([*'/\\ *?{}".,n0x', "\n", "\x00", "\u202e", "é", "😀"]) | st.characters(), max_size=6
)


@given(names=st.lists(NAMES, min_size=1, max_size=4))
@settings(max_examples=60)
def test_any_shown_name_can_be_typed(names: list[str]) -> None:
    """As one word, and as a path."""
    path = shown_path(names)
    assert path.isprintable()
    assert split_words(f"ls {path}  x") == ["ls", path, "x"]
    assert [(part.name, part.pattern) for part in parse_path(path)] == [(name, None) for name in names]


@given(typed=st.text(st.sampled_from('/\\*?{},".ax '), max_size=12))
@settings(max_examples=60)
def test_any_typed_path_is_a_path_or_an_error(typed: str) -> None:
    """It leads to nodes of the tree, or to an error with the reason."""
    root = tree_of(image_of(1))
    try:
        components = parse_path(typed, ("acl",))
    except BadPathError:
        return
    for place in found(root, components):
        node = root
        for name in place.names:
            assert not isinstance(node, Leaf)
            below = node.child(name)
            assert below is not None
            node = below  # type: ignore[assignment]


def test_completion_continues_the_typed_text() -> None:
    """Commands, then absolute and relative paths with escapes; for several names their common prefix."""
    browser = Browser(tree_of(IMAGE))
    assert completed_lines(browser, "") == [
        f"{name} " for name in ("ls", "cat", "tree", "find", "cd", "pwd", "help", "exit")
    ]
    assert completed_lines(browser, "c") == ["cat ", "cd "]
    assert completed_lines(browser, "ls /f") == ["ls /features/"]
    assert completed_lines(browser, "cat /features/m") == ["cat /features/metadata.version"]
    assert completed_lines(browser, "cat /acl/principal/User:a\\ ") == ["cat /acl/principal/User:a\\ b/"]
    assert completed_lines(browser, "ls /acl/id/{") == []
    assert browser.cd("/acl") is None
    assert completed_lines(browser, "ls ") == ["ls id/", "ls principal/", "ls resource/"]
    many = Browser(tree_of(image_of(*range(1200))))
    offered = completed_lines(many, "cat /acl/id/")
    assert len(offered) == 1001
    # Tab types only the prefix that all names share.
    everything = sorted(uuid_to_string(acl_id(number)) for number in range(1200))
    assert [offered[0], offered[-1]] == [f"cat /acl/id/{name}" for name in (everything[0], everything[-1])]


def test_an_empty_image_has_empty_directories() -> None:
    browser = Browser(tree_of(AclsImage.EMPTY))
    for path in (
        "/acl/id",
        "/acl/principal",
        "/acl/resource",
        "/features",
        "/cluster/brokers",
        "/image/acls/byId",
    ):
        assert list(browser.entries("ls", [path])) == []
