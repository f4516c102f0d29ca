"""``aclog check --batch``: a file of queries, one JSON line each, answered in order.

A query may name its state. ``atOffset`` n: after the first n records of the --records file, or of the log.
``logOffset``: after the record at that offset of the log; it has precedence. Queries for one state of a
sidecar are sent together. tests/data/oracle/README.md describes the lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack, closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.files.parsing import parse_json_object
from authorizer.api.audit_levels import OFF
from authorizer.api.errors import SidecarRequestError
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.input import bad_line, lines_of
from authorizer.cli.rendering.output import JsonLines, Progress, note, shown
from authorizer.cli.workspace import Workspace, load_noted_state
from authorizer.engine.batch_query import answer_query, request_of_query
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.notes import unknown_release, unknown_settings
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.acl import ResourceType
from records.codecs.json import from_json
from records.errors import DecodeError, LogReadOnlyError, OffsetOutOfRangeError
from records.ids import METADATA_TOPIC_ID
from records.log.base import READ_BYTES_MAX, LogIdentity, MetadataLog
from records.log_batch import LogBatch, LogRecord
from records.principal import parse_kafka_principal
from replay.errors import OffsetUnavailableError
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from authorizer.client import Client
    from authorizer.engine.batch_query import BatchAuthorizer
    from authorizer.engine.decisions.state import AuthorizerState
    from records.entries import MetadataRecord


#: Queries in memory at a time; those of one state are answered together.
_CHUNK: Final = 50_000
#: Most principals, and most topics, of a file that are searched for mistyped ones.
_CHECKED_NAMES_MAX: Final = 20
_BAD_RECORD: Final = "A line of --records is one JSON object, as `aclog log dump` prints it."


def answer_batch(workspace: Workspace, queries: str, records: str | None) -> None:
    """Print one answer for each line, from a log or a file of records."""
    with ExitStack() as opened:
        if records is None:
            log = opened.enter_context(workspace.log())
        else:
            with lines_of(records) as payloads:
                try:
                    log = opened.enter_context(closing(RecordsLog(payloads, records)))
                except DecodeError as error:
                    raise bad_line(error, _BAD_RECORD) from error
        _print_answers(queries, _LogStates(workspace, log, from_file=records is not None))


def answer_batch_of_sidecar(url: str, queries: str) -> None:
    """Print one answer for each line, from a running node."""
    from authorizer.cli.sidecar import sidecar_client

    with sidecar_client(url) as client:
        _print_answers(queries, _SidecarStates(client))


def answer_batch_of_set(workspace: Workspace, queries: str) -> None:
    """Print one answer for each line, from the set of --acls."""
    from authorizer.cli.acl_sources.options import acl_source

    acls = acl_source(workspace).load()
    _print_answers(queries, _SetStates(_loaded(workspace, acls.image, is_own=acls.is_own)))


def _loaded(workspace: Workspace, image: AclsImage, *, is_own: bool) -> StandardAuthorizer:
    """An authorizer on one state; notes what its answers depend on and is unknown."""
    authorizer = StandardAuthorizer(audit=AuditLog(OFF))
    authorizer.configure(workspace.config.properties)
    authorizer.load(image)
    settings = workspace.settings(is_own=is_own)
    note(*unknown_settings(settings), *unknown_release(authorizer.state))
    return authorizer


def _print_answers(queries: str, states: _States) -> None:
    """Print an answer or an error for each line; Failure if a line is not a valid request."""
    bad: list[tuple[int, str]] = []
    with ExitStack() as opened:
        lines = (line for line in opened.enter_context(lines_of(queries)) if line.strip())
        answers = opened.enter_context(JsonLines())
        shown_progress = opened.enter_context(Progress("answers"))
        done = 0
        while chunk := list(islice(lines, _CHUNK)):
            for found in states.answers(chunk, first_line=done + 1, bad=bad):
                answers.write(found)
            done += len(chunk)
            shown_progress.at(done)
    if bad:
        number, error = min(bad)
        raise Failure(
            f"line {number}: {error}\n{len(bad)} of {done} lines are not valid requests", ExitCode.BAD_DATA
        )


class _States(ABC):
    """Answers each query on the state that it names."""

    #: Whether a query may name an offset of a log.
    has_log_offsets = True

    @abstractmethod
    def authorizer(self, end_offset: int | None, queries: Sequence[dict[str, Any]]) -> BatchAuthorizer:
        """An authorizer for these queries on the state at ``end_offset``; None for the newest state.

        Raises:
            OffsetUnavailableError, SidecarRequestError: there is no such state.
        """

    def answers(
        self, lines: list[bytes], *, first_line: int, bad: list[tuple[int, str]]
    ) -> list[dict[str, Any]]:
        """One answer for each line; also appends the number and the error of each bad line to ``bad``."""
        found: list[dict[str, Any]] = [{}] * len(lines)
        by_end_offset: dict[int | None, list[tuple[int, dict[str, Any]]]] = {}

        def refuse(number: int, error: Exception) -> None:
            found[number] = {"error": f"{type(error).__name__}: {error}"}
            bad.append((first_line + number, str(error)))

        for number, line in enumerate(lines):
            try:
                query = parse_json_object(line)
                by_end_offset.setdefault(self._end_offset(query), []).append((number, query))
            except DecodeError as error:
                refuse(number, error)
        for end_offset, queries in by_end_offset.items():
            try:
                authorizer = self.authorizer(end_offset, [query for _, query in queries])
            except (OffsetUnavailableError, SidecarRequestError) as error:
                for number, _ in queries:
                    refuse(number, error)
                continue
            for number, query in queries:
                try:
                    found[number] = answer_query(authorizer, query)
                except DecodeError as error:
                    refuse(number, error)
        return found

    def _end_offset(self, query: dict[str, Any]) -> int | None:
        """The end offset of the state that a query names; None for the newest state."""
        if self.has_log_offsets and "logOffset" in query:
            return _offset(query, "logOffset") + 1
        return _offset(query, "atOffset") if "atOffset" in query else None


class _SidecarStates(_States):
    """The states that a node holds."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def authorizer(self, end_offset: int | None, queries: Sequence[dict[str, Any]]) -> BatchAuthorizer:
        from authorizer.cli.check.sidecar_authorizer import SidecarAuthorizer

        authorizer = SidecarAuthorizer(self._client, None if end_offset is None else end_offset - 1)
        requests = []
        for query in queries:
            # The answer to this line reports the error.
            with suppress(KeyError, ValueError, DecodeError):
                if query.get("kind", "authorize") == "authorize":
                    requests.append(request_of_query(query))
        authorizer.prefetch(requests)
        return authorizer


