"""``aclog snapshot export``: writes a state as a file for other tools."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.options import (
    METADATA_VERSION,
    at_offset_option,
    cluster_id_option,
    config_option,
    end_offset_option,
    json_option,
    log_option,
    raw_cells_option,
    store_option,
)
from authorizer.cli.output_file import OutputFile, require_new, require_suffix
from authorizer.cli.rendering.output import Waiting, answer, note, print_json, shown
from authorizer.cli.snapshot.listing import only_cluster
from authorizer.cli.workspace import Workspace
from records.entries import METADATA_VERSION_FEATURE
from records.metadata_version import METADATA_VERSION_3_9, metadata_version_name
from snapshot.errors import SnapshotMissingError
from snapshot.files.export_format import ExportFormat

if TYPE_CHECKING:
    from snapshot.image import AclsImage
    from snapshot.store.snapshot_store import SnapshotStore


_CHECKPOINT: Final = "checkpoint"
_KRAFT: Final = "kraft"  # another name of checkpoint
_KAFKA_FORMATS: Final = (_KRAFT, _CHECKPOINT)
_STDOUT: Final = Path("-")
#: The formats that suffixes of names stand for, by the value of --format.
_WRITTEN: Final = {"avro": "Avro", "jsonl": "JSON", "kip11": "JSON", "csv": "CSV"}
_CHUNK_BYTES: Final = 1024 * 1024


@click.command("export", cls=Command)
@click.option(
    "--format",
    "export_format",
    type=click.Choice([_KRAFT, _CHECKPOINT, *(known.value for known in ExportFormat)]),
    required=True,
    help="kraft or checkpoint: Kafka's snapshot file. avro: an object container. jsonl: payloads of "
    "kafka-dump-log. csv: a table. kip11: KIP-11's ACL JSON.",
)
@click.option(
    "--output",
    type=OutputFile(dir_okay=True, allow_dash=True),
    default=str(_STDOUT),
    metavar="FILE",
    help="The file. For a checkpoint the directory, because its name has offset and epoch; with --bootstrap "
    "a formatted log directory, another directory, or a file.  [default: stdout; for a checkpoint the "
    "current directory]",
)
@click.option(
    "--bootstrap",
    is_flag=True,
    help="With kraft: write bootstrap.checkpoint, with which a new cluster has these ACLs, with their ids, "
    "from its start.",
)
@click.option(
    "--metadata-version",
    type=METADATA_VERSION,
    help="With --bootstrap, unless the directory is formatted: such as 4.3-IV0 or 4.3.  [default: the "
    "features of the log, else 3.9-IV0]",
)
@log_option
@at_offset_option
@store_option
@cluster_id_option
@end_offset_option
@raw_cells_option
@config_option
@json_option
def export_command(
    *,
    export_format: str,
    output: Path,
    at_offset: int | None,
    cluster_id: str | None,
    end_offset: int | None,
    bootstrap: bool,
    metadata_version: int | None,
    raw_cells: bool,
    as_json: bool,
) -> None:
    """Write the state of a log, or a stored snapshot, as a file for other tools.

    With --log it writes the state of the log, at its high watermark or after --at-offset. Otherwise it writes
    the newest complete snapshot of the store, or the one that ends at --end-offset. Equal states give equal
    files.

    With --bootstrap a new cluster starts with these ACLs. Format the directories of its controllers first
    (kafka-storage format), and name each of them as --output before any controller starts. The ACLs are added
    to the existing records.

    \b
    Examples:
      aclog snapshot export --log DIR --format kraft --bootstrap --output /var/kafka/data
      aclog snapshot export --log DIR --format csv --output acls.csv
      aclog snapshot export --snapshots STORE --format checkpoint --output /tmp
      aclog snapshot export --log DIR --at-offset 1000 --format kip11 | jq .resources
    """
    if bootstrap and export_format not in _KAFKA_FORMATS:
        raise click.UsageError(f"--bootstrap needs --format {_KRAFT}")
    if metadata_version is not None and not bootstrap:
        raise click.UsageError("--metadata-version needs --bootstrap")
    if export_format in _WRITTEN:
        require_suffix(output, _WRITTEN[export_format], "--output")
    if as_json and output == _STDOUT and export_format in _WRITTEN:
        raise click.UsageError(
            f"--format {export_format} prints the state on stdout, and --json describes the file: name it "
            "with --output"
        )
    workspace = Workspace.given()
    if workspace.config.log_url is not None:
        if end_offset is not None:
            raise click.UsageError("--end-offset works with --snapshots. For a log use --at-offset.")
        with workspace.log() as log:
            image = workspace.state(log, at_offset=at_offset).image
    else:
        if at_offset is not None:
            raise click.UsageError("--at-offset needs --log. For a store use --end-offset.")
        image = _stored(workspace.store_to_read(), cluster_id, end_offset)
    if bootstrap:
        write_bootstrap_and_print(image, output, metadata_version, as_json=as_json)
        return
    written = _write(image, export_format, output, raw_cells=raw_cells)
    if written is None:
        return
    if as_json:
        from snapshot.digest import digest_to_string

        print_json(
            {
                "file": str(written),
                "format": export_format,
                "endOffset": image.provenance.end_offset,
                "epoch": image.provenance.epoch,
                "count": len(image),
                "digest": digest_to_string(image.digest),
            }
        )
    else:
        answer(f"{written}: {len(image)} ACLs at end offset {image.provenance.end_offset}")


def _stored(store: SnapshotStore, cluster_id: str | None, end_offset: int | None) -> AclsImage:
    statuses = store.survey(only_cluster(store, cluster_id))
    candidates = [status for status in statuses if end_offset in (None, status.ref.end_offset)]
    for status in reversed(candidates):
        if status.problem is None:
            with Waiting(f"reading {shown(status.ref.name)}"):
                stored = store.read(status.ref)
            if not stored.manifest.is_exact:
                note(
                    f"snapshot {status.ref.name} is not a state of the log until it is continued to "
                    f"{stored.manifest.gap_until}"
                )
            return stored.image
        note(f"snapshot {status.ref.name} was skipped: {status.problem}")
    at = "" if end_offset is None else f" that ends at {end_offset}"
    raise SnapshotMissingError(f"{store.url} holds no complete snapshot{at}")


def _is_stdout(output: Path) -> bool:
    """Whether a path is stdout, such as ``/dev/stdout``."""
    try:
        return os.path.samestat(output.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # the file does not exist, or stdout has no descriptor
        return False


def _write(image: AclsImage, export_format: str, output: Path, *, raw_cells: bool) -> Path | None:
    """Write the image; returns the file's path, None for stdout."""
    from records.log.base import CheckpointId
    from snapshot.files.export import export_image
    from snapshot.files.kraft_checkpoint import write_checkpoint

    if export_format in _KAFKA_FORMATS:
        directory = Path() if output == _STDOUT else output
        require_new(directory / CheckpointId(image.provenance.end_offset, image.provenance.epoch).name)
        with Waiting("writing"):
            return write_checkpoint(image, directory)
    if output != _STDOUT:
        is_stdout = _is_stdout(output)
        with Waiting("writing"):
            export_image(image, output, ExportFormat(export_format), raw_cells=raw_cells)
        return None if is_stdout else output
    if export_format == ExportFormat.AVRO and sys.stdout.isatty():
        raise click.UsageError("Cannot print Avro on a terminal: use --output FILE")
    with tempfile.TemporaryDirectory(prefix="aclog-export-") as scratch:
        staged = Path(scratch) / "export"
        with Waiting("writing"):
            export_image(image, staged, ExportFormat(export_format), raw_cells=raw_cells)
        with staged.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                click.echo(chunk, nl=False)
    return None


