"""NamedAcls: a source of ACLs, identified by its name alone."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.acl_sources.acl_source import AclSet, acls_command, editing_commands
from authorizer.cli.acl_sources.plan_file import is_plan, read_plan
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.input import bad_line, read_acl_file
from authorizer.cli.invocation import words
from authorizer.cli.rendering.output import Waiting, shown
from authorizer.cli.sidecar import CREDENTIALS, is_node
from authorizer.cli.snapshot.listing import only_cluster
from authorizer.cli.workspace import is_log, load_noted_state
from records.columns.acl_table import AclTable, AppliedAcl
from records.errors import RecordError
from records.log.directory.files import segment_name
from records.log.open import open_log
from records.log.url import kind_of
from snapshot.errors import SnapshotError, SnapshotMissingError
from snapshot.image import AclsImage, Provenance, image_of, restore_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from authorizer.cli.workspace import Workspace
    from replay.snapshot_source import SnapshotSource

_SEE: Final = "`aclog diff --help` says what a set of ACLs can be."


@dataclass(frozen=True, slots=True)
class NamedAcls:
    """An AclSource by its name: a log, LOG@OFFSET, a snapshot store, a node, a cluster, a plan or a file.

    Attributes:
        is_node: whether the name can only be a node's.
        has_store: whether the name is the log of the workspace, which may start from its snapshot store.
    """

    name: str
    workspace: Workspace
    cluster_id: str | None = None
    is_node: bool = False
    has_store: bool = False

    def load(self) -> AclSet:
        name, workspace = self.name, self.workspace
        source, at = split_offset(name)
        if self.is_node or is_node(name):
            return _of_node(name, workspace)
        if is_log(source):
            snapshots = workspace.sources() if self.has_store else ()
            return _of_log(name, source, at, workspace.config.kafka, snapshots)
        path = Path(name.removeprefix("file:"))
        if path.suffix == ".checkpoint":
            from snapshot.files.kraft_checkpoint import read_checkpoint

            try:
                return AclSet(name, read_checkpoint(path))
            except SnapshotError as error:
                raise Failure(str(error), ExitCode.BAD_DATA, _SEE) from error
        if name == "-" or path.is_file():
            return AclSet(name, _after(path, workspace) if is_plan(path) else _of_file(name, path))
        if "://" in source or Path(source.removeprefix("file:")).is_dir():
            return _of_store(name, source, at, self.cluster_id)
        kind_of(source)  # LogUrlError if it looks like the URL of a log
        raise click.UsageError(f"`{name}` is not a log, snapshot store, node, cluster or file. {_SEE}")


def split_offset(name: str) -> tuple[str, int | None]:
    """Split ``LOG@OFFSET``; an existing file may have an @ in its name."""
    source, separator, offset = name.rpartition("@")
    if separator and offset.isascii() and offset.isdigit() and not Path(name.removeprefix("file:")).exists():
        return source, int(offset)
    return name, None


def _of_log(
    name: str,
    url: str,
    at_offset: int | None,
    client: Mapping[str, str],
    snapshots: Sequence[SnapshotSource],
) -> AclSet:
    with Waiting(f"opening {shown(url)}"):
        opened = open_log(url, mode="read", client=client)
    with closing(opened) as log:
        image = load_noted_state(log, snapshots, at_offset=at_offset, with_offsets=True).image
        is_of_cluster = log.is_cluster_metadata_log
        flags = ("--log", url, *words("--command-config", "--config"))
        command, *_ = editing_commands(
            url, flags, is_writable=not log.is_read_only, is_of_cluster=is_of_cluster
        )
        return AclSet(name, image, log.identity.cluster_id, is_own=not is_of_cluster, editing_command=command)


def _of_store(name: str, url: str, end_offset: int | None, cluster_id: str | None) -> AclSet:
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import SnapshotState

    store = SnapshotStore(url)
    store.require()
    neither = f"{url} has neither a snapshot nor a log's segments, such as {segment_name(0)}"
    try:
        cluster = only_cluster(store, cluster_id)
    except SnapshotMissingError as error:
        raise Failure(neither, ExitCode.USAGE, _SEE) from error
    with Waiting(f"reading {shown(url)}"):
        statuses = store.survey(cluster)
    if not statuses and cluster_id is None:
        raise Failure(neither, ExitCode.USAGE, _SEE)
    for status in reversed(statuses):
        if status.state is SnapshotState.COMPLETE and end_offset in (None, status.ref.end_offset):
            with Waiting(f"reading {shown(url)}"):
                return AclSet(name, store.read(status.ref).image, cluster)
    which = "" if end_offset is None else f" with end offset {end_offset}"
    raise SnapshotMissingError(f"{url} has no usable snapshot of cluster {cluster}{which}")


def _of_node(url: str, workspace: Workspace) -> AclSet:
    from authorizer.cli.acl_sources.node_acls import NodeAcls

    address, at = split_offset(url)
    if at is not None:
        raise Failure(f"{url}: a node has only its newest state; remove @{at}", ExitCode.USAGE)
    with Waiting(f"asking {shown(url)}"):
        image = NodeAcls(address, workspace.config.acl_update_timeout_ms).image()
    return AclSet(url, image, editing_command=acls_command(("--sidecar", url, *words(*CREDENTIALS))))


def _after(path: Path, workspace: Workspace) -> AclsImage:
    """The ACLs once a plan is applied to its log, if that is still possible."""
    plan = read_plan(path)
    url = plan.origin.log if workspace.config.log_url is None else workspace.config.log_url
    image = NamedAcls(url, workspace).load().image
    plan.require_unchanged_permissions(image)
    result = plan.applied_to(image.merged().columns)
    return restore_image([result], provenance=Provenance(0, -1, 0), metadata=image.metadata)


def _of_file(name: str, path: Path) -> AclsImage:
    with Waiting(f"reading {shown(name)}"):
        try:
            records = read_acl_file(str(path))
        except RecordError as error:
            raise bad_line(error, _SEE) from error
    return image_of(AclTable.of([AppliedAcl(record, None, 0) for record in records]))
