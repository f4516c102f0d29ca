"""Source: the state of a report, and the states since an earlier one. Scope: its principals and names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.analysis.permissions.related_acls import related_to
from authorizer.analysis.request_space.name_space import NAME_SPACES
from authorizer.cli.acl_sources.options import acl_source
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.invocation import words
from authorizer.cli.rendering.output import Progress, Waiting, note, utc
from authorizer.cli.workspace import Workspace
from authorizer.console.history.history_scan import History, HistoryScan
from authorizer.console.history.history_states import HistoryState, scan_states
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import ResourceType
from records.log.base import MetadataLog, read_with_retry
from records.log.open import open_log
from records.principal import WILDCARD_PRINCIPAL
from replay.snapshot_source import CheckpointFiles
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.analysis.permissions.request_class import RequestClass
    from authorizer.analysis.request_space.name_space import Key
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord


class Source(NamedTuple):
    """The state of a report.

    Attributes:
        flags: options that name it in commands.
        uncommitted_from: records from this offset on may be uncommitted; None: all are committed.
        states: each later state, up to ``image``.
        history: the known states up to ``image``; None: not read.
    """

    name: str
    flags: tuple[str, ...]
    image: AclsImage
    cluster_id: str | None = None
    uncommitted_from: int | None = None
    before: AclsImage | None = None
    states: tuple[HistoryState, ...] = ()
    history: History | None = None


def read_set(workspace: Workspace) -> Source:
    """The set of --acls or --sidecar. Raises as ``AclSource.load``."""
    acls = acl_source(workspace).load()
    return Source(acls.name, words("--acls", "--sidecar"), acls.image, acls.cluster_id)


def read_log(
    workspace: Workspace, at: int | datetime | None, since: int | datetime | None, *, with_history: bool
) -> Source:
    """The state of a log at ``at`` or at its end, compared with the one at ``since``.

    ``with_history``: also the states before it, as many as the console's page knows.
    """
    with workspace.log() as log:
        last, first = _offset(log, at), _offset(log, since)
        loaded = workspace.state(log, at_offset=last, with_offsets=True)
        image, certain = loaded.image, loaded.uncommitted_from
        source = Source(log.url, ("--log", log.url), image, log.identity.cluster_id, certain)
        if with_history:
            source = source._replace(history=_history(workspace, image))
        if first is None:
            return source
        if first >= image.provenance.end_offset - 1:
            raise Failure(
                f"--since is offset {first}, which is not before the state's last record, at offset "
                f"{image.provenance.end_offset - 1}",
                ExitCode.USAGE,
                "Choose a --since before --at-offset, --at-time or the log's end.",
            )
        before = workspace.state(log, at_offset=first, with_offsets=True).image
        with Progress("offsets") as shown:
            _, *states = scan_states(log, before, image, shown.at)
        return source._replace(before=before, states=tuple(states))


def _history(workspace: Workspace, image: AclsImage) -> History:
    def note_error(before_offset: int, error: Exception) -> None:
        note(f"since when is not known before offset {before_offset}: {error}")

    scan = HistoryScan(
        lambda: open_log(workspace.log_url, mode="read", client=workspace.config.kafka),
        lambda log: [*workspace.sources(), CheckpointFiles(log)],
        lambda: None,
        on_error=note_error,
    )
    with Waiting("reading the history"):
        scan.update(0, image)
        while not scan.is_done:
            scan.extend()
        return scan.update(0, image)


def _offset(log: MetadataLog, at: int | datetime | None) -> int | None:
    """The offset itself, or that of the last batch written at a time or before."""
    if not isinstance(at, datetime):
        return at
    wanted_ms = round(at.astimezone(UTC).timestamp() * 1000)
    position, end, last = log.start_offset(), log.high_watermark(), None
    with Progress("offsets") as shown:
        while position < end and (batches := read_with_retry(log, position)):
            for batch in batches:
                if batch.timestamp_ms > wanted_ms:
                    return _require_offset(last, log, wanted_ms)
                position = batch.end_offset
                last = position - 1
            shown.at(position, end)
    return _require_offset(last, log, wanted_ms)


def _require_offset(last: int | None, log: MetadataLog, wanted_ms: int) -> int:
    if last is None:
        raise Failure(f"{log.url} has no record of {utc(wanted_ms)} or before", ExitCode.USAGE)
    return last


_ALL_NAMES: Final[Key] = ("", False)


class Scope(NamedTuple):
    """The restriction of a report.

    Attributes:
        principals: as ``Type:name``; empty: all.
        names: the resource type, and the name or prefix; None: all.
    """

    principals: tuple[str, ...] = ()
    names: tuple[ResourceType, Key] | None = None

    @property
    def is_unrestricted(self) -> bool:
        return not self.principals and self.names is None

    @property
    def types(self) -> Sequence[ResourceType]:
        return list(NAME_SPACES) if self.names is None else [self.names[0]]

    @property
    def top(self) -> Key:
        """The name or prefix that contains all names in scope."""
        return _ALL_NAMES if self.names is None else self.names[1]

    def table(self, table: AclTable) -> AclTable:
        if self.is_unrestricted:
            return table
        return related_to(table, {each: [self.top] for each in self.types}, self.principals or None)

    def has(self, key: Key) -> bool:
        """Whether a name, or all names with a prefix, are in scope."""
        text, is_name = self.top
        return key == self.top or (not is_name and key[0].startswith(text))

    def has_acl(self, acl: AccessControlEntryRecord) -> bool:
        if self.principals and acl.principal not in (*self.principals, WILDCARD_PRINCIPAL):
            return False
        resource_type = ResourceType.from_code(acl.resource_type)
        if self.is_unrestricted or resource_type not in self.types:
            return self.is_unrestricted
        is_prefix = acl.pattern_type != LITERAL_PATTERN
        key = NAME_SPACES[resource_type].pattern(acl.resource_name, is_prefix=is_prefix)
        return key is not None and self._overlaps(*key)

    def has_some(self, request_class: RequestClass) -> bool:
        principal = request_class.principals.principal
        if principal is not None and self.principals and principal not in self.principals:
            return False
        return request_class.resource_type in self.types and any(
            self._overlaps(names.text, names.is_name) for names in request_class.names
        )

    def _overlaps(self, text: str, is_name: bool) -> bool:
        return self.has((text, is_name)) or (not is_name and self.top[0].startswith(text))

    def words(self) -> list[str]:
        found = list(self.principals)
        if self.names is not None:
            resource_type, (text, is_name) = self.names
            found.append(f"{resource_type.name} {text}{'' if is_name else '*'}")
        return found