def write_bootstrap_and_print(
    image: AclsImage, output: Path, metadata_version: int | None, *, as_json: bool
) -> None:
    """Add the ACLs to a formatted directory, or write a separate file; print the next step."""
    from snapshot.digest import digest_to_string
    from snapshot.files.kraft_bootstrap import add_to_formatted, is_formatted, write_bootstrap
    from snapshot.files.kraft_checkpoint import BOOTSTRAP_NAME

    target = Path() if output == _STDOUT else output
    formatted = is_formatted(target)
    if formatted:
        if metadata_version is not None:
            raise click.UsageError(
                f"{target} is formatted and has a metadata.version: choose it with `kafka-storage format "
                "--release-version`"
            )
        with Waiting("writing"):
            path, features = add_to_formatted(image, target)
    else:
        path = target / BOOTSTRAP_NAME if target.is_dir() else target
        require_new(path)
        if metadata_version is not None:
            features = {METADATA_VERSION_FEATURE: metadata_version}
        else:
            features = {METADATA_VERSION_FEATURE: METADATA_VERSION_3_9, **image.metadata.features}
        with Waiting("writing"):
            write_bootstrap(image, path, features)
    version = metadata_version_name(features[METADATA_VERSION_FEATURE])
    if as_json:
        print_json(
            {
                "file": str(path),
                "format": "kraft",
                "bootstrap": True,
                "isInFormattedDirectory": formatted,
                "metadataVersion": version,
                "features": dict(features),
                "count": len(image),
                "digest": digest_to_string(image.digest),
            }
        )
        return
    answer(f"{path}: {len(image)} ACLs, metadata.version {version}")
    if formatted:
        note("do the same for the directory of every other controller, before any controller starts")
    else:
        note(
            "up to Kafka 4.3, replace the bootstrap.checkpoint that `kafka-storage format` wrote in "
            "each controller's log directory, before any controller starts. From 4.4 on, it writes none: use "
            "the directory as --output instead"
        )
