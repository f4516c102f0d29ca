"""``aclog log create``: creates a log in a directory or a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import click

from authorizer.cli.command import Command
from authorizer.cli.options import CLUSTER_ID, DURATION, PAIR, config_option, json_option, log_option
from authorizer.cli.rendering.output import answer, print_json, shown
from authorizer.cli.workspace import Workspace
from records.errors import LogError, LogNotFoundError, LogUrlError
from records.ids import uuid_to_string
from records.log.base import LogIdentity
from records.log.open import open_log
from records.log.url import POLLED, QUORUM, TOPIC, kind_of


@click.command("create", cls=Command)
@log_option
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a topic: number of replicas.  [default: 3]",
)
@click.option(
    "--min-insync-replicas",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a topic: number of replicas that must have a write to commit it.  [default: 2]",
)
@click.option(
    "--delete-retention",
    "delete_retention_ms",
    type=DURATION,
    help="Of a topic: how long compaction retains a removal. Nodes and snapshots that are behind by more "
    "than half of it start from the log's start again.  [default: 7d]",
)
@click.option(
    "--topic-config",
    type=PAIR,
    multiple=True,
    help="Of a topic: a Kafka topic setting. Repeatable.",
)
@click.option(
    "--cluster-id", type=CLUSTER_ID, help="Of a directory: its cluster id.  [default: a random one]"
)
@click.option("--if-not-exists", is_flag=True, help="Accept an existing log, without changing it.")
@config_option
@json_option
def create_command(
    *,
    replication_factor: int | None,
    min_insync_replicas: int | None,
    delete_retention_ms: int | None,
    topic_config: tuple[tuple[str, str], ...],
    cluster_id: str | None,
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create an empty log: a directory or a Kafka topic.

    A topic has one partition, compaction and several replicas. Other nodes need only its URL.

    Exit code 0: created, or the log exists and --if-not-exists is given; 2: it exists.

    \b
    Examples:
      aclog log create --log file:/var/lib/aclog/log
      aclog log create --log kafka://b1:9092,b2:9092,b3:9092/acls --command-config client.properties
      aclog log create --log kafka://localhost:9092/acls --replication-factor 1 --min-insync-replicas 1
    """
    workspace = Workspace.given()
    url, client = workspace.writable_log_url, workspace.config.kafka
    topic_options = {
        "replication_factor": replication_factor,
        "min_insync_replicas": min_insync_replicas,
        "delete_retention_ms": delete_retention_ms,
        "config": dict(topic_config) or None,
    }
    settings: dict[str, Any] = {name: value for name, value in topic_options.items() if value is not None}
    _require_creatable(url, settings, cluster_id)

    def create() -> LogIdentity:
        if kind_of(url) == TOPIC:
            from records.log.topic import TopicSettings, create_topic

            return create_topic(url, client=client, settings=TopicSettings(**settings))
        from records.log.directory import DirectoryLog

        with DirectoryLog.open(url, mode="create", cluster_id=cluster_id) as log:
            return log.identity

    identity, is_new = _create_if_missing(url, client, create, if_not_exists=if_not_exists)
    topic_id = uuid_to_string(identity.topic_id)
    if as_json:
        report = {"log": url, "clusterId": identity.cluster_id, "topicId": topic_id}
        print_json(report | {"created": is_new})
    else:
        what = "created" if is_new else "already exists"
        answer(f"{shown(url)}: {what}, cluster {shown(identity.cluster_id)}, topic id {topic_id}", indent=2)


def _require_creatable(url: str, topic_settings: Mapping[str, Any], cluster_id: str | None) -> None:
    """click.UsageError if a log of this kind cannot be created, or not with these options."""
    try:
        kind = kind_of(url)
    except LogUrlError as error:
        # Its text also proposes logs that cannot be created.
        raise click.UsageError(
            f"Cannot create `{url}`: write file:DIR for a directory, or kafka://HOST:PORT/TOPIC for a topic"
        ) from error
    if kind == QUORUM:
        raise click.UsageError(f"Cannot create {url}: a cluster creates its metadata log itself")
    if kind == POLLED:
        raise click.UsageError("describe:// logs cannot be created; `aclog serve` creates them.")
    if kind == TOPIC and cluster_id is not None:
        raise click.UsageError(
            "--cluster-id is for a directory: a topic has the cluster id of its Kafka cluster"
        )
    if kind != TOPIC and topic_settings:
        flags = "--replication-factor, --min-insync-replicas, --delete-retention and --topic-config"
        raise click.UsageError(f"{flags} are for a topic: kafka://HOST:PORT/TOPIC")


def _create_if_missing(
    url: str, client: Mapping[str, str], create: Callable[[], LogIdentity], *, if_not_exists: bool
) -> tuple[LogIdentity, bool]:
    """Create the log unless it exists; returns its identity, and whether it is new."""
    identity = _existing_identity(url, client)
    if identity is not None:
        if not if_not_exists:
            raise LogError(f"Log {url} already exists. Use --if-not-exists to accept that.")
        return identity, False
    try:
        return create(), True
    except LogError:
        # Several nodes may start at the same time, each after this command.
        identity = _existing_identity(url, client) if if_not_exists else None
        if identity is None:
            raise
        return identity, False


def _existing_identity(url: str, client: Mapping[str, str]) -> LogIdentity | None:
    """The identity of an existing log; LogError if the path holds something else."""
    try:
        with closing(open_log(url, mode="read", client=client)) as log:
            return log.identity
    except LogNotFoundError:
        return None
