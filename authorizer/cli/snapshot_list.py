"""``aclog snapshot list``."""

from __future__ import annotations

import click

from authorizer.cli.options import (
    cluster_id_option,
    config_option,
    json_option,
    log_option,
    store_option,
)
from authorizer.cli.output import print_json, shown, utc
from authorizer.cli.place import Place
from authorizer.cli.stored import status_json, surveyed


@click.command("list")
@store_option
@log_option
@cluster_id_option
@config_option
@json_option
def list_command(
    *,
    snapshots_url: str | None,
    log_url: str | None,
    cluster_id: str | None,
    config_file: str | None,
    as_json: bool,
) -> None:
    """Show what a store holds, the newest last.

    State is complete, unfinished, corrupt, foreign (of another log) or unsupported. Parts are looked at but
    not read; `aclog snapshot verify` reads them.

    \b
    Examples:
      aclog snapshot list --snapshots s3://bucket/aclog
      aclog snapshot list --snapshots STORE --log DIR --json
    """
    place = Place.named(config_file=config_file, log_url=log_url, snapshots_url=snapshots_url)
    store = place.store()
    statuses = surveyed(place, store, cluster_id)
    if as_json:
        print_json({"store": store.url, "snapshots": [status_json(status) for status in statuses]})
        return
    if not statuses:
        click.echo(f"no snapshots in {shown(store.url)}")
        return
    click.echo(
        f"{'STATE':<11} {'END OFFSET':>12} {'EPOCH':>6} {'ACLS':>9} {'TIME':<20} {'BYTES':>12} "
        f"{'DIGEST':<32} CLUSTER"
    )
    for status in statuses:
        ref, manifest = status.ref, status.manifest
        line = f"{status.state.value:<11} {ref.end_offset:>12} {ref.epoch:>6} "
        if manifest is None:
            line += f"{'-':>9} {'-':<20} {'-':>12} {'-':<32} "
        else:
            row = status_json(status)
            line += f"{row['count']:>9} {utc(row['timestampMs']):<20} {row['bytes']:>12} {row['digest']:<32} "
        click.echo(line + shown(ref.cluster_id))
        if status.problem is not None:
            click.echo(f"{'':<11} {shown(status.problem)}")