class _SetStates(_States):
    """The only state of a set of ACLs."""

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self._authorizer = authorizer

    def authorizer(self, end_offset: int | None, queries: Sequence[dict[str, Any]]) -> BatchAuthorizer:
        if end_offset is not None:
            raise OffsetUnavailableError(end_offset - 1, "--acls names one state; a log has others")
        _note_mistyped(self._authorizer.state, queries)
        return self._authorizer


class _LogStates(_States):
    """The states of a log, or of a file of records."""

    def __init__(self, workspace: Workspace, log: MetadataLog, *, from_file: bool) -> None:
        self._workspace = workspace
        self._log = log
        self._from_file = from_file
        self.has_log_offsets = not from_file
        self._newest: StandardAuthorizer | None = None

    def authorizer(self, end_offset: int | None, queries: Sequence[dict[str, Any]]) -> BatchAuthorizer:
        if end_offset is None and self._newest is not None:
            return self._newest
        is_own = not (self._from_file or self._log.is_cluster_metadata_log)
        authorizer = _loaded(self._workspace, self._image(end_offset), is_own=is_own)
        if end_offset is None:
            # Answer all queries without an offset, in all chunks, on one state.
            self._newest = authorizer
            _note_mistyped(authorizer.state, queries)
        return authorizer

    def _image(self, end_offset: int | None) -> AclsImage:
        if end_offset == 0:
            return AclsImage.EMPTY
        sources = [] if self._from_file else self._workspace.sources()
        at_offset = None if end_offset is None else end_offset - 1
        return load_noted_state(self._log, sources, at_offset=at_offset).image


def _note_mistyped(state: AuthorizerState, queries: Sequence[dict[str, Any]]) -> None:
    """Note each principal and topic that is similar to a known one, unless there are too many to search."""
    from authorizer.cli.request_notes import principal_note, resource_note

    topics = [query for query in queries if query.get("resourceType") == ResourceType.TOPIC.name]
    principals, names = _texts(queries, "principal"), _texts(topics, "resourceName")
    found: list[str | None] = []
    if len(principals) <= _CHECKED_NAMES_MAX:
        parsed = [parse_kafka_principal(each) for each in principals if ":" in each]
        found += [principal_note(state, each, is_allowed=True) for each in parsed]
    if len(names) <= _CHECKED_NAMES_MAX:
        found += [resource_note(state, ResourceType.TOPIC, each, is_allowed=True) for each in names]
    for text in filter(None, found):
        note(shown(text))


def _texts(queries: Iterable[dict[str, Any]], key: str) -> list[str]:
    return sorted({value for query in queries if isinstance(value := query.get(key), str)})


def _offset(query: dict[str, Any], key: str) -> int:
    value = query[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DecodeError(f"{key} must be an integer of at least 0, not `{value}`")
    return value


#: Large enough that the overhead of a read is small.
_RECORDS_PER_READ: Final = 10_000


class RecordsLog(MetadataLog):
    """A MetadataLog of lines in memory, without the control records of a dump."""

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        self._source = source
        self._batches: list[LogBatch] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._take(line, f"{source} line {number}")

    def _take(self, line: bytes, source: str) -> None:
        try:
            payload = parse_json_object(line)
            if "control" in payload:
                return
            record = from_json(payload)
        except DecodeError as error:
            raise error.located(source=source) from error
        offset = len(self._batches)
        timestamp_ms = payload.get("timestamp")
        at_ms = timestamp_ms if isinstance(timestamp_ms, int) else 0
        logged = LogRecord(offset, at_ms, record)
        self._batches.append(LogBatch(offset, offset + 1, 0, at_ms, len(line), (logged,)))

    @property
    def url(self) -> str:
        return self._source

    @property
    def identity(self) -> LogIdentity:
        return LogIdentity("records", METADATA_TOPIC_ID)

    def start_offset(self) -> int:
        return 0

    def high_watermark(self) -> int:
        return len(self._batches)

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[LogBatch]:
        if not 0 <= offset <= len(self._batches):
            raise OffsetOutOfRangeError(offset, start=0, end=len(self._batches))
        return self._batches[offset : offset + _RECORDS_PER_READ]

    def wait(self, offset: int, timeout_s: float) -> bool:
        return offset < len(self._batches)

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        raise LogReadOnlyError(
            f"Cannot append {len(records)} records to {self._source}: a file of records is read-only"
        )

    def close(self) -> None:
        """No resource is open."""
