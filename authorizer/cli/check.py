"""``aclog check``: one question, or a file of them, on the state of a log at one offset."""

from __future__ import annotations

import gzip
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from authorizer.cli.failure import ExitCode
from authorizer.cli.options import (
    OPERATION,
    PRINCIPAL,
    at_offset_option,
    config_option,
    json_option,
    log_option,
    progress_option,
    shared,
    snapshots_option,
)
from authorizer.cli.output import JsonLines, Progress, print_json
from authorizer.cli.place import Place
from records.acl import CLUSTER_NAME, AclOperation, PatternType, ResourcePattern, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.explain import Explanation
    from authorizer.state import AuthorizerState
    from records.principal import KafkaPrincipal

_resource_options = shared(
    click.option("--topic", metavar="NAME", help="On this topic."),
    click.option("--group", metavar="NAME", help="On this consumer group."),
    click.option("--cluster", is_flag=True, help="On the cluster."),
    click.option("--transactional-id", metavar="ID", help="On this transactional id."),
    click.option("--delegation-token", metavar="TOKEN", help="On this delegation token."),
    click.option("--user-principal", metavar="TYPE:NAME", help="On this user (CreateTokens, DescribeTokens)."),
)


@click.command("check")
@log_option
@snapshots_option
@config_option
@click.option("--principal", type=PRINCIPAL, help="Who asks.")
@click.option("--operation", type=OPERATION, help="For what: Read, Write, DescribeConfigs, ... in any case.")
@_resource_options
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="From where: an IP address, as the broker sees it.",
)
@at_offset_option
@click.option("--explain", is_flag=True, help="Also say why, what nearly matched, and what would allow it.")
@click.option(
    "--batch",
    "queries",
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="QUERIES.jsonl",
    help="Many questions, one JSON object a line (.gz too, - is stdin): one JSON line for each, in order.",
)
@click.option(
    "--records",
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="With --batch: kafka-dump-log payload lines (.gz too, - is stdin) instead of a log.",
)
@json_option
@progress_option
def check_command(
    *,
    log_url: str | None,
    snapshots_url: str | None,
    config_file: str | None,
    principal: KafkaPrincipal | None,
    operation: AclOperation | None,
    host: str,
    at_offset: int | None,
    explain: bool,
    queries: str | None,
    records: str | None,
    as_json: bool,
    progress: bool | None,
    **resource: Any,
) -> None:
    """May this principal do this? Answer as the broker would.

    Prints ALLOWED or DENIED, the rule and the offset that it was decided at. Exit code 0 for ALLOWED, 1 for
    DENIED. Super users and allow.everyone.if.no.acl.found come from --config.

    With --batch the questions are those of the file: kind authorize (the default), authorizedOperations,
    authorizeByResourceType, acls or aclCount, each with an optional atOffset; exit code 0 once all are answered.

    \b
    Examples:
      aclog check --log DIR --principal User:alice --operation Read --topic orders
      aclog check --log DIR --principal User:alice --operation Write --topic orders --host 10.0.0.1 --explain
      aclog check --log DIR --config server.properties --batch queries.jsonl > answers.jsonl
    """
