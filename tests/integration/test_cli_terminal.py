"""The command line before a person: colours, width, hints to paste, the Tab key; and plain for a program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from authorizer.cli.rendering.output import Waiting
from support.data import real_log
from support.terminal import on_terminal

ROOT = Path(__file__).resolve().parents[2]
SMALL = real_log("kraft-small")
ACLOG = [sys.executable, "-m", "authorizer.cli"]
QUESTION = ["check", "--log", str(SMALL), "--operation", "Read", "--topic", "orders", "--principal"]
RED, GREEN, YELLOW = "\x1b[31m", "\x1b[32m", "\x1b[33m"


def aclog(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Through a pipe, as a program runs it."""
    surroundings = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")
    }
    return subprocess.run(
        [*ACLOG, *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=surroundings | (env or {}),
        check=False,
    )


@pytest.fixture
def own_log(tmp_path: Path) -> Path:
    """An empty aclog-managed log, in a directory whose name needs quotes."""
    log = tmp_path / "my log"
    assert CliRunner().invoke(cli, ["log", "create", "--log", str(log)]).exit_code == 0
    return log


# -- colour and width -------------------------------------------------------------------------------------


def test_a_terminal_gets_colours() -> None:
    """ALLOWED is green and DENIED is red; a note is marked."""
    code, allowed = on_terminal([*ACLOG, *QUESTION, "User:alice"])
    assert (code, f"{GREEN}\x1b[1mALLOWED\x1b[0m" in allowed) == (0, True)
    assert f"{YELLOW}note:" in allowed
    code, denied = on_terminal([*ACLOG, *QUESTION, "User:dora", "--explain"])
    assert (code, f"{RED}\x1b[1mDENIED\x1b[0m" in denied) == (1, True)


def test_an_error_is_coloured() -> None:
    code, output = on_terminal([*ACLOG, "log", "verify", "--log", "/no/such/log"])
    assert code == 2
    assert f"{RED}\x1b[1mError:\x1b[0m /no/such/log" in output


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_disables_colours(env: dict[str, str]) -> None:
    """Who does not want them gets none."""
    _, output = on_terminal([*ACLOG, *QUESTION, "User:dora", "--explain"], env=env)
    assert "DENIED by DefaultDeny" in output
    assert "\x1b[3" not in output
    assert "\x1b[1m" not in output


def test_a_pipe_gets_colours_only_on_request() -> None:
    """On neither stream; FORCE_COLOR is for a pager that knows them."""
    done = aclog(*QUESTION, "User:dora", "--explain")
    assert "\x1b" not in done.stdout + done.stderr
    forced = aclog(*QUESTION, "User:dora", "--explain", env={"FORCE_COLOR": "1"})
    assert click.unstyle(forced.stdout) == done.stdout != forced.stdout


def test_an_explanation_fits_the_screen() -> None:
    """Lines break between words at 80 columns; joined again they are those of a pipe."""
    _, output = on_terminal([*ACLOG, *QUESTION, "User:dora", "--explain", "--quiet"])
    lines = click.unstyle(output).splitlines()
    assert max(map(len, lines)) <= 80
    plain = aclog(*QUESTION, "User:dora", "--explain").stdout
    assert max(map(len, plain.splitlines())) > 80
    assert click.unstyle(output).replace("\\\n", "").split() == plain.split()


def test_a_table_fits_the_screen(tmp_path: Path) -> None:
    """Nothing of a snapshot is cut off."""
    args = ["--log", str(SMALL), "--snapshots", str(tmp_path)]
    assert CliRunner().invoke(cli, ["snapshot", "create", *args]).exit_code == 0
    _, output = on_terminal([*ACLOG, "snapshot", "list", "--snapshots", str(tmp_path)])
    assert max(map(len, click.unstyle(output).splitlines())) <= 80
    (row,) = json.loads(aclog("snapshot", "list", "--snapshots", str(tmp_path), "--json").stdout)["snapshots"]
    assert {row["digest"], row["clusterId"]} <= set(output.split())
    assert f"{GREEN}\x1b[1mcomplete" in output


# -- notes and progress -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["check", "--operation", "Read", "--topic", "orders", "--principal", "User:alice", "--explain"],
        ["acls", "--list"],
        ["log", "verify"],
    ],
    ids=lambda args: args[0],
)
def test_an_uncertain_end_is_reported_once(args: list[str], tmp_path: Path) -> None:
    """That a broker's directory does not say what is committed; --quiet says nothing beside the answer."""
    copy = shutil.copytree(SMALL, tmp_path / "log", ignore=shutil.ignore_patterns("*.checkpoint"))
    args += ["--log", str(copy)]
    done, quiet = aclog(*args), aclog(*args, "--quiet")
    assert (done.stdout + done.stderr).count("guess") + done.stderr.count("does not say whether") == 1
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, done.stdout, "")


