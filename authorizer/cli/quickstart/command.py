"""``aclog quickstart``: a node on a log with a real broker's ACLs, and a decision that one ACL changes."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.api.errors import AuthorizerNotReadyError, ConfigError
from authorizer.cli.acl_sources.editing_commands import acls_command
from authorizer.cli.check.explanation import explanation_lines
from authorizer.cli.command import Command
from authorizer.cli.command_name import command_words
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.quickstart.spark_jobs import CHANGES, COUNTS, run_spark_beside
from authorizer.cli.rendering.output import MARGIN, say, say_command, step
from authorizer.cli.rendering.terminal import width
from authorizer.cli.sidecar import sidecar_client
from authorizer.cli.signals import ends_on_signals
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    CONSOLE_LISTENERS,
    DESCRIBE_PRINCIPALS,
    LOG_MODE,
    LOG_URL,
    SNAPSHOT_STORE,
)
from records.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import ControlRecord, OtherRecord
from records.principal import ANONYMOUS, KafkaPrincipal
from records.properties import escape_property
from replay.errors import InvariantError

if TYPE_CHECKING:
    from authorizer.configuration.load import Config
    from authorizer.node.node import Node
    from authorizer.sidecar.server import Sidecar
    from records.entries import MetadataRecord

#: A real broker's ``__cluster_metadata-0`` (Kafka 4.3.1), as in tests/data/oracle/logs/kraft-small.
EXAMPLE_LOG: Final = Path(__file__).with_name("example_log")

_PORT: Final = 8180
_PROPERTIES: Final = "quickstart.properties"
_TIMEOUT_S: Final = 30.0

_WHO: Final = KafkaPrincipal("User", "dora")
_HOST: Final = "10.0.0.7"
_TOPIC: Final = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
_GRANT: Final = AclBinding(
    _TOPIC, AccessControlEntry(str(_WHO), "*", AclOperation.READ, AclPermissionType.ALLOW)
)
#: The console needs Describe on the cluster to show everything.
_SEES_ALL: Final = AclBinding(
    ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
    AccessControlEntry(str(ANONYMOUS), "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
)


@click.command("quickstart", cls=Command)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default="aclog-quickstart",
    show_default=True,
    help="Directory of the embedded log and the snapshots; a second run continues with them.",
)
@click.option(
    "--fresh", is_flag=True, help="First delete the files of an earlier quickstart in the directory."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port on 127.0.0.1; 0 for any free one.  [default: {_PORT}, or any if that is taken]",
)
@click.option(
    "--stay/--exit", default=True, show_default=True, help="Continue to serve after the tour, or end."
)
@click.option(
    "--spark/--no-spark",
    default=True,
    show_default=True,
    help="Also run the Spark jobs on the log once, if pyspark and Java are installed.",
)
def quickstart_command(*, directory: Path, fresh: bool, port: int | None, stay: bool, spark: bool) -> None:
    """Run a node, its console and the Spark jobs on an example log.

    Imports a real broker's metadata log into an embedded one, replays it, serves decisions over HTTP, and
    shows with explanations how one ACL changes a decision from DENIED to ALLOWED. It also serves the console.
    Then Spark builds snapshots, counts and the history of the same log. Needs no Kafka. Runs until Ctrl-C.

    Exit code 0: done; 2: wrong usage, such as a port that is in use.

    \b
    Examples:
      aclog quickstart
      aclog quickstart --directory /tmp/aclog --fresh --exit --no-spark
    """
    from authorizer.configuration.log_setup import setup_logging
    from authorizer.node.audit.audit_writer import AuditWriter
    from authorizer.node.node import Node

    if fresh:
        _delete(directory)
    step("1. The log")
    _import_example(directory / "log")
    config = _settings(directory, _PORT if port is None else port)
    output = setup_logging(config.logging_format, "WARNING")
    with ends_on_signals(), ExitStack() as opened:
        step("2. The node")
        audit = opened.enter_context(AuditWriter.configured(config, output))
        node = opened.enter_context(Node.open(config, audit=audit))
        audit.show_to(node.metrics)
        sidecar = opened.enter_context(_open_sidecar(config, directory, port))
        _start(node, sidecar)
        url = sidecar.urls[0]
        _Tour(node, url, ("--log", str(directory / "log"))).run()
        code = _spark(node, directory) if spark else None
        _more(directory, url, made_by_spark=code == 0)
        if stay:
            click.echo(f"\nThe console is at {url}/ in a browser.\nServing on {url} until Ctrl-C.")
            threading.Event().wait()
        if code:
            raise click.exceptions.Exit(code)


def _delete(directory: Path) -> None:
    """Delete only files of a quickstart, so that a mistyped --directory does no harm."""
    if not directory.exists():
        return
    if not (directory / _PROPERTIES).is_file():
        raise click.UsageError(f"--fresh: {directory} was not made by a quickstart; delete it by hand")
    for made in ("log", "snapshots", COUNTS, CHANGES):
        if (directory / made).exists():
            shutil.rmtree(directory / made)
    (directory / _PROPERTIES).unlink()


def _import_example(directory: Path) -> None:
    """Copy the records that aclog understands, batch by batch, with the original times."""
    from records.log.directory import DirectoryLog

    if directory.exists():
        say(f"{directory} is there from an earlier run (--fresh begins anew).")
        return
    began_s = time.perf_counter()
    kinds: Counter[str] = Counter()
    batches: list[tuple[list[MetadataRecord], int | None]] = []
    with DirectoryLog.open(EXAMPLE_LOG) as example:
        position, end = example.start_offset(), example.high_watermark()
        while position < end:
            for batch in example.read(position):
                records: list[MetadataRecord] = [
                    logged.record
                    for logged in batch.records
                    # Without records that only a broker can write.
                    if not isinstance(logged.record, ControlRecord | OtherRecord)
                ]
                kinds.update(type(record).__name__ for record in records)
                if records:
                    batches.append((records, batch.timestamp_ms))
                position = batch.end_offset
    with DirectoryLog.open(directory, mode="create") as log:
        log.append_batches(batches)
    added, removed = kinds["AccessControlEntryRecord"], kinds["RemoveAccessControlEntryRecord"]
    say(
        f"A real broker's metadata log (Kafka 4.3, {end} records) goes into an embedded one: {directory}",
        f"{kinds.total()} records in {len(batches)} atomic batches: {added} ACLs added, {removed} removed, "
        f"{kinds.total() - added - removed} others; {(time.perf_counter() - began_s) * 1000:.0f} ms.",
    )


def _settings(directory: Path, port: int) -> Config:
    """Write a file that other commands can use; its values override the environment here."""
    from authorizer.configuration.load import load_config

    # A plaintext listener does not authenticate its callers.
    values = {
        DESCRIBE_PRINCIPALS: str(ANONYMOUS),
        LOG_URL: f"file:{(directory / 'log').absolute()}",
        SNAPSHOT_STORE: str((directory / "snapshots").absolute()),
        ACLOG_LISTENERS: f"PLAINTEXT://127.0.0.1:{port}",
        CONSOLE_LISTENERS: "*",
    }
    path = directory / _PROPERTIES
    path.write_text(
        "# Made by `aclog quickstart`; other commands take it with --config.\n"
        "# Every caller of the sidecar on this machine may ask about everyone. The console is at `/`.\n"
        + "".join(f"{key}={escape_property(value)}\n" for key, value in values.items()),
        encoding="latin-1",
    )
    return load_config(path, flags={**values, LOG_MODE: "write"})


def _open_sidecar(config: Config, directory: Path, port: int | None) -> Sidecar:
    """Listen on the given port, else on the default port or any free one."""
    from authorizer.console.routes.in_process_console import InProcessConsole
    from authorizer.sidecar.server import Sidecar

    console = InProcessConsole()
    try:
        return Sidecar(config, groups=console)
    except ConfigError as error:
        if port is not None:
            reason = error.__cause__ if isinstance(error.__cause__, OSError) else error
            raise Failure(
                f"--port {port}: cannot listen on 127.0.0.1:{port}: {getattr(reason, 'strerror', reason)}",
                ExitCode.USAGE,
                f"Name another port, 0 for any free one, or none at all: then it is {_PORT}, or any.",
            ) from error
        say(f"Port {_PORT} is taken; any free one will do.")
        return Sidecar(_settings(directory, 0), groups=console)


def _start(node: Node, sidecar: Sidecar) -> None:
    began_s = time.perf_counter()
    node.start()
    if not node.wait_until_ready(_TIMEOUT_S):
        raise AuthorizerNotReadyError(f"not loaded after {_TIMEOUT_S:g} s: {node.status().not_ready_reason}")
    ready_ms = (time.perf_counter() - began_s) * 1000
    sidecar.start(node)
    status = node.status()
    say(
        f"Ready {ready_ms:.0f} ms after its start: {status.acl_count} ACLs in force at end offset "
        f"{status.end_offset}, digest {status.digest}.",
        f"Serving on {sidecar.urls[0]}",
    )


class _Tour:
    """One request, decided before and after an ACL is added."""

    def __init__(self, node: Node, url: str, log_flags: tuple[str, str]) -> None:
        self._node = node
        self._url = url
        self._log_flags = log_flags
        self._context = RequestContext(_WHO, _HOST)
        self._action = Action(AclOperation.READ, _TOPIC)

    def run(self) -> None:
        self._remove_earlier()
        step(f"3. A request: may {_WHO} read the topic {_TOPIC.name}?")
        self._explain()
        step("4. An ACL")
        self._add(_GRANT)
        step("5. The same request")
        self._explain()
        step("6. The same request over HTTP (AuthZEN)")
        self._ask_over_http()
        step("7. The console: who may do what, why, and since when")
        self._add(_SEES_ALL)
        say(f"With that everyone on this machine sees all of it: {self._url}/")

    def _explain(self) -> None:
        explanation = self._node.authorizer.explain(self._context, self._action)
        columns = width()
        narrower = None if columns is None else columns - len(MARGIN)
        for lines in explanation_lines(
            explanation, columns=narrower, commands=[acls_command(self._log_flags)]
        ):
            say(*lines.split("\n"))

    def _remove_earlier(self) -> None:
        """Remove the ACL that an earlier run added."""
        pattern, entry = _GRANT.pattern, _GRANT.entry
        wanted = AclBindingFilter(
            ResourcePatternFilter(pattern.resource_type, pattern.name, pattern.pattern_type),
            AccessControlEntryFilter(entry.principal, entry.host, entry.operation, entry.permission_type),
        )
        (future,) = self._node.authorizer.delete_acls(self._context, [wanted])
        result = future.result(_TIMEOUT_S)
        if result.exception is not None:
            raise result.exception
        if result.acl_binding_delete_results:
            say("The ACL that an earlier run added is removed again.")

    def _add(self, binding: AclBinding) -> None:
        began_s = time.perf_counter()
        (future,) = self._node.authorizer.create_acls(self._context, [binding])
        result = future.result(_TIMEOUT_S)
        if result.exception is not None:
            raise result.exception
        elapsed_ms = (time.perf_counter() - began_s) * 1000
        say(
            f"Added {binding.entry} to {binding.pattern}.",
            f"On disk, replayed and decisive after {elapsed_ms:.1f} ms; end offset "
            f"{self._node.status().end_offset}.",
        )

    def _ask_over_http(self) -> None:
        from authorizer.client.calls import Call

        evaluation = {
            "subject": {"type": _WHO.principal_type, "id": _WHO.name},
            "action": {"name": AclOperation.READ.name},
            "resource": {"type": ResourceType.TOPIC.name, "id": _TOPIC.name},
            "context": {"host": _HOST},
        }
        body = json.dumps(evaluation)
        path = "/access/v1/evaluation"
        say_command("curl", "-s", self._url + path, "-H", "content-type: application/json", "-d", body)
        with sidecar_client(self._url) as client:
            # JSON is not wrapped.
            click.echo(MARGIN + client.ask(Call("POST", path, bytes.decode, body.encode())))


def _spark(node: Node, directory: Path) -> int | None:
    """Run the Spark jobs on the log; returns the exit code, None if they were skipped."""
    from snapshot.digest import digest_to_string
    from snapshot.store.snapshot_store import SnapshotStore

    step("8. The same log through Spark: snapshots, counts and the history")
    code = run_spark_beside(directory / _PROPERTIES)
    if code == 0:
        status = node.status()
        stored = SnapshotStore(str(directory / "snapshots")).survey(node.log.identity)
        newest = [each.manifest for each in stored if each.manifest is not None][-1]
        if digest_to_string(newest.digest) != status.digest:
            raise InvariantError(f"the newest snapshot is not the node's state at {status.end_offset}")
        say("The newest snapshot has the digest of the node's own state: any node may start from it.")
    return code


def _more(directory: Path, url: str, *, made_by_spark: bool) -> None:
    log, config = directory / "log", directory / _PROPERTIES
    step("More")
    say_command("curl", "-s", f"{url}/v1/state")
    say_command("curl", "-s", f"{url}/metrics")
    request = f"--principal {_WHO} --operation Write --topic {_TOPIC.name} --explain"
    _say_aclog("check", "--log", log, *request.split())
    _say_aclog("acls", "--log", log, "--list", "--topic", _TOPIC.name, "--resource-pattern-type", "match")
    _say_aclog("log", "dump", "--log", log, "--from", 80)
    _say_aclog("snapshot", "create", "--config", config)
    if made_by_spark:
        counts, changes = directory / COUNTS, directory / CHANGES
        _say_aclog("snapshot", "list", "--config", config)
        _say_aclog("spark", "snapshots", "--config", config, "--once")
        _say_aclog("spark", "history", "in-force", "--history", changes, "--at-offset", 40)
        _say_aclog("spark", "history", "changes", "--history", changes, "--principal", _WHO)
        _say_aclog(
            *("spark", "counts", "--config", config, "--output", counts, "--once"),
            *("--plot", f"{counts}.png"),
        )


def _say_aclog(*words: object) -> None:
    say_command(*command_words(), *map(str, words))
