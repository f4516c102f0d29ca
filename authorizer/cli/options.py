"""Options that several commands share, and the types that parse their values; ``resource_options`` last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

from authorizer.analysis.files.parsing import RESOURCES
from authorizer.api.ip_address import host_address
from authorizer.api.kafka_version import KafkaVersion
from authorizer.cli.invocation import remember
from records.acl import CLUSTER_NAME, AclOperation, PatternType, ResourceType
from records.ids import parse_cluster_id
from records.metadata_version import parse_metadata_version
from records.principal import KafkaPrincipal, parse_kafka_principal

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)")

EXAMPLE_TIME: Final = "2026-11-21T02:33:16Z"
_OPERATIONS: Final = tuple(known.title for known in AclOperation if known > AclOperation.ANY)
_PATTERN_TYPES: Final = {member.name: member for member in PatternType if not member.is_unknown}

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: An option that functions of the command read (``invocation.given``).
remembered_option: Final = partial(click.option, expose_value=False, callback=remember)


def completes(kind: Literal["dir", "file"]) -> Callable[..., list[CompletionItem[str]]]:
    """A ``shell_complete`` of options that accept paths: the shell completes files or directories."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=kind)]

    return complete


def shared(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Combine several options, in the order of --help."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_log_url_option: Final = remembered_option(
    "--log",
    metavar="URL",
    shell_complete=completes("dir"),
    help="The metadata log: a directory (file:DIR or DIR), a topic (kafka://HOST:PORT[,HOST:PORT...]/TOPIC), "
    "a cluster's metadata log by its controllers (kraft://HOST:PORT[,HOST:PORT...]), or polls of its "
    "brokers, stored in DIR (describe://HOST:PORT[,HOST:PORT...][/DIR]).  [default: aclog.log.url of "
    "--config, else the log.dirs of a broker's own file]",
)
#: The log, or the cluster as Kafka's tools name it.
log_option: Final = shared(
    _log_url_option,
    remembered_option(
        "--bootstrap-server",
        metavar="HOST:PORT[,...]",
        help="Instead of --log: the cluster of these brokers, as --log describe://HOST:PORT.",
    ),
    remembered_option(
        "--bootstrap-controller",
        metavar="HOST:PORT[,...]",
        help="Instead of --log: the cluster of these controllers, as --log kraft://HOST:PORT.",
    ),
)
snapshots_option: Final = remembered_option(
    "--snapshots",
    metavar="STORE",
    shell_complete=completes("dir"),
    help="Snapshot store to start from: a path, or a URL of a file system that fsspec supports.  [default: "
    "aclog.snapshot.store of --config, else none]",
)
store_option: Final = remembered_option(
    "--snapshots",
    metavar="STORE",
    shell_complete=completes("dir"),
    help="The snapshot store: a path, or a URL of a file system that fsspec supports.  [default: "
    "aclog.snapshot.store of --config]",
)
RELEASE: Final = click.Choice([version.value for version in KafkaVersion])
release_option: Final = remembered_option(
    "--as",
    metavar="RELEASE",
    type=RELEASE,
    help=f"The Kafka release whose rules apply: one of {', '.join(KafkaVersion)}.  [default: "
    "aclog.kafka.version of --config, else the release of the log's brokers; if neither is known, ALLOWED is "
    "what every release allows]",
)
quiet_option: Final = remembered_option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print no notes and no progress on stderr, only errors.",
)
# With --quiet, because commands that take --config print notes.
command_config_option: Final = remembered_option(
    "--command-config",
    metavar="FILE",
    shell_complete=completes("file"),
    help="The connection to the cluster, as for Kafka's tools: Java's client.properties (security.protocol, "
    "sasl.jaas.config, ssl.truststore.location, ...). With bootstrap.servers it also names the cluster.",
)
config_option: Final = shared(
    remembered_option(
        "--config",
        metavar="FILE",
        shell_complete=completes("file"),
        help="Java properties with Kafka's keys (super.users, ...); a broker's server.properties works "
        "unchanged. aclog.kafka.* are settings of the Kafka client (SASL, TLS). Variables ACLOG_... override "
        "the file, and options override both.",
    ),
    command_config_option,
    quiet_option,
)
end_offset_option: Final = click.option(
    "--end-offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="The snapshot with this end offset, which is its last contained offset + 1.",
)
cluster_id_option: Final = click.option(
    "--cluster-id", metavar="ID", help="A cluster of the store.  [default: the log's, or the only one]"
)
history_cluster_option: Final = click.option(
    "--cluster-id", metavar="ID", help="A cluster of --history.  [default: the only one]"
)
keep_option: Final = click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of complete snapshots of each log to keep.  [default: aclog.snapshot.keep, 3]",
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, on one line.")
raw_cells_option: Final = click.option(
    "--raw-cells",
    is_flag=True,
    help="With CSV: write each text unchanged. By default texts with control characters, and texts that a "
    "spreadsheet would read as formulas, get the prefix '.",
)
progress_option: Final = remembered_option(
    "--progress/--no-progress",
    default=None,
    help="Show progress on stderr.  [default: on a terminal]",
)


def no_operation(text: str) -> str:
    """Error text for an unknown operation: a suggestion, and the list of operations."""
    from difflib import get_close_matches

    # As when parsing: in any case, with or without underscores.
    plain = {name.lower(): name for name in _OPERATIONS}
    meant = get_close_matches(text.lower().replace("_", ""), plain, n=1)
    suggestion = f"did you mean {plain[meant[0]]}? " if meant else ""
    return f"`{text}` is not an operation; {suggestion}they are {', '.join(_OPERATIONS)}"


