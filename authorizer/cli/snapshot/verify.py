"""``aclog snapshot verify``: checks stored snapshots, also against the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.options import (
    cluster_id_option,
    config_option,
    end_offset_option,
    json_option,
    log_option,
    store_option,
)
from authorizer.cli.rendering.acls import Differences
from authorizer.cli.rendering.output import Waiting, answer, note, print_json, shown
from authorizer.cli.rendering.terminal import bad, good
from authorizer.cli.snapshot.listing import list_statuses, status_json
from authorizer.cli.workspace import Workspace, load_state
from replay.errors import ReplayError
from snapshot.errors import SnapshotError, SnapshotMissingError
from snapshot.store.stored import SnapshotState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.log.base import MetadataLog
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import SnapshotStatus

#: Differences of each kind that are printed.
_SHOWN: Final = 10


@click.command("verify", cls=Command)
@store_option
@log_option
@cluster_id_option
@end_offset_option
@config_option
@json_option
def verify_command(*, cluster_id: str | None, end_offset: int | None, as_json: bool) -> None:
    """Check stored snapshots: every part's checksum, the counts and the digest.

    With --log it also compares each snapshot with the state that the log alone gives at its end offset. A
    snapshot that a node may be writing is listed, but does not change the exit code.

    Exit code 0: all are valid; 1: one differs from the log; 4: one is damaged or unfinished.

    \b
    Examples:
      aclog snapshot verify --snapshots STORE
      aclog snapshot verify --snapshots STORE --log DIR --end-offset 266
    """
    workspace = Workspace.given()
    store = workspace.store_to_read()
    chosen = [
        status
        for status in list_statuses(workspace, store, cluster_id)
        if end_offset is None or status.ref.end_offset == end_offset
    ]
    if not chosen:
        at = "" if end_offset is None else f" that ends at {end_offset}"
        raise SnapshotMissingError(f"{store.url} holds no snapshot{at}")
    if workspace.config.log_url is None:
        verdicts = _verdicts(store, chosen, None)
    else:
        with workspace.log() as log:
            verdicts = _verdicts(store, chosen, log)
    if as_json:
        print_json({"store": store.url, "snapshots": [verdict.to_json() for verdict in verdicts]})
    else:
        for verdict in verdicts:
            verdict.print()
    if any(verdict.problems and not verdict.is_being_written for verdict in verdicts):
        raise click.exceptions.Exit(ExitCode.BAD_DATA)
    if any(verdict.differences for verdict in verdicts):
        raise click.exceptions.Exit(ExitCode.NO)


def _verdicts(
    store: SnapshotStore, statuses: Sequence[SnapshotStatus], log: MetadataLog | None
) -> list[_Verdict]:
    """Verdicts on the snapshots that nodes have not removed meanwhile."""
    found = []
    for status in statuses:
        try:
            verdict = _Verdict.of(store, status, log)
        except SnapshotError:
            if not store.is_removed(status):
                raise
            continue
        if not (verdict.problems and store.is_removed(status)):
            found.append(verdict)
    return found


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Problems of a snapshot, and its differences from the log; None if it was not compared."""

    status: SnapshotStatus
    problems: tuple[str, ...]
    differences: Differences | None
    is_being_written: bool = False

    @classmethod
    def of(cls, store: SnapshotStore, status: SnapshotStatus, log: MetadataLog | None) -> _Verdict:
        identity = None if log is None else log.identity
        with Waiting(f"reading {shown(status.ref.name)}"):
            problems = store.verify(status.ref, identity)
        if problems and status.state is SnapshotState.UNFINISHED:
            return cls(status, problems, None, is_being_written=store.is_being_written(status.ref))
        if problems or log is None:
            return cls(status, problems, None)
        if status.manifest is not None and not status.manifest.is_exact:
            note(
                f"{status.ref.name} was not compared with the log: it is not a state of the log until "
                f"it is continued to {status.manifest.gap_until}"
            )
            return cls(status, (), None)
        try:
            # Without the store, so that the snapshot is not compared with itself.
            from_log = load_state(log, at_offset=status.ref.end_offset - 1).image
        except ReplayError as error:
            note(f"{status.ref.name} was not compared with the log: {error}")
            return cls(status, (), None)
        return cls(status, (), Differences.between(store.read(status.ref, identity).image, from_log))

    def to_json(self) -> dict[str, Any]:
        row = status_json(self.status) | {"whole": not self.problems, "problems": list(self.problems)}
        if self.is_being_written:
            row["beingWritten"] = True
        if self.differences is not None:
            row |= {"equalToLog": not self.differences, **self.differences.to_json(_SHOWN)}
        return row

    def print(self) -> None:
        name = shown(str(self.status.ref))
        if self.is_being_written:
            answer(f"{name}: being written, or its writer was killed within the last minutes", indent=2)
        elif self.problems:
            answer(f"{name}: {bad('DAMAGED')}", indent=2)
            for problem in self.problems:
                answer(f"  {shown(problem)}", indent=4)
        elif self.differences:
            answer(f"{name}: complete, but {bad('DIFFERENT')} from the log", indent=2)
            self.differences.print(_SHOWN)
        else:
            compared = "" if self.differences is None else ", equal to the log"
            answer(f"{name}: {good('complete')}{compared}", indent=2)
