"""``aclog connect``: how a cluster can be followed with the rights at hand, and the configuration for it."""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.api.errors import ConfigError
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG, parse_super_users
from authorizer.cli.command import Command
from authorizer.cli.invocation import is_quiet
from authorizer.cli.options import command_config_option, completes, json_option, log_option, quiet_option
from authorizer.cli.output_file import OutputFile, output_file
from authorizer.cli.rendering.output import Waiting, answer, note, print_json, say_command, shown
from authorizer.cli.workspace import Workspace, load_state
from authorizer.configuration.keys.names import COMMAND_CONFIG, LOG_URL
from records.errors import LogError
from records.log.open import open_log
from records.log.url import DIRECTORY, POLLED, QUORUM, TOPIC, kind_of, polled_servers
from records.properties import escape_property

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from authorizer.configuration.load import Config

_STORE: Final = "/aclog-acls"
#: Settings that brokers do not tell, with what to type for them.
_BROKER_KEYS: Final = {
    SUPER_USERS_CONFIG: "such as User:admin;User:ops, or none",
    ALLOW_EVERYONE_CONFIG: "true or false",
}
_EXAMPLE: Final = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders", "--explain")
#: What a way to follow a cluster gives.
_WAYS: Final = {
    DIRECTORY: "reads the log of this machine",
    TOPIC: "reads a topic with ACLs",
    POLLED: "polls the ACLs of the brokers; the history begins with the first poll",
    QUORUM: "follows each record as it is committed, with its offset, and can change ACLs",
}


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to follow the cluster.

    Attributes:
        acl_count: None if it does not work.
        has_brokers: whether brokers decide by these ACLs, with settings that they do not tell.
        problem: why it does not work, and the way out.
    """

    url: str
    acl_count: int | None = None
    cluster_id: str | None = None
    release: str | None = None
    has_brokers: bool = False
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "log": self.url,
            "works": self.problem is None,
            "aclCount": self.acl_count,
            "problem": self.problem,
        }


@click.command("connect", cls=Command)
@log_option
@command_config_option
@quiet_option
@click.option(
    "--super-users",
    metavar="USERS",
    help="super.users of the brokers, such as 'User:admin;User:ops'; '' if there are none.",
)
@click.option(
    "--allow-everyone/--no-allow-everyone",
    default=None,
    help="allow.everyone.if.no.acl.found of the brokers.",
)
@click.option(
    "--output",
    type=OutputFile("properties"),
    default="aclog.properties",
    show_default=True,
    metavar="FILE",
    shell_complete=completes("file"),
    help="The configuration to write, for --config of the other commands.",
)
@json_option
def connect_command(
    *,
    super_users: str | None,
    allow_everyone: bool | None,
    output: Path,
    as_json: bool,
) -> None:
    """Find out how a cluster can be followed, and write the configuration for it.

    Connects to the brokers (or controllers) as Kafka's tools do, with the same client.properties. Prints each
    way to follow the cluster: whether it works with these rights, and what is missing. Then writes a
    configuration that uses the best one and names the client.properties; it contains no secrets.

    The brokers do not tell clients super.users and allow.everyone.if.no.acl.found: give them here, or type
    them when asked, on a terminal. Until they are known, every DENIED says so.

    Exit code 0: a configuration was written; 2: a setting, a password or a right is wrong or missing; 3: the
    cluster does not answer.

    \b
    Examples:
      aclog connect --bootstrap-server HOST:9093 --command-config client.properties --super-users User:admin
      aclog connect --bootstrap-controller HOST:9094 --command-config client.properties
      aclog check --config aclog.properties --principal User:alice --operation Read --topic orders
    """
    config = Workspace.given().config
    ways = _ways(config)
    best = next(way for way in reversed(ways) if way.problem is None)
    properties = _properties(best, config, output)
    of_brokers = {
        SUPER_USERS_CONFIG: super_users,
        ALLOW_EVERYONE_CONFIG: None if allow_everyone is None else str(allow_everyone).lower(),
    }
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not (as_json or is_quiet())
    unknown = []
    for key, given in of_brokers.items():
        # A variable may set it.
        text = config.properties.get(key) if given is None else given
        if text is None and best.has_brokers:
            text = _prompt(key) if can_ask else None
            unknown += [key] if text is None else []
        if text is not None:
            properties[key] = text
    parse_super_users(super_users)
    with output_file(output, is_noted=False) as file:
        file.write(_file_text(properties, unknown).encode())
    if as_json:
        print_json(
            {
                "clusterId": best.cluster_id,
                "release": best.release,
                "log": best.url,
                "ways": [way.to_json() for way in ways],
                "unknown": unknown,
                "output": str(output),
            }
        )
        return
    _print(ways, best, unknown, output, config)


def _ways(config: Config) -> list[_Way]:
    """The way that the options name, which works, and that of the controllers if the brokers know them."""
    url = config.require_log_url()
    ways = [_opened(url, config)]
    if kind_of(url) == POLLED and (controllers := _controllers(url, config.kafka)):
        url = f"{QUORUM}://{controllers}"
        try:
            ways.append(_opened(url, config))
        except LogError as error:
            # The text begins with the URL, which is printed next to it.
            ways.append(_Way(url, problem=str(error).removeprefix(f"{url}: ")))
    return ways


def _opened(url: str, config: Config) -> _Way:
    from authorizer.engine.decisions.state import AuthorizerSettings

    with Waiting(f"connecting to {shown(url)}"), closing(open_log(url, client=config.kafka)) as log:
        image = load_state(log).image
        release = AuthorizerSettings().version_for(image).label
        return _Way(url, len(image), log.identity.cluster_id, release, log.is_cluster_metadata_log)


def _prompt(key: str) -> str | None:
    """The value that a person types; None if it is not known."""

    def checked(typed: str) -> str:
        try:
            if key == SUPER_USERS_CONFIG:
                parse_super_users("" if typed == "none" else typed)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        if key == ALLOW_EVERYONE_CONFIG and typed not in ("true", "false", ""):
            raise click.UsageError(f"`{typed}`: type {_BROKER_KEYS[key]}")
        return typed

    question = f"{key} of the brokers ({_BROKER_KEYS[key]}; Enter if you do not know)"
    typed = click.prompt(question, default="", show_default=False, value_proc=checked, err=True)
    return "" if typed == "none" else typed or None


def _controllers(url: str, client: Mapping[str, str]) -> str:
    """Listeners of the controllers as the brokers know them; empty if they do not tell."""
    from records.log.protocol.brokers import Brokers
    from records.log.protocol.settings import protocol_settings
    from records.log.url import parse_polled_url

    brokers = Brokers(url, parse_polled_url(url).brokers, protocol_settings(client), threading.Event())
    try:
        return ",".join(map(str, brokers.controllers()))
    except LogError:
        return ""
    finally:
        brokers.abort()


def _properties(best: _Way, config: Config, output: Path) -> dict[str, str]:
    url = best.url
    if kind_of(url) == DIRECTORY:
        url = f"{DIRECTORY}:{Path(url.removeprefix(f'{DIRECTORY}:')).resolve()}"
    elif url == f"{POLLED}://{polled_servers(url)}":
        # A node needs a directory for what it polls.
        url += f"{output.parent.resolve()}{_STORE}"
    found = {LOG_URL: url}
    if config.command_config is not None:
        found[COMMAND_CONFIG] = str(Path(config.command_config).resolve())
    return found


def _file_text(properties: Mapping[str, str], unknown: Sequence[str]) -> str:
    lines = ["# Written by aclog connect."]
    lines += [f"{key}={escape_property(value)}" for key, value in properties.items()]
    if unknown:
        lines += ["# As in server.properties of the brokers; a DENIED says if one of these is unknown:"]
        lines += [f"#{key}=" for key in unknown]
    return "\n".join(lines) + "\n"


def _print(ways: list[_Way], best: _Way, unknown: list[str], output: Path, config: Config) -> None:
    protocol = config.kafka.get("security.protocol", "PLAINTEXT")
    connection = "" if kind_of(best.url) == DIRECTORY else f", over {protocol}"
    answer(f"Cluster {best.cluster_id}, Kafka {best.release}{connection}")
    for way in ways:
        state = "does not work" if way.acl_count is None else f"works, {way.acl_count} ACLs"
        answer(f"{way.url}: {state}")
        answer(f"  {way.problem or _WAYS[kind_of(way.url)]}", indent=2)
    if unknown:
        note(f"unknown from here: {' and '.join(unknown)} of the brokers; set in {output}")
    answer(f"Wrote {output}. Next:")
    say_command("aclog", "check", "--config", str(output), *_EXAMPLE)