class Parsed(click.ParamType[Any]):
    """The type of an option whose value ``parse`` makes of its text; a ValueError is the error shown.

    ``choices``: what the shell completes.
    """

    def __init__(self, name: str, parse: Callable[[str], Any], choices: Iterable[str] = ()) -> None:
        self.name = name
        self._parse = parse
        self._choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value  # a default
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        begun = incomplete.lower()
        return [CompletionItem(name) for name in self._choices if name.lower().startswith(begun)]


def _principal(text: str) -> KafkaPrincipal:
    try:
        return parse_kafka_principal(text)
    except ValueError as error:
        raise ValueError(f"{error}, such as User:alice") from error


def _operation(text: str) -> AclOperation:
    """In any case, with or without underscores; refuses Any and Unknown."""
    operation = AclOperation.from_name(text)
    if operation <= AclOperation.ANY:
        raise ValueError(no_operation(text))
    return operation


def _pattern_type(text: str) -> PatternType:
    if text.upper() not in _PATTERN_TYPES:
        raise ValueError(f"`{text}` is not one of {', '.join(_PATTERN_TYPES)}")
    return _PATTERN_TYPES[text.upper()]


def _duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or not int(match[1]):
        raise ValueError(f"`{text}` is not a number above 0 with a unit: 7d, 12h, 30m, 90s or 500ms")
    return int(match[1]) * _UNITS_MS[match[2]]


def _time(text: str) -> datetime:
    """ISO 8601; UTC without another time zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`{text}` is not a time such as {EXAMPLE_TIME}") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _point(text: str) -> int | datetime:
    # All digits are an offset: a time has separators.
    return int(text) if text.isascii() and text.isdigit() else _time(text)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        # The error does not repeat the text, which may be a secret without its key.
        raise ValueError("a setting is KEY=VALUE")
    return key, value


PRINCIPAL: Final = Parsed("TYPE:NAME", _principal)
OPERATION: Final = Parsed("OPERATION", _operation, _OPERATIONS)
PATTERN_TYPE: Final = Parsed("ANY|MATCH|LITERAL|PREFIXED", _pattern_type, _PATTERN_TYPES)
DURATION: Final = Parsed("DURATION", _duration_ms)
TIME: Final = Parsed("TIME", _time)
POINT: Final = Parsed("OFFSET|TIME", _point)
#: A setting in the form of the tools of Kafka and Spark.
PAIR: Final = Parsed("KEY=VALUE", _pair)
#: Of a new cluster; stored ids may have any form.
CLUSTER_ID: Final = Parsed("ID", parse_cluster_id)
METADATA_VERSION: Final = Parsed("VERSION", parse_metadata_version)


def operation_option(*, required: bool = False) -> Callable[[_Command], _Command]:
    """``--operation`` of one request."""
    return click.option(
        "--operation",
        type=OPERATION,
        required=required,
        help="The operation: Read, Write, DescribeConfigs, ... in any case.",
    )


def client_address(host: str) -> str:
    """The address of --host in Java's form; click.BadParameter for a name."""
    try:
        return host_address(host)
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; the broker sees addresses, never names", param_hint="--host"
        ) from error


def offset_option(text: str) -> Callable[[_Command], _Command]:
    """``--at-offset``, with its help."""
    return click.option("--at-offset", type=click.IntRange(min=0), metavar="OFFSET", help=text)


at_offset_option: Final = offset_option(
    "The state after the record at this offset.  [default: at the high watermark]"
)
at_time_option: Final = click.option(
    "--at-time", type=TIME, help=f"The state at this time, such as {EXAMPLE_TIME}."
)


#: Metavar and help by parameter; the cluster has one name, and needs no value.
_NAMED: Final = {
    "topic": ("NAME", "Topic"),
    "group": ("NAME", "Consumer group"),
    "transactional_id": ("ID", "Transactional id"),
    "delegation_token": ("TOKEN", "Delegation token"),
    "user_principal": ("TYPE:NAME", "User as a resource, for CreateTokens and DescribeTokens"),
}


def resource_options(
    *, prefixes: bool = False, wildcard: bool = False, multiple: bool = False
) -> Callable[[_Command], _Command]:
    """``--topic``, ``--group``, ``--cluster`` and so on.

    ``prefixes``: NAME* is a prefix of names; ``wildcard``: * is the wildcard resource.
    """

    def option(parameter: str) -> Callable[[_Command], _Command]:
        if parameter not in _NAMED:
            return click.option(flag_of(parameter), is_flag=True, help="The cluster itself.")
        metavar, noun = _NAMED[parameter]
        names = f"; {metavar}* for all with this prefix" if prefixes else "; '*' for all" if wildcard else ""
        return click.option(
            flag_of(parameter),
            metavar=metavar,
            multiple=multiple,
            help=f"{noun}{names}.{' Repeatable.' if multiple else ''}",
        )

    return shared(*map(option, RESOURCES))


def flag_of(parameter: str) -> str:
    """``--transactional-id``."""
    return f"--{parameter.replace('_', '-')}"


def only_resource(given: Mapping[str, Any]) -> tuple[ResourceType, str]:
    """The type and name of the resource that options name; None, or False for --cluster: not given.

    Raises:
        click.UsageError: the options name no resource or several, or an empty name. Kafka's authorizer
            decides on an empty name, but no broker sends one.
    """
    flags = [flag for flag in RESOURCES if given[flag] not in (None, False)]
    if len(flags) != 1:
        raise click.UsageError(f"Name exactly one resource: {', '.join(map(flag_of, RESOURCES))}.")
    (flag,) = flags
    if given[flag] == "":
        raise click.BadParameter("the name is empty", param_hint=f"'{flag_of(flag)}'")
    return RESOURCES[flag], CLUSTER_NAME if given[flag] is True else given[flag]
