"""Tour: one request, decided before and after an ACL is added."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.cli.acl_sources.acl_source import acls_command
from authorizer.cli.check.explanation import explanation_lines
from authorizer.cli.command_name import command_words
from authorizer.cli.quickstart.directory import CHANGES, COUNTS, LOG, PROPERTIES
from authorizer.cli.rendering.output import MARGIN, say, say_command, step
from authorizer.cli.rendering.terminal import width
from authorizer.cli.sidecar import sidecar_client
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
from records.install_command import install_command
from records.principal import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    from authorizer.node.node import Node

_TIMEOUT_S: Final = 30.0
_IMPORTED_S: Final = time.perf_counter()

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


class Tour:
    """The steps from the first request on, on a running node."""

    def __init__(self, node: Node, url: str, directory: Path) -> None:
        self._node = node
        self._url = url
        self._directory = directory
        self._context = RequestContext(_WHO, _HOST)
        self._action = Action(AclOperation.READ, _TOPIC)

    def run(self) -> None:
        self._remove_earlier()
        step(f"3. A request: may {_WHO} read the topic {_TOPIC.name}?")
        self._explain()
        say(f"Decided {_process_age_s():.2f} s after the start of this command.")
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
        commands = [acls_command(("--log", str(self._directory / LOG)))]
        for lines in explanation_lines(explanation, columns=narrower, commands=commands):
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


def say_commands(directory: Path, url: str, *, has_snapshots: bool) -> None:
    """Print commands about the node and its log, to paste."""
    log, config = directory / LOG, directory / PROPERTIES
    step("More")
    say_command("curl", "-s", f"{url}/v1/state")
    say_command("curl", "-s", f"{url}/metrics")
    request = f"--principal {_WHO} --operation Write --topic {_TOPIC.name} --explain"
    _say_aclog("check", "--log", log, *request.split())
    _say_aclog("acls", "--log", log, "--list", "--topic", _TOPIC.name, "--resource-pattern-type", "match")
    _say_aclog("log", "dump", "--log", log, "--from", 80)
    if has_snapshots:
        _say_aclog("snapshot", "create", "--config", config)
    else:
        say(f"A snapshot store needs pyarrow: {install_command('snapshots')}")


def say_spark_commands(directory: Path) -> None:
    """Print commands about what the Spark jobs wrote, to paste."""
    config, counts, changes = (directory / name for name in (PROPERTIES, COUNTS, CHANGES))
    _say_aclog("snapshot", "list", "--config", config)
    _say_aclog("spark", "history", "in-force", "--history", changes, "--at-offset", 40)
    _say_aclog("spark", "history", "changes", "--history", changes, "--principal", _WHO)
    _say_aclog(
        *("spark", "counts", "--config", config, "--output", counts, "--once", "--plot", f"{counts}.png")
    )


def say_cluster_commands() -> None:
    """Print the first commands about the reader's own cluster."""
    step("Your cluster, with the client.properties that Kafka's own tools take")
    connection = "--bootstrap-server BROKER:9093 --command-config client.properties"
    request = f"--principal User:NAME --operation Read --topic {_TOPIC.name}"
    _say_aclog("connect", *connection.split())
    _say_aclog("check", "--config", "aclog.properties", *request.split(), "--explain")
    _say_aclog("what-can", "--config", "aclog.properties", "--principal", "User:NAME")


def _say_aclog(*words: object) -> None:
    say_command(*command_words(), *map(str, words))


def _process_age_s() -> float:
    """Seconds since this process was started; where the system does not tell, since the imports."""
    try:
        fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return time.perf_counter() - _IMPORTED_S
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