def test_quiet_prints_errors() -> None:
    done = aclog("log", "verify", "--quiet", "--log", "/no/such/log")
    assert (done.returncode, done.stderr.split()[0]) == (2, "Error:")


def test_progress_is_shown_after_one_second() -> None:
    """What takes long says for how long, and leaves no trace; what is quick says nothing."""
    code = (
        "import time; from authorizer.cli.rendering.output import Waiting\n"
        "with Waiting('quick'): pass\n"
        "with Waiting('storing'): time.sleep(1.5)\n"
        "print('done')\n"
    )
    _, output = on_terminal([sys.executable, "-c", code])
    assert "quick" not in output
    assert "storing ... 1 s\r\x1b[Kdone" in output


def test_progress_is_not_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting("storing"):
        time.sleep(0.01)  # what is waited for
    assert capsys.readouterr() == ("", "")


# -- hints ------------------------------------------------------------------------------------------------


def pasted(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_the_fix_can_be_pasted(own_log: Path) -> None:
    """From a terminal, where it is broken into lines: it makes the ALLOWED of a DENIED."""
    question = ["check", "--log", own_log.name, "--principal", "User:al ice", "--operation", "Read"]
    question += ["--topic", "my topic"]
    ask = f"cd '{own_log.parent}' && exec \"$@\""
    code, output = on_terminal(["bash", "-c", ask, "bash", *ACLOG, *question, "--explain"])
    assert code == 1
    # No broker reads this log.
    assert "kafka-acls" not in output
    fix = output.partition("to allow it ")[2]
    assert "\\\n" in fix
    added = pasted(fix, own_log.parent)
    assert (added.returncode, added.stderr) == (0, "")
    again = subprocess.run([*ACLOG, *question], cwd=own_log.parent, capture_output=True, check=False)
    assert again.returncode == 0


def test_the_fix_for_a_brokers_log_is_only_kafkas() -> None:
    """aclog cannot write there: its command would not run."""
    output = aclog(*QUESTION, "User:dora", "--explain").stdout
    assert "to allow it kafka-acls --bootstrap-server HOST:PORT --add" in output
    assert " acls " not in output


@pytest.mark.parametrize(
    ("damage", "command"),
    [
        ("log", ["check", "--log", "my log", "--principal", "User:a", "--operation", "Read", "--topic", "t"]),
        ("store", ["snapshot", "export", "--snapshots", "my store", "--format", "csv", "--end-offset", "99"]),
        ("none", ["log", "dump", "--log", "no log"]),
    ],
)
def test_hints_of_errors_can_be_pasted(damage: str, command: Sequence[str], own_log: Path) -> None:
    """Each command in an error runs where the error was met, on the log and store that it named."""
    home = own_log.parent
    add = ["acls", "--log", str(own_log), "--add", "--allow-principal", "User:a", "--topic", "t"]
    store = ["snapshot", "create", "--log", str(own_log), "--snapshots", str(home / "my store")]
    for words in (add, store):
        assert CliRunner().invoke(cli, words).exit_code == 0
    if damage == "log":
        segment = own_log / "00000000000000000000.log"
        data = bytearray(segment.read_bytes())
        data[-1] ^= 1
        segment.write_bytes(data)
    failed = subprocess.run([*ACLOG, *command], cwd=home, capture_output=True, text=True, check=False)
    assert failed.returncode in (2, 4)
    hints = re.findall(r"`([^`]*authorizer\.cli [^`]*)`", failed.stderr)
    assert hints, failed.stderr
    for hint in hints:
        tried = pasted(hint, home)
        assert "Usage:" not in tried.stderr
        assert tried.returncode == (4 if damage == "log" else 0), tried.stderr


def test_the_copy_command_of_the_error_works(tmp_path: Path) -> None:
    """acls --add is refused there; the commands that it names make a log that can be written."""
    refused = aclog("acls", "--add", "--log", str(SMALL), "--allow-principal", "User:a", "--topic", "t")
    assert refused.returncode == 2
    command = re.search(r"`(.*)` copies it into an aclog-managed log", refused.stderr)
    assert command is not None
    assert pasted(command[1], tmp_path).returncode == 0
    log = str(tmp_path / "NEW_DIRECTORY")
    again = aclog("acls", "--add", "--log", log, "--allow-principal", "User:a", "--topic", "t")
    assert (again.returncode, again.stderr) == (0, "")


def test_usage_names_the_command_as_it_was_started() -> None:
    """`Try '... --help'` is a command to paste, too."""
    done = aclog("check", "--nope")
    hint = re.search(r"Try '(.*)' for help", done.stderr)
    assert hint is not None
    assert pasted(hint[1], ROOT).stdout.startswith(f"Usage: {sys.executable} -m authorizer.cli check")


def test_examples_name_the_command_as_it_was_started() -> None:
    """In the help of every depth; the program itself is still called aclog."""
    for words, example in (
        ([], "quickstart"),
        (["check"], "check --log DIR"),
        (["spark", "history", "changes"], "spark history changes --history DIR"),
    ):
        help_text = aclog(*words, "--help").stdout
        assert f"\n    {sys.executable} -m authorizer.cli {example}" in help_text
        assert "    aclog " not in help_text
    assert aclog("--version").stdout.startswith("aclog ")


# -- what is mistyped -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("chk", "'check'"),
        ("snapshots list", "'snapshot'"),
        ("log verif", "'verify'"),
        ("spark history in-fource", "'in-force'"),
        ("check --topik t", "'--topic'"),
        ("acls --alow-principal User:a", "'--allow-principal'"),
    ],
)
def test_a_mistyped_command_or_flag_gets_a_suggestion(command: str, meant: str) -> None:
    refused = CliRunner().invoke(cli, command.split())
    assert refused.exit_code == 2
    assert re.search(rf"Did you mean( one of:)? .*{meant}", refused.stderr)


