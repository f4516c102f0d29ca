"""Flags that several commands share, and the types that turn text into Kafka's vocabulary."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from records.acl import AclOperation, PatternType
from records.principal import KafkaPrincipal, parse_kafka_principal

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)")

_Command = TypeVar("_Command", bound=Callable[..., Any])

log_option: Final = click.option(
    "--log",
    "log_url",
    metavar="URL",
    help="The metadata log: file:DIR, the directory itself, or kafka://HOST:PORT[,HOST:PORT...]/TOPIC.  "
    "[default: aclog.log.url of --config]",
)
snapshots_option: Final = click.option(
    "--snapshots",
    "snapshots_url",
    metavar="STORE",
    help="Snapshot store to start from: a path, or a URL that fsspec has a file system for.  [default: "
    "aclog.snapshot.store of --config, else none]",
)
store_option: Final = click.option(
    "--snapshots",
    "snapshots_url",
    metavar="STORE",
    help="The snapshot store: a path, or a URL that fsspec has a file system for.  [default: "
    "aclog.snapshot.store of --config]",
)
config_option: Final = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Java properties with Kafka's keys (super.users, ...); a broker's server.properties will do. "
    "aclog.kafka.* are settings of the Kafka client (SASL, TLS). Environment ACLOG_... is over the file, "
    "flags are over both.",
)
at_offset_option: Final = click.option(
    "--at-offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="The state after the record at this offset.  [default: at the high watermark]",
)
end_offset_option: Final = click.option(
    "--end-offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="The snapshot that ends there: its last contained offset + 1.",
)
cluster_id_option: Final = click.option(
    "--cluster-id", metavar="ID", help="Which cluster of the store.  [default: the log's, or the only one]"
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, on one line.")
progress_option: Final = click.option(
    "--progress/--no-progress",
    "progress",
    default=None,
    help="Show on stderr how far the work is.  [default: on a terminal]",
)


def shared(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Several options in the order in which --help lists them."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class _PrincipalType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    name = "TYPE:NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> KafkaPrincipal:
        if isinstance(value, KafkaPrincipal):
            return value
        try:
            return parse_kafka_principal(value)
        except ValueError as error:
            self.fail(f"{error}, such as User:alice", param, ctx)


class _OperationType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """Any case, with or without underscores; what nobody can do (Any, Unknown) is refused."""

    name = "OPERATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AclOperation:
        if isinstance(value, AclOperation):
            return value
        operation = AclOperation.from_name(value)
        if operation <= AclOperation.ANY:
            names = ", ".join(known.title for known in AclOperation if known > AclOperation.ANY)
            self.fail(f"`{value}` is not an operation; they are {names}", param, ctx)
        return operation


class _PatternTypeType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    name = "ANY|MATCH|LITERAL|PREFIXED"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PatternType:
        if isinstance(value, PatternType):
            return value
        known = {member.name: member for member in PatternType if not member.is_unknown}
        if value.upper() not in known:
            self.fail(f"`{value}` is none of {', '.join(known)}", param, ctx)
        return known[value.upper()]


class _DurationType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """Milliseconds, from a number and its unit."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DURATION.fullmatch(value.strip().lower())
        if match is None or not int(match[1]):
            self.fail(
                f"`{value}` is not a number above 0 with a unit: 7d, 12h, 30m, 90s or 500ms", param, ctx
            )
        return int(match[1]) * _UNITS_MS[match[2]]


PRINCIPAL: Final = _PrincipalType()
OPERATION: Final = _OperationType()
PATTERN_TYPE: Final = _PatternTypeType()
DURATION: Final = _DurationType()
