"""A table of mistakes at the command line: each has a pinned exit code, and words that point the way out.

A row belongs to the list of its subject. To add one: the command line as typed in the directory that ``home``
makes, the exit code, words that the output must have, and words that it must not have.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from support.data import real_log

ALICE = "check --log file:./acls --principal User:alice --operation Read"
CHECK = "check --principal User:alice --operation Read --topic orders"
ON = "check --principal User:a --operation Read --topic t --log"
SERVER = "check --bootstrap-server 127.0.0.1:1 --principal User:a --operation Read --topic t"
READ = "check --log file:./acls --operation Read --topic orders"

BROKER = f"check --log {real_log('kraft-small')} --principal User:dora --operation Read"


class Mistake(NamedTuple):
    """One row.

    Attributes:
        command: what was typed after ``aclog``, in the shell's quoting.
        code: the exit code.
        words: all of these are in the output: stdout and stderr.
        not_words: none of these is.
        stdin: what the command reads; ``<&-`` starts it as a process with stdin closed.
    """

    command: str
    code: int
    words: tuple[str, ...]
    not_words: tuple[str, ...] = ()
    stdin: str = ""


#: Requests that are answered, and probably not the ones that were meant.
REQUESTS: list[Mistake] = [
    Mistake(f"{READ} --principal alice", 2, ("principalType:principalName", "User:alice")),
    Mistake(
        f"{READ} --principal user:alice",
        1,
        (
            "no ACL names user:alice, and principals are case-sensitive; did you mean User:alice?",
            "DENIED by DefaultDeny at end offset 2: user:alice READ on TOPIC:LITERAL:orders from 127.0.0.1",
        ),
    ),
    Mistake(f"{READ} --principal User:Alice", 1, ("case-sensitive; did you mean User:alice?",)),
    Mistake(f"{READ} --principal user:zed", 1, ("case-sensitive; did you mean User:zed?",)),
    Mistake(f"{READ} --principal User:alcie", 1, ("no ACL names User:alcie; did you mean User:alice?",)),
    Mistake(f"{READ} --principal ServiceAccount:alice", 1, ("did you mean User:alice?",)),
    Mistake(f"{READ} --principal User:zed", 1, ("no ACL names User:zed\n",), ("did you mean",)),
    Mistake(
        f"{READ} --principal 'User:*'",
        1,
        ("no client has the principal User:*", "name one, such as User:alice"),
        ("did you mean",),
    ),
    Mistake(
        f"{READ} --principal User:alcie --json",
        1,
        ('"notes":["no ACL names User:alcie; did you mean User:alice?"]',),
    ),
    Mistake(
        f"{READ} --principal User:alcie --explain",
        1,
        ("  note        no ACL names User:alcie; did you mean User:alice?",),
        ("note: no ACL",),
    ),
    Mistake(f"{READ} --principal User:alcie --quiet", 1, ("DENIED",), ("did you mean",)),
    Mistake(f"{ALICE} --topic orders", 0, ("ALLOWED",), ("note:",)),
    Mistake(f"{ALICE} --topic order", 1, ("no ACL names topic order; did you mean orders?",)),
    Mistake(f"{ALICE} --topic Orders", 1, ("no ACL names topic Orders; did you mean orders?",)),
    Mistake(f"{ALICE} --topic payments", 1, ("DENIED",), ("note:",)),  # `*` covers it
    Mistake(
        f"{ALICE} --topic 'orders*'",
        1,
        ("orders* is taken as the name of one topic", "`aclog who-can` answers for all with a prefix"),
        ("did you mean",),
    ),
    Mistake(f"{ALICE} --topic '*'", 1, ("* is taken as the name of one topic",)),
    Mistake(f"{ALICE} --topic 'my orders'", 1, ("no topic can have the name my orders",)),
    Mistake(f"{ALICE} --group 'app*'", 1, ("app* is taken as the name of one group",)),
    Mistake(f"{ALICE} --group app", 1, ("no ACL names group app\n",)),
    Mistake(
        f"{ALICE} --topic orders --at-offset 0",
        0,
        ("at end offset 1, after the record at offset 0: User:alice READ on TOPIC:LITERAL:orders",),
    ),
    Mistake(
        f"{ALICE} --topic orders --at-offset 0 --explain",
        0,
        ("ALLOWED by MatchingAcl at end offset 1, after the record at offset 0\n",),
    ),
    Mistake(f"{BROKER} --topic order", 1, ("the log has no topic order; did you mean orders?",)),
    Mistake(f"{BROKER} --topic zebra", 1, ("the log has no topic zebra\n",)),
    Mistake(f"{BROKER} --topic orders --at-offset 0", 1, ("there are no ACLs in this state",)),
    Mistake(
        "check --log file:./acls --principal User:alice --operation Reed --topic orders",
        2,
        ("`Reed` is not an operation", "did you mean Read?"),
    ),
    Mistake(f"{ALICE} --topic orders --host broker.example.com", 2, ("is not an IP address",)),
    Mistake(ALICE, 2, ("exactly one resource",)),
    Mistake(f"{ALICE} --topic orders --at-offset 2", 2, ("no state at offset 2",)),
    # A file of requests: one note for all lines with the name.
    Mistake(
        "check --log file:./acls --batch -",
        0,
        (
            "note: no ACL names User:alcie; did you mean User:alice?\n",
            "note: no ACL names topic order; did you mean orders?\n",
            '"result":"DENIED"',
        ),
        ("User:zed",),
        stdin="".join(
            f'{{"principal":"User:{name}","host":"::1","operation":"READ","resourceType":"TOPIC",'
            f'"resourceName":"{topic}"}}\n'
            for name, topic in (("alcie", "orders"), ("alcie", "order"), ("zed", "payments"))
        ),
    ),
    Mistake(
        "what-can --log file:./acls --principal User:alcie",
        1,
        ("no ACL names User:alcie; did you mean User:alice?", "no such request is allowed"),
    ),
    Mistake("what-can --log file:./acls --principal 'User:*'", 1, ("no such request",), ("no ACL names",)),
    Mistake(
        "who-can --log file:./acls --operation Read --topic order",
        1,
        ("no ACL names topic order; did you mean orders?",),
    ),
    Mistake("who-can --log file:./acls --operation Read --topic 'order*'", 0, ("User:alice",), ("note:",)),
]

#: Files and variables with settings.
SETTINGS: list[Mistake] = [
    Mistake(
        f"{ALICE} --topic orders --config no-type.conf",
        2,
        ("no-type.conf line 2: invalid value `admin` for `super.users`", "User:admin"),
    ),
    Mistake(
        f"{ALICE} --topic orders --config near-key.conf",
        2,
        ("near-key.conf line 1: invalid", "there is no such key; did you mean `super.users`?"),
    ),
    Mistake(
        f"{ALICE} --topic orders --config short-key.conf",
        2,
        ("short-key.conf line 3", "`allow.everyone`: there is", "`allow.everyone.if.no.acl.found`?"),
    ),
    Mistake(
        f"{ALICE} --topic orders --config prefix.conf",
        2,
        ("prefix.conf line 1", "`aclog.super.users`: there is no such key; did you mean `super.users`?"),
    ),
    # A broker ignores the key and reads the value so: the answer is the broker's.
    Mistake(
        f"{ALICE} --topic orders --config broker.conf",
        0,
        (
            "note: broker.conf line 2: the broker ignores the key `super.user`; did you mean `super.users`?",
            "note: broker.conf line 3: allow.everyone.if.no.acl.found=maybe is false, as in Kafka",
            "ALLOWED",
        ),
    ),
    Mistake(
        f"{ALICE} --topic orders --config acls.json",
        0,
        ("note: acls.json: none of its keys is a setting of aclog or of a broker",),
    ),
    Mistake(
        f"{ALICE} --topic orders --config random.bin",
        2,
        ("random.bin", "it is not a text, line 1 has the byte 0x00"),
    ),
    Mistake(
        f"{ALICE} --topic orders --command-config random.bin",
        2,
        ("random.bin", "it is not a text, line 1 has the byte 0x00"),
    ),
    Mistake(f"{ALICE} --topic orders --config junk", 2, ("`junk` for `--config`", "Is a directory")),
    Mistake(f"{ALICE} --topic orders --config escape.conf", 2, ("escape.conf", "line 2 has a \\u without")),
    Mistake(
        f"{ALICE} --topic orders --config bad-value.conf",
        2,
        ("bad-value.conf line 2: invalid value `soon` for `aclog.max.lag.ms`", "a whole number"),
    ),
    Mistake(f"{ALICE} --topic orders --config missing.conf", 2, ("missing.conf", "No such file")),
]

#: Paths and URLs of logs that are none.
LOGS: list[Mistake] = [
    Mistake(f"{ON} ./nowhere", 2, ("nowhere",)),
    Mistake(
        f"{ON} ./empty",
        2,
        ("/empty: empty, there are no segments such as 00000000000000000000.log",),
        ("broker",),
    ),
    Mistake(
        f"{ON} ./junk",
        2,
        ("/junk: not a log: it holds notes.txt, but no segments such as 0000", "__cluster_metadata-0"),
        ("broker's directory", "`aclog log create"),
    ),
    Mistake(f"{ON} ./app", 2, ("/app: not a log: it holds server.log, but no segments",)),
    Mistake(
        f"{ON} file:/etc",
        2,
        ("/etc: not a log: it holds ", " more, but no segments"),
        ("broker's directory",),
    ),
    Mistake(f"{ON} ./broker", 2, ("did you mean ", "/broker/__cluster_metadata-0?")),
    Mistake(f"{ON} ./broker.conf", 2, ("broker.conf: Not a directory",)),
    Mistake(f"{ON} ./segment", 4, ("00000000000000000000.log, byte 0",), ("broker's directory",)),
    Mistake("lint --log ./empty", 2, ("empty has neither a snapshot nor a log's segments",)),
    Mistake("lint --log ./broker", 2, ("broker has neither a snapshot nor a log's segments",)),
    Mistake("diff /etc acls", 2, ("/etc has neither a snapshot nor a log's segments",), ("--cluster-id",)),
    Mistake("acls --add --topic t --allow-principal User:a --log junk", 2, ("it holds notes.txt",)),
    Mistake("serve --log ./junk --port 0", 2, ("it holds notes.txt",)),
]

#: Clusters and their client.properties, without a cluster.
CONNECTIONS: list[Mistake] = [
    Mistake(
        "check --log file:./acls --bootstrap-server localhost:9092 --principal User:a --operation Read "
        "--topic t",
        2,
        ("cannot be used together", "each names a source of ACLs"),
    ),
    Mistake(
        f"{SERVER} --command-config gssapi.properties",
        2,
        ("gssapi.properties line 2: invalid value `GSSAPI` for `sasl.mechanism`", "SCRAM-SHA-512"),
    ),
    Mistake(
        f"{SERVER} --command-config no-login.properties", 2, ("sasl.mechanism=PLAIN needs a login module",)
    ),
    Mistake(
        f"{SERVER} --command-config typo.properties",
        2,
        ("typo.properties line 3", "`securityprotocol`", "did you mean `security.protocol`?"),
    ),
    Mistake(
        f"{SERVER} --command-config no-store.properties", 2, ("no-store.properties line 2", "/nowhere.jks")
    ),
    Mistake(f"{SERVER} --command-config missing.properties", 2, ("missing.properties", "No such file")),
    # Without its prefix a client's setting would be ignored, and the connection be in the clear.
    Mistake(
        f"{ALICE} --topic orders --config gssapi.properties",
        2,
        ("gssapi.properties line 1", "give Kafka's own file with --command-config"),
    ),
    Mistake(SERVER, 3, ("127.0.0.1:1: cannot connect",), ("DENIED", "aclog log create")),
    Mistake(
        "lint --bootstrap-server localhost",
        2,
        ("`localhost` is not HOST:PORT", "--bootstrap-server HOST:PORT"),
    ),
    Mistake("lint --bootstrap-server localhost:99999", 2, ("there is no port 99999",)),
    Mistake("connect --bootstrap-server 127.0.0.1:1", 3, ("cannot connect",), ("Wrote",)),
]

#: Plans that cannot be carried out.
PLANS: list[Mistake] = [
    Mistake("apply random.bin --log file:./acls", 4, ("random.bin",)),
    Mistake("apply wanted.txt --log file:./acls", 4, ("not a plan", "`aclog plan FILE --output PLAN`")),
    Mistake(
        "apply a.plan --log file:./other",
        1,
        ("created for another log", "nothing was written", "aclog plan FILE --log file:./other"),
        ("applied",),
    ),
    Mistake("plan random.bin --log file:./acls", 4, ("random.bin",), ("to apply the plan",)),
    Mistake(
        "plan empty.txt --all --log file:./acls --output new.json",
        2,
        ("the plan would remove all", "--allow-empty"),
        ("wrote",),
    ),
    Mistake("plan nowhere.txt --log file:./acls", 2, ("nowhere.txt: No such file",)),
]

#: Options that contradict each other, or that are given twice.
FLAGS: list[Mistake] = [
    Mistake(f"{ALICE} --topic orders --principal User:bob", 2, ("'--principal' takes one value", "2 times")),
    Mistake(f"{ALICE} --topic orders --topic payments", 2, ("'--topic' takes one value",)),
    Mistake(f"{ALICE} --topic orders --progress --no-progress", 2, ("'--progress' takes one value",)),
    Mistake(f"{ALICE} --topic orders --acls file:./acls", 2, ("--log and --acls cannot be used together",)),
    Mistake(
        "lint --sidecar http://127.0.0.1:1 --acls file:./acls", 2, ("--sidecar and --acls cannot be used",)
    ),
    Mistake(
        "what-can --principal User:alice --log file:./acls --csv --json",
        2,
        ("--json and --csv cannot be used together",),
        ("User:alice",),
    ),
    Mistake(
        "report --log file:./acls --output report.pdf",
        2,
        ("would be HTML", "name it *.html"),
        ("wrote",),
    ),
    Mistake(
        "report --log file:./acls --format csv --output report.json", 2, ("would be CSV", "name it *.csv")
    ),
    Mistake(
        "snapshot export --log file:./acls --format csv --output acls.avro", 2, ("would be CSV", "acls.avro")
    ),
    Mistake("snapshot export --log file:./acls --format csv --json", 2, ("name it with --output",)),
    Mistake("report --log file:./acls --output no-type.conf", 2, ("no-type.conf exists", "--force")),
    Mistake("plan no-type.conf --log file:./acls --output no-type.conf", 2, ("exists", "--force")),
    Mistake("lint --log file:./acls --junit no-type.conf", 2, ("exists", "--force")),
    Mistake("snapshot export --log file:./acls --format csv --output no-type.conf", 2, ("exists", "--force")),
    Mistake("connect --log file:./acls --output no-type.conf", 2, ("exists", "--force")),
    Mistake("blame --acls random.bin --id x", 2, ("has no history", "--log")),
    Mistake("apply random.bin --acls file:./acls", 2, ("is applied to a log", "--sidecar")),
    Mistake("plan random.bin --acls file:./acls --output p.json", 2, ("--output writes a plan for a log",)),
    Mistake("diff --acls file:./acls", 2, ("--acls file:./acls is A",)),
]

#: What an error, a note or a hint proposes as the next step.
HINTS: list[Mistake] = [
    Mistake("whocan --log file:./acls", 2, ("No such command 'whocan'", "who-can")),
    Mistake("help", 0, ("Usage: ", "who-can", "quickstart"), ("No such command",)),
    Mistake("--debug help check", 0, ("Decide whether a principal may do an operation", "--batch")),
    Mistake("help log create", 0, ("Create an empty log", "--replication-factor")),
    Mistake("log help", 0, ("Create, dump, append to, copy or verify", "verify")),
    Mistake("help nosuch", 2, ("No such command 'nosuch'",)),
    Mistake(f"{CHECK} --log junk", 2, ("not a log", "notes.txt", "__cluster_metadata-0"), ("log create",)),
    Mistake(f"{CHECK} --log files:./acls", 2, ("did you mean file:./acls?",), ("log create",)),
    Mistake(f"{CHECK} --log kafka:b:9092/acls", 2, ("did you mean kafka://b:9092/acls?",), ("log create",)),
    Mistake(
        f"{CHECK} --log localhost:9092",
        2,
        ("--bootstrap-server localhost:9092", "kafka://", "kraft://", "describe://localhost:9092"),
        ("log create",),
    ),
    Mistake(f"{CHECK} --log b1:9092,b2:9092/t", 2, ("--bootstrap-server b1:9092,b2:9092 ",), ("log create",)),
    Mistake(f"{CHECK} --log '~/acls'", 2, ("only a shell replaces ~",), ("log create",)),
    Mistake(f"{CHECK} --log ./nowhere", 2, ("no such directory", "aclog log create --log ", "/nowhere`")),
    Mistake(f"{CHECK} --bootstrap-server localhost", 2, ("--bootstrap-server HOST:PORT",), ("describe://",)),
    Mistake("log create --log localhost:9092", 2, ("kafka://HOST:PORT/TOPIC",), ("--bootstrap-server",)),
    Mistake("log create --log files:./new", 2, ("file:DIR",), ("created",)),
    Mistake("log create --log junk", 2, ("not empty and not a log", "notes.txt"), ("`aclog log create",)),
    Mistake("diff files:./acls acls", 2, ("did you mean file:./acls?",)),
    Mistake("diff localhost:9092 acls", 2, ("describe://localhost:9092",)),
    Mistake(
        f"{CHECK} --log damaged", 4, ("CRC-32C", "`aclog log verify --log damaged` checks"), ("--log DIR",)
    ),
    Mistake("log verify --log damaged", 4, ("CRC-32C", "from another replica"), ("log verify --log",)),
    Mistake("diff damaged acls", 4, ("CRC-32C", "`aclog log verify --log DIR` checks")),
    Mistake("check --log acls --batch cut.gz", 4, ("cut.gz: not complete gzip",), ("log verify", "DENY")),
    # A broker's directory: only the cluster changes it, and what is committed is not known.
    Mistake(
        f"{CHECK.replace('Read', 'Write')} --log copied --explain",
        1,
        ("whether the changes of ACLs from offset 0 on", "kafka-acls --bootstrap-server HOST:PORT --add"),
        ("localhost:9092", "aclog acls"),
    ),
    Mistake(
        f"{CHECK.replace('Read', 'Write')} --log acls --explain",
        1,
        ("aclog acls --log acls --add --allow-principal",),
        ("kafka-acls", "are committed"),
    ),
    Mistake(
        "acls --log copied --add --topic t --allow-principal User:a",
        2,
        ("`aclog acls --log kraft://HOST:PORT`", "`aclog log create --log DIR`"),
        ("`aclog log create`",),
    ),
    Mistake("plan a.plan --log acls", 2, ("a.plan is a plan already", "`aclog apply`"), ("KIP-11",)),
    Mistake("apply old.plan --log acls", 1, ("`aclog plan FILE --log acls --output PLAN`",)),
    Mistake("check --log acls --batch two.jsonl", 4, ("Error: line 1: ", "no field 'operation'")),
    Mistake("diff x.checkpoint acls", 4, ("x.checkpoint", "aclog diff --help"), ("snapshot verify",)),
    Mistake("log append --log describe://b:1 random.bin", 2, ("only its controllers append",)),
]

#: Findings of lint that are not defects.
LINT: list[Mistake] = [
    Mistake(
        "lint --log file:./acls",
        0,
        ("information, no defect", "a guard against future ALLOWs", "clean: no defects"),
        ("--remove",),
    ),
    Mistake("lint --log file:./acls --strict", 1, ("idle-deny", "--remove --deny-principal User:mallory")),
]

SUBJECTS = {
    "requests": REQUESTS,
    "settings": SETTINGS,
    "logs": LOGS,
    "connections": CONNECTIONS,
    "plans": PLANS,
    "flags": FLAGS,
    "hints": HINTS,
    "lint": LINT,
}
#: Text files of the rows.
FILES = {
    "empty.txt": "",
    "gssapi.properties": "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n",
    "no-login.properties": "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n",
    "no-store.properties": "security.protocol=SSL\nssl.truststore.location=/nowhere.jks\n",
    "typo.properties": "# connection\n\nsecurityprotocol=SSL\n",
    "acls.json": '{"acls": []}\n',
    "bad-value.conf": "super.users=User:admin\naclog.max.lag.ms=soon\n",
    "broker.conf": "process.roles=broker\nsuper.user=User:admin\nallow.everyone.if.no.acl.found=maybe\n",
    "escape.conf": "super.users=User:admin\nssl.client.auth=\\u12\n",
    "near-key.conf": "super.user=User:admin\n",
    "no-type.conf": "# administrators\nsuper.users=admin\n",
    "prefix.conf": "aclog.super.users=User:admin\n",
    "short-key.conf": "super.users=User:\\\n  admin\nallow.everyone=maybe\n",
}
#: No mistake of a user may print these.
NEVER = ("Traceback", "Error: a defect in aclog")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's log, and the files of the rows."""
    home = tmp_path_factory.mktemp("mistakes")
    acls = f"acls --log file:{home}/acls --add"
    for command in (
        f"log create --log file:{home}/acls",
        f"{acls} --allow-principal User:alice --operation Read --topic orders",
        f"{acls} --deny-principal User:mallory --operation All --topic '*'",
    ):
        assert CliRunner().invoke(cli, shlex.split(command)).exit_code == 0
    (home / "empty").mkdir()
    (home / "junk").mkdir()
    (home / "junk" / "notes.txt").write_text("call Bob\n")
    (home / "app").mkdir()
    (home / "app" / "server.log").write_text("started\n")
    (home / "broker" / "__cluster_metadata-0").mkdir(parents=True)
    (home / "segment").mkdir()
    (home / "segment" / "00000000000000000000.log").write_text("hello\n")
    (home / "two.jsonl").write_text('{"principal": "User:a"}\n{\n')
    (home / "wanted.txt").write_text("--add --allow-principal User:a --topic t\n")
    for command in (
        f"plan {home}/wanted.txt --log file:{home}/acls --output {home}/a.plan",
        f"log create --log file:{home}/other",
        f"plan {home}/wanted.txt --log file:{home}/other --output {home}/old.plan",
    ):
        assert CliRunner().invoke(cli, shlex.split(command)).exit_code < 2, command
    shutil.copytree(home / "acls", home / "copied")
    (home / "copied" / "aclog.properties").unlink()
    (home / "x.checkpoint").write_bytes(b"")
    (home / "cut.gz").write_bytes(b"\x1f\x8bcut")
    shutil.copytree(home / "acls", home / "damaged")
    segment = next((home / "damaged").glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    (home / "random.bin").write_bytes(bytes(range(256)) * 8)
    for name, text in FILES.items():
        (home / name).write_text(text)
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the template, as the working directory."""
    copy = tmp_path / "home"
    shutil.copytree(template, copy)
    # Bytes that no batch begins with may be being written for a moment; then they are damage.
    (copy / "segment" / "00000000000000000000.log").touch()
    monkeypatch.chdir(copy)
    return copy


def run(mistake: Mistake) -> tuple[int, str]:
    """The exit code and the output of a row's command."""
    args = shlex.split(mistake.command)
    if mistake.stdin == "<&-":
        command = f"{shlex.join([sys.executable, '-m', 'authorizer.cli', *args])} 2>&1 <&-"
        done = subprocess.run(
            ["/bin/sh", "-c", command], stdout=subprocess.PIPE, timeout=60, check=False, text=True
        )
        return done.returncode, done.stdout
    result = CliRunner().invoke(cli, args, input=mistake.stdin)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(mistake, id=f"{subject}: {mistake.command} {mistake.stdin}".strip())
        for subject, mistakes in SUBJECTS.items()
        for mistake in mistakes
    ],
)
def test_a_mistake_is_pointed_out(mistake: Mistake, home: Path) -> None:
    code, output = run(mistake)

    assert code == mistake.code, output
    for words in mistake.words:
        assert words in output
    for words in (*mistake.not_words, *NEVER):
        assert words not in output


def test_no_row_is_listed_twice() -> None:
    listed = [(each.command, each.stdin) for mistakes in SUBJECTS.values() for each in mistakes]
    assert len(listed) == len(set(listed))
