"""``aclog log copy``: copies the ACLs of a log of any kind to another log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from authorizer.api.acl_json import acl_json
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure, write_attempt
from authorizer.cli.options import CLUSTER_ID, completes, config_option, json_option, progress_option
from authorizer.cli.rendering.acls import acl_line, print_changed_acls
from authorizer.cli.rendering.output import answer, note, print_json, shown
from authorizer.cli.sidecar import credentials_options
from authorizer.cli.workspace import Workspace, load_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.cli.log.acl_copy import AclCopy
    from records.entries import AccessControlEntryRecord
    from records.log.base import Mode

OnlyInTarget = Literal["keep", "remove"]


@click.command("copy", cls=Command)
@click.argument("source", metavar="FROM", shell_complete=completes("dir"))
@click.argument("target", metavar="TO", shell_complete=completes("dir"))
@click.option(
    "--others",
    "only_in_target",
    type=click.Choice(["keep", "remove"]),
    help="Keep or remove ACLs that only TO has; remove makes TO equal to FROM.  [default: refuse a TO that "
    "has such ACLs]",
)
@click.option("--create", is_flag=True, help="Make the directory TO if there is none.")
@click.option(
    "--cluster-id", type=CLUSTER_ID, help="With --create: cluster id of the new log.  [default: a random one]"
)
@click.option("-n", "--dry-run", is_flag=True, help="Print the changes without writing them.")
@click.option(
    "--to-config",
    metavar="FILE",
    shell_complete=completes("file"),
    help="Java properties for TO, if it is on another cluster: its aclog.kafka.*.  [default: --config]",
)
@credentials_options
@config_option
@json_option
@progress_option
def copy_command(
    *,
    source: str,
    target: str,
    only_in_target: OnlyInTarget | None,
    create: bool,
    cluster_id: str | None,
    dry_run: bool,
    to_config: str | None,
    as_json: bool,
) -> None:
    """Copy the ACLs of FROM that TO lacks, in atomic batches.

    FROM is any set that `aclog diff` reads: a log (file:DIR, DIR, kafka://HOST:PORT/TOPIC,
    kraft://HOST:PORT), its state after a record (LOG@OFFSET), a snapshot store, one of Kafka's .checkpoint
    files, a running node, a live cluster (describe://HOST:PORT), or a file. TO is a directory that aclog
    created, a topic (`aclog log create` creates it), or a cluster by its controllers (kraft://HOST:PORT),
    which aclog changes with Kafka's protocol; this needs Alter on the cluster.

    Only ACLs of the current state are copied: no history, no metadata.version, no brokers. A directory and a
    topic store the same ids, unless TO has another ACL with the same id; a cluster assigns new ids. An ACL
    that TO has with another id is not copied again.

    If a run was interrupted, run it again: it writes the missing ACLs. DENYs are added before ALLOWs, and
    removed after them, so that no intermediate state allows more than FROM or TO.

    Exit code 0: done; 1: TO has ACLs that FROM lacks, and --others is not given.

    \b
    Examples:
      aclog log copy DIR kafka://HOST:9092/acls --dry-run
      aclog log copy kraft://c1:9093 file:/var/lib/aclog/log --create --command-config client.properties
      aclog log copy describe://old:9092 kraft://new:9093 --config old.properties --to-config new.properties
      aclog log copy /backup/00000000000000004711-0000000003.checkpoint kraft://c1:9093 --others remove
    """
    from authorizer.cli.acl_sources.named_acls import NamedAcls
    from authorizer.cli.log.acl_copy import AclCopy, open_target, write_copy
    from authorizer.configuration.load import load_config

    if cluster_id is not None and not create:
        raise click.UsageError("--cluster-id needs --create: an existing log has its cluster id")
    workspace = Workspace.given()
    client = workspace.config.kafka if to_config is None else load_config(to_config).kafka
    source_acls = [acl.record for acl in NamedAcls(source, workspace).load().image]
    mode: Mode = "read" if dry_run else "create" if create else "write"
    end_offset = None
    with write_attempt() as attempt, open_target(target, client, mode, cluster_id, create=create) as log:
        target_acls = [] if log is None else [acl.record for acl in load_state(log).image]
        copy = AclCopy.between(
            source_acls, target_acls, keeps_ids=log is None or not log.is_cluster_metadata_log
        )
        if copy.only_in_target and only_in_target is None:
            raise Failure(
                f"{shown(target)} has {len(copy.only_in_target)} ACLs that {shown(source)} lacks, such as "
                f"{acl_line(copy.only_in_target[0])}",
                ExitCode.NO,
                "Use --others keep or --others remove; --dry-run shows the ACLs.",
            )
        removed = copy.only_in_target if only_in_target == "remove" else []
        if log is not None and not dry_run:
            end_offset = write_copy(log, copy.add, removed, attempt)
    if as_json:
        print_json(
            {
                "from": source,
                "to": target,
                "dryRun": dry_run,
                "added": len(copy.add),
                "removed": len(removed),
                "kept": len(copy.only_in_target) - len(removed),
                "there": copy.present_count,
                "idsKept": copy.keeps_ids,
                "newIds": copy.new_id_count,
                "endOffset": end_offset,
            }
            | ({"add": [*map(acl_json, copy.add)], "remove": [*map(acl_json, removed)]} if dry_run else {})
        )
        return
    _print(copy, removed, end_offset, is_dry=dry_run)


def _print(
    copy: AclCopy, removed: Sequence[AccessControlEntryRecord], end_offset: int | None, *, is_dry: bool
) -> None:
    counted = f"{len(copy.add)} ACLs added, {len(removed)} removed, {copy.present_count} already there"
    if len(copy.only_in_target) > len(removed):
        counted += f", {len(copy.only_in_target)} only in the target kept"
    if is_dry:
        answer(f"planned: {counted}")
        print_changed_acls(removed, copy.add)
    else:
        where = "" if end_offset is None else f"; the log ends at offset {end_offset}"
        answer(f"{'nothing to do' if end_offset is None else 'done'}: {counted}{where}")
    if copy.add and not copy.keeps_ids:
        note("a cluster assigns new ids to the ACLs")
    if copy.new_id_count:
        note(f"{copy.new_id_count} ACLs have new ids, because other ACLs of the target have theirs")
