"""Pages, sections, commands and flags in errors, notes and help texts exist."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import click
import pytest

from authorizer.api.errors import ConfigError
from authorizer.cli.failure import failure_of, outcome
from authorizer.cli.invocation import remember, words
from authorizer.cli.main import cli
from records.errors import (
    LogAuthenticationError,
    LogCorruptError,
    LogMissingError,
    LogNotFoundError,
    LogRefusedError,
)
from snapshot.errors import SnapshotMissingError
from support.cli_commands import command_at, every_command

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("records", "snapshot", "replay", "authorizer", "aclog")
PAGE = re.compile(r"\b(docs/[\w.-]+\.md|README\.md|ARCHITECTURE\.md)(?:#([\w-]+))?")
COMMAND = re.compile(r"`aclog ((?:--)?[a-z][^`\n]*)`|^ +aclog ([a-z][^\n]*)$", re.MULTILINE)
ENDS = {"|", "&&", ">", "<", "\\", ";"}


@cache
def texts() -> list[tuple[str, str]]:
    """The place and the text of each message that the program may print; {} replaces inserted values."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts: set[int] = set()
            name = path.relative_to(ROOT)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                where = f"{name}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.JoinedStr):
                    parts.update(map(id, node.values))
                    pieces = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
                    found.append((where, "".join(map(str, pieces))))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                    found.append((where, node.value))
    return found


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub derives from headings."""
    found = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("#").strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
    return found


def test_every_page_and_section_exists() -> None:
    named = [(where, *found) for where, text in texts() for found in PAGE.findall(text)]
    assert len(named) >= 4
    for where, page, anchor in named:
        assert (ROOT / page).is_file(), f"{where}: {page}"
        assert not anchor or anchor in anchors(ROOT / page), f"{where}: {page}#{anchor}"


def option_names(path: tuple[str, ...]) -> set[str]:
    """The options of a command and of its groups."""
    above = [path[:length] for length in range(len(path) + 1)]
    options = {"--help", "-h", "--version"}
    for each in above:
        for param in command_at(each).params:
            if isinstance(param, click.Option):
                options.update(param.opts, param.secondary_opts)
    return options


def test_every_command_and_flag_exists() -> None:
    """Of each command in a text, in quotation marks or on a separate line, like an example."""
    known, tried = set(every_command()), 0
    for where, text in texts():
        for found in COMMAND.finditer(text):
            words = (found[1] or found[2]).split()
            line = next((words[:at] for at, word in enumerate(words) if word in ENDS), words)
            path: tuple[str, ...] = ()
            for word in line:
                if (*path, word) not in known:
                    break
                path = (*path, word)
            if not path and not line[0].startswith("--"):
                assert found[2] is not None, f"{where}: aclog {found[1]}"  # a line of prose
                continue
            tried += 1
            flags = {word.partition("=")[0] for word in line if word.startswith("--")}
            unknown = flags - option_names(path)
            assert not unknown, f"{where}: aclog {' '.join(path)} has no {', '.join(sorted(unknown))}"
    assert tried > 100


@pytest.mark.parametrize(
    ("error", "page"),
    [
        (LogAuthenticationError, "docs/configuration.md#aclogkafka"),
        (LogRefusedError, "docs/how-to/topic-log.md#grant-the-rights"),
    ],
)
def test_authentication_errors_hint_at_settings_and_denials_at_acls(
    error: type[Exception], page: str
) -> None:
    assert page in outcome(error)[1]


@contextmanager
def running(line: str) -> Iterator[None]:
    """Within the command of a line, with its options parsed."""
    with ExitStack() as opened:
        context = opened.enter_context(click.Context(cli, info_name="aclog", **cli.context_settings))
        args = shlex.split(line)
        while isinstance(context.command, click.Group):
            name, command, args = context.command.resolve_command(context, args)
            assert command is not None
            context = opened.enter_context(command.make_context(name, args, parent=context))
        yield


DAMAGED = LogCorruptError("two segments overlap")
NO_TOPIC = LogMissingError("kafka://b:1/x: no such topic", "kafka://b:1/x")
NO_SNAPSHOT = SnapshotMissingError("no snapshot")
BAD_LISTENER = ConfigError("aclog.listeners", "x", "NAME://HOST:PORT")


@pytest.mark.parametrize(
    ("line", "error", "words", "not_words"),
    [
        ("lint --log A", DAMAGED, "`aclog log verify --log A` checks", "DIR"),
        ("diff A B", DAMAGED, "`aclog log verify --log DIR` checks", "verify` "),
        ("lint --acls A", DAMAGED, "`aclog log verify --log DIR` checks", "verify` "),
        ("log verify --log A", DAMAGED, "from another replica", "log verify"),
        ("snapshot verify --snapshots S", NO_SNAPSHOT, "`aclog snapshot list --snapshots S`", "STORE"),
        ("diff A B", NO_SNAPSHOT, "`aclog snapshot list --snapshots STORE`", "list` "),
        ("snapshot list --snapshots S", NO_SNAPSHOT, "", "snapshot list"),
        ("lint --log X", LogMissingError("none", "/x y"), "`aclog log create --log '/x y'`", "config"),
        (
            "lint --command-config C",
            NO_TOPIC,
            "`aclog log create --log kafka://b:1/x --command-config C`",
            "",
        ),
        ("lint --log X", LogNotFoundError("of another cluster"), "", "log create"),
        ("lint --log X", BAD_LISTENER, "in the --config file", "--listener"),
        ("serve --log X", BAD_LISTENER, "or by --listener", "`"),
    ],
)
def test_a_hint_proposes_what_works_there(line: str, error: Exception, words: str, not_words: str) -> None:
    """The complete command, with the options that were given; never the command that has just failed."""
    with running(line):
        hint = failure_of(error).hint
    assert words in hint
    assert not not_words or not_words not in hint


def test_options_with_paths_are_repeated_as_words() -> None:
    """For shlex.join: `aclog plan --token-file FILE` prints the command that applies the plan."""
    option = click.Option(["--token-file"])
    with click.Context(click.Command("plan")) as context:
        remember(context, option, Path("my token"))

        assert shlex.join(words("--token-file")) == "--token-file 'my token'"
