"""``aclog snapshot create``."""

from __future__ import annotations

import time

import click

from authorizer.cli.command import Command
from authorizer.cli.options import (
    at_offset_option,
    config_option,
    json_option,
    keep_option,
    log_option,
    progress_option,
    store_option,
)
from authorizer.cli.snapshot.stored import write_and_print
from authorizer.cli.workspace import Workspace, load_state, note_guess


@click.command("create", cls=Command)
@log_option
@store_option
@at_offset_option
@keep_option
@config_option
@json_option
@progress_option
def create_command(*, at_offset: int | None, keep: int | None, as_json: bool) -> None:
    """Store the state of a log, at its high watermark or after the record at --at-offset.

    The ACLs of a snapshot that is there already, whole and equal, are not written again.

    \b
    Examples:
      aclog snapshot create --log /var/kafka/__cluster_metadata-0 --snapshots STORE
      aclog snapshot create --log DIR --snapshots STORE --at-offset 1000
    """
    from replay.snapshot_source import StoredSnapshots

    workspace = Workspace.given()
    store = workspace.store()
    with workspace.log() as log:
        # Before the state is read: what came later is not in it (I10).
        looked_at_ms = time.time_ns() // 1_000_000
        note_guess(log)
        image = load_state(log, [StoredSnapshots(store)], at_offset=at_offset).image
        reaches_end = image.provenance.end_offset >= log.high_watermark()
        write_and_print(
            workspace,
            image,
            log.identity,
            # When an older state was the end is not recorded; it was, when its last record was written.
            log_end_time_ms=looked_at_ms if reaches_end else image.provenance.timestamp_ms,
            keep=keep,
            as_json=as_json,
        )
