"""``aclog log copy``: the ACLs of one log into another, of any kind."""

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
    from records.log.directory.log import Mode

Others = Literal["keep", "remove"]


@click.command("copy", cls=Command)
@click.argument("source", metavar="FROM", shell_complete=completes("dir"))
@click.argument("target", metavar="TO", shell_complete=completes("dir"))
@click.option(
    "--others",
    type=click.Choice(["keep", "remove"]),
    help="Keep or remove ACLs that only TO has; remove makes TO equal to FROM.  [default: refuse a TO that "
    "has such ACLs]",
)
@click.option("--create", is_flag=True, help="Make the directory TO if there is none.")
@click.option(
    "--cluster-id", type=CLUSTER_ID, help="With --create: cluster id of the new log.  [default: a random one]"
)
@click.option("-n", "--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.option(
    "--to-config",
    metavar="FILE",
    shell_complete=completes("file"),
    help="As --config, for TO: another cluster, with its own aclog.kafka.*.  [default: --config]",
)
@credentials_options
@config_option
@json_option
@progress_option
def copy_command(
    *,
    source: str,
    target: str,
    others: Others | None,
    create: bool,
    cluster_id: str | None,
    dry_run: bool,
    to_config: str | None,
    as_json: bool,
) -> None:
    """Copy the ACLs of FROM that TO lacks, in atomic batches.

    FROM is a log (file:DIR, DIR, kafka://HOST:PORT/TOPIC, kraft://HOST:PORT), also after one of its records
    (LOG@OFFSET), a snapshot store or one of Kafka's .checkpoint files, a running node, a live cluster
    (describe://HOST:PORT), or a file: all that `aclog diff` reads. TO is a directory that aclog made, a topic
    (`aclog log create` makes it), or a cluster by its controllers (kraft://HOST:PORT), which are asked by
    Kafka's own requests; that takes Alter on the cluster.

    Only ACLs of the current state are copied: no history, no metadata.version, no brokers. A directory and a
    topic keep the ids, unless TO has another ACL with the same id; a cluster assigns new ids. An ACL that TO
    has with another id is not copied again.

    If a run was interrupted, run it again: it writes the missing ACLs. DENYs are added before ALLOWs, and
    removed after them, so that no intermediate state allows more than FROM or TO.

    Exit code 0: done; 1: TO has other ACLs, and --others is not given.

    \b
    Examples:
      aclog log copy DIR kafka://HOST:9092/acls --dry-run
      aclog log copy kraft://c1:9093 file:/var/lib/aclog/log --create --config client.properties
      aclog log copy describe://old:9092 kraft://new:9093 --config old.properties --to-config new.properties
      aclog log copy /backup/00000000000000004711-0000000003.checkpoint kraft://c1:9093 --others remove
    """
    from authorizer.cli.acl_sources.options import acl_source
    from authorizer.cli.log.acl_copy import AclCopy, open_target, write_copy
    from authorizer.configuration.load import load_config

    if cluster_id is not None and not create:
        raise click.UsageError("--cluster-id needs --create: an existing log keeps its id")
    workspace = Workspace.given()
    client = workspace.config.kafka if to_config is None else load_config(to_config).kafka
    wanted = [acl.record for acl in acl_source(workspace, acls=source).load().image]
    mode: Mode = "read" if dry_run else "create" if create else "write"
    end_offset = None
    with write_attempt() as attempt, open_target(target, client, mode, cluster_id, create=create) as log:
        there = [] if log is None else [acl.record for acl in load_state(log).image]
        copy = AclCopy.between(wanted, there, keeps_ids=log is None or not log.is_cluster_metadata_log)
        if copy.others and others is None:
            raise Failure(
                f"{shown(target)} has {len(copy.others)} ACLs that {shown(source)} lacks, such as "
                f"{acl_line(copy.others[0])}",
                ExitCode.NO,
                "Use --others keep or --others remove; --dry-run shows the ACLs.",
            )
        removed = copy.others if others == "remove" else []
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
                "kept": len(copy.others) - len(removed),
                "there": copy.there,
                "idsKept": copy.keeps_ids,
                "newIds": copy.new_ids,
                "endOffset": end_offset,
            }
            | ({"add": [*map(acl_json, copy.add)], "remove": [*map(acl_json, removed)]} if dry_run else {})
        )
        return
    _print(copy, removed, end_offset, is_dry=dry_run)


def _print(
    copy: AclCopy, removed: Sequence[AccessControlEntryRecord], end_offset: int | None, *, is_dry: bool
) -> None:
    counted = f"{len(copy.add)} ACLs added, {len(removed)} removed, {copy.there} there already"
    if len(copy.others) > len(removed):
        counted += f", {len(copy.others)} of its own kept"
    if is_dry:
        answer(f"to be done: {counted}")
        print_changed_acls(removed, copy.add)
    else:
        where = "" if end_offset is None else f"; the log ends at offset {end_offset}"
        answer(f"{'nothing to do' if end_offset is None else 'done'}: {counted}{where}")
    if copy.add and not copy.keeps_ids:
        note("note: a cluster makes its own ids: the ACLs have others there")
    if copy.new_ids:
        note(f"note: {copy.new_ids} ACLs have new ids, as theirs are those of other ACLs there")