def test_a_mistyped_operation_gets_a_suggestion() -> None:
    """It is named, with what was meant and what there is."""
    args = ["--log", str(SMALL), "--principal", "User:a", "--topic", "t", "--operation"]
    refused = CliRunner().invoke(cli, ["check", *args, "Describe_Config"])
    assert refused.exit_code == 2
    assert "`Describe_Config` is not an operation; did you mean DescribeConfigs?" in refused.stderr


def test_a_refused_operation_is_named(own_log: Path) -> None:
    """kafka-acls' words, and then the one of several that it is about."""
    args = ["acls", "--log", str(own_log), "--add", "--allow-principal", "User:a", "--topic", "t"]
    refused = CliRunner().invoke(cli, [*args, "--operation", "Read", "--operation", "Clean"])
    assert refused.exit_code == 2
    assert refused.stderr.rstrip().endswith("ALTER_CONFIGS], not Clean")


@pytest.mark.parametrize(
    "flag", ["--topic", "--group", "--transactional-id", "--delegation-token", "--user-principal"]
)
def test_an_empty_name_is_wrong_usage(flag: str) -> None:
    """A variable of a script was empty; DENIED would hide that."""
    args = ["check", "--log", str(SMALL), "--principal", "User:a", "--operation", "Describe", flag, ""]
    refused = CliRunner().invoke(cli, args)
    assert refused.exit_code == 2
    assert f"'{flag}': the name is empty" in refused.stderr


def test_an_unsupported_operation_has_a_remark_and_no_fix() -> None:
    """The answer is Kafka's; stderr and JSON note that no broker sends such a request."""
    args = ["check", "--log", str(SMALL), "--principal", "User:a", "--group", "g", "--operation"]
    remark = (
        "no broker asks for Alter on GROUP, only for Read, Delete, Describe, DescribeConfigs, AlterConfigs"
    )
    output = CliRunner().invoke(cli, [*args, "Alter"])
    assert (output.exit_code, output.stdout.split()[0]) == (1, "DENIED")
    assert f"note: {remark}" in output.stderr
    assert json.loads(CliRunner().invoke(cli, [*args, "Alter", "--json"]).stdout)["remark"] == remark
    usual = CliRunner().invoke(cli, [*args, "Read", "--json"])
    assert (json.loads(usual.stdout)["remark"], "no broker" in usual.stderr) == (None, False)


# -- the Tab key ------------------------------------------------------------------------------------------

COMPLETIONS = [
    ("sn", {"snapshot"}),
    ("log ver", {"verify"}),
    ("check --to", {"--topic", "--token-file"}),
    ("check --operation des", {"Describe", "DescribeConfigs", "DescribeTokens"}),
    ("acls --operation alter", {"Alter", "AlterConfigs"}),
    ("acls --resource-pattern-type p", {"PREFIXED"}),
    ("snapshot export --format c", {"checkpoint", "csv"}),
    ("completion z", {"zsh"}),
]


@pytest.mark.parametrize(
    ("line", "expected"), COMPLETIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_completions_are_listed(line: str, expected: set[str]) -> None:
    """Commands, flags and values, in any case."""
    env = {
        "_ACLOG_COMPLETE": "bash_complete",
        "COMP_WORDS": f"aclog {line}",
        "COMP_CWORD": str(len(line.split())),
    }
    done = aclog(env=env)
    assert {text.partition(",")[2] for text in done.stdout.splitlines()} == expected


def test_completion_imports_no_command() -> None:
    """Each Tab starts aclog anew: what needs no command's module loads none."""
    code = (
        "import sys; from authorizer.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted(name for name in sys.modules if name in "
        "('authorizer.cli.check.command', 'authorizer.cli.log.dump', 'numpy', 'pyarrow', 'msgspec')))\n"
    )
    env = os.environ | {"_ACLOG_COMPLETE": "bash_complete", "COMP_WORDS": "aclog ", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    *completions, imported = done.stdout.splitlines()
    assert {"plain,check", "plain,log", "plain,completion"} <= set(completions)
    assert imported == "[]"


def test_resource_types_are_completed() -> None:
    env = {
        "_ACLOG_COMPLETE": "bash_complete",
        "COMP_WORDS": "aclog spark history in-force --resource-type ",
        "COMP_CWORD": "5",
    }
    assert {"plain,topic", "plain,cluster", "plain,transactional_id"} <= set(aclog(env=env).stdout.split())


def test_bash_completes_after_the_install(tmp_path: Path) -> None:
    """By its own Tab: the script is where bash-completion looks, and completes `.venv/bin/aclog` as well."""
    script = Path(sys.executable).with_name("aclog")
    assert script.exists()
    env = os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": ""}
    installed = subprocess.run(
        [script, "completion", "bash", "--install"], env=env, capture_output=True, check=True
    )
    assert b"source " in installed.stdout
    file = tmp_path / ".local/share/bash-completion/completions/aclog"
    code = (
        f"source {file}; complete -p aclog\n"
        f"COMP_WORDS=({script} check --operation tw); COMP_CWORD=3\n"
        f"_aclog_completion {script}; echo ${{COMPREPLY[@]}}\n"
    )
    done = subprocess.run(["bash", "--norc", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["complete -o nosort -F _aclog_completion aclog", "TwoPhaseCommit"]


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".local/share/bash-completion/completions/aclog"),
        ("zsh", ".local/share/zsh/site-functions/_aclog"),
        ("fish", ".config/fish/completions/aclog.fish"),
    ],
)
def test_each_shell_has_a_completion_script(shell: str, file: str, tmp_path: Path) -> None:
    """Printed as it is installed; a shell that is on this machine can read it."""
    runner = CliRunner(env={"HOME": str(tmp_path), "XDG_DATA_HOME": None, "XDG_CONFIG_HOME": None})
    printed = runner.invoke(cli, ["completion", shell])
    assert printed.exit_code == 0
    assert runner.invoke(cli, ["completion", shell, "--install"]).exit_code == 0
    assert (tmp_path / file).read_text() == printed.stdout
    assert "_ACLOG_COMPLETE" in printed.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(tmp_path / file)], capture_output=True, check=True)


# -- the shell --------------------------------------------------------------------------------------------


def test_the_shell_has_completion_and_history(tmp_path: Path) -> None:
    """Tab goes on with commands and names; the arrow up has what was typed, also the next time."""
    shell = [*ACLOG, "shell", "--log", str(SMALL), "--quiet"]
    env = {"TERM": "xterm", "INPUTRC": os.devnull, "XDG_STATE_HOME": str(tmp_path)}
    typed = ["ca\t/feat\tmeta\t\n", "ls /image\n", "nothing\n", "\x04"]
    code, output = on_terminal(shell, columns=60, env=env, prompt=">> ", typed=typed)
    assert code == 0, output
    assert ">> cat /features/metadata.version\n30\n" in output
    assert (
        ">> ls /image\nacls     delegationToken  provenance  topics\ncluster  features         scram\n"
        in output
    )
    assert "`nothing` is not a command" in output
    history = tmp_path / "aclog" / "shell_history"
    assert history.read_text(encoding="utf-8").splitlines()[-1] == "nothing"
    code, output = on_terminal(shell, env=env, prompt=">> ", typed=["\x1b[A\x1b[A\x1b[A\n", "exit\n"])
    assert (code, "metadata.version\n30\n" in output) == (0, True), output
