"""Comparison of aclog's answers with those recorded from real Kafka (tests/data/oracle/README.md).

Every recorded answer is compared. The only permitted differences are two of docs/compatibility.md, where the
Java authorizer had thrown:

- 8.1: records repeat ids or contents, which Java refuses, so that its ACLs differ from the log's. The
  recorded answer must be aclog's answer for the ACLs that Java holds (support.java_acls), and aclog's answer
  for the log must be that of the definition (support.naive).
- 8.4: Java's listing throws, because an ACL has a code that only filters may have, or that a MATCH filter
  cannot compare. aclog's answer must be that of the definition.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from authorizer.api.audit_levels import AUDIT_LOGGER_NAME, OFF, TRACE
from authorizer.api.errors import ApiError, ConfigError
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG
from authorizer.engine.batch_query import answer_query, request_of_query
from authorizer.engine.decisions.audit import AuditLog
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.codecs.json import from_json
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.log_batch import LogRecord
from records.properties import parse_properties
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support import naive
from support.data import CASES, REAL_LOGS, real_log_home
from support.java_acls import Fault, JavaAcls
from support.naive_answer import naive_answer, reduced

#: Of the Kafka whose answers were recorded.
RECORDED_VERSION = "4.3"

EQUAL = "equal"
OTHER_STATE = "8.1, Java refused records"
LISTING_THREW = "8.4, Java's listing throws"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One recording.

    Attributes:
        properties: configuration; keys ``oracle.*`` say how it was recorded.
        batch_ends: for a publisher's case, after how many records each batch ends; else empty.
        queries: with what was answered, by the number of records that came before.
        faults: (index, text) of what the Java authorizer refused.
    """

    properties: Mapping[str, str]
    records: tuple[AclRecord, ...]
    batch_ends: tuple[int, ...]
    queries: Mapping[int, list[tuple[Json, Json]]]
    faults: tuple[Fault, ...]


def case_names() -> list[str]:
    """The names of all recordings: ``0000-tiny`` and so on, and the real logs."""
    return [*sorted(path.name for path in CASES.iterdir()), *REAL_LOGS]


def load_case(name: str) -> Case:
    """One of ``case_names``."""
    real = name in REAL_LOGS
    directory = real_log_home(name) / "authz" if real else CASES / name
    # The records of the large log are stored only in its dump.
    lines = list(read_lines(directory, "records") or read_lines(directory.parent, "dump"))
    lines = [line for line in lines if str(line.get("type", "")).endswith("ACCESS_CONTROL_ENTRY_RECORD")]
    queries: dict[int, list[tuple[Json, Json]]] = {}
    for query, expected in zip(
        read_lines(directory, "queries"), read_lines(directory, "expected"), strict=True
    ):
        queries.setdefault(query.get("atOffset", len(lines)), []).append((query, expected))
    properties = parse_properties((directory / "config.properties").read_text(encoding="utf-8"))
    batch_ends: list[int] = []
    if properties.get("oracle.apply") == "publisher":
        batches = [line["batch"] for line in lines] + [None]
        batch_ends = [at + 1 for at in range(len(lines)) if batches[at] != batches[at + 1]]
    return Case(
        properties,
        tuple(_record(line) for line in lines),
        tuple(batch_ends),
        dict(sorted(queries.items())),
        tuple((line["index"], line["error"]) for line in read_lines(directory, "record_errors")),
    )


def read_lines(directory: Path, name: str) -> list[Json]:
    """The lines of a JSON lines file, compressed or not; none if there is no such file."""
    for path in (directory / f"{name}.jsonl", directory / f"{name}.jsonl.gz"):
        if path.exists():
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
            return [json.loads(line) for line in text.split("\n") if line]  # names may hold other line breaks
    return []


def _record(line: Json) -> AclRecord:
    record = from_json({key: line[key] for key in ("type", "version", "data")})
    assert isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord)
    return record


class Replayed:
    """An authorizer to which records are published as by replay."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.audit = AuditLog(OFF)
        self.authorizer = StandardAuthorizer(audit=self.audit)
        self.image = AclsImage.EMPTY
        self.authorizer.configure({KAFKA_VERSION_CONFIG: RECORDED_VERSION, **properties})
        if properties.get("oracle.initial.load.complete") != "false":
            self.authorizer.on_ready()

    def apply(self, records: Iterable[AclRecord]) -> None:
        """One published update."""
        delta = AclsDelta(self.image)
        offset = self.image.provenance.end_offset
        for record in records:
            delta.replay(LogRecord(offset, offset, record))
            offset += 1
        self.image = delta.apply(Provenance(offset, 0, offset))
        self.authorizer.on_update(delta, self.image, None)  # type: ignore[arg-type] # the authorizer ignores it

    def records(self) -> list[AccessControlEntryRecord]:
        return [acl.record for acl in self.image]


def compare(case: Case) -> Counter[str]:
    """Compare all answers; returns the number of equal answers, and of different ones by reason.

    Raises:
        AssertionError: an answer differs for no permitted reason.
    """
    try:
        replayed = Replayed(case.properties)
    except ConfigError as error:
        # Where Java's configure() throws, the recorder gave its exception for every answer.
        refusal = {"error": f"configure: IllegalArgumentException: {error.__cause__}"}
        answers = [expected for pairs in case.queries.values() for _, expected in pairs]
        assert answers == [refusal] * len(answers)
        return Counter({EQUAL: len(answers)})

    java = JavaAcls()
    found: Counter[str] = Counter()
    start = 0
    for end in sorted({*case.queries, *case.batch_ends}):
        replayed.apply(case.records[start:end])
        _apply_to_java(java, case, start, end)
        start = end
        if end in case.queries:
            on_java_acls = replayed if _has_all(java, replayed) else _replayed(case, java)
            for query, expected in case.queries[end]:
                found[_compare_one(replayed, on_java_acls, query, expected)] += 1
    # The recorder must have seen the same refusals.
    assert [
        (index, text[: len(answer)])
        for (index, text), (_, answer) in zip(case.faults, java.faults, strict=True)
    ] == (java.faults)
    return found


def _apply_to_java(java: JavaAcls, case: Case, start: int, end: int) -> None:
    records = case.records[start:end]
    match case.properties.get("oracle.apply", "log"):
        case "log":
            java.apply_log(start, records)
        case "snapshot":
            java.apply_snapshot(start, records)
        case "publisher":
            java.apply_batch(start, records)


def _has_all(java: JavaAcls, replayed: Replayed) -> bool:
    """Whether the Java authorizer holds the ACLs of the log."""
    return java.acls == {record.id: record for record in replayed.records()}


def _replayed(case: Case, java: JavaAcls) -> Replayed:
    on_java_acls = Replayed(case.properties)
    on_java_acls.apply(tuple(java.acls.values()))
    return on_java_acls


def _compare_one(replayed: Replayed, on_java_acls: Replayed, query: Json, expected: Json) -> str:
    answer = answer_query(replayed.authorizer, query)
    if query.get("kind", "authorize") == "authorize":
        _check_authorize(replayed, query, answer)
    if answer == expected:
        return EQUAL
    if on_java_acls is not replayed:
        assert answer_query(on_java_acls.authorizer, query) == expected, query
        reason = OTHER_STATE
    else:
        # Only listings throw, and authorizeByResourceType lists.
        assert "result" not in answer or query["kind"] == "authorizeByResourceType", (query, answer, expected)
        assert _java_refuses_to_list(replayed.records(), expected), (query, answer, expected)
        reason = LISTING_THREW
    settings = on_java_acls.authorizer.state.settings
    naive_settings = naive.Settings(settings.super_users, settings.allow_everyone)
    assert reduced(answer) == naive_answer(replayed.records(), naive_settings, query), (query, answer)
    return reason


def _java_refuses_to_list(acls: Iterable[AccessControlEntryRecord], expected: Json) -> bool:
    """Whether Java throws this error when it makes or matches a binding of these ACLs."""
    bindings = [acl.binding() for acl in acls]
    codes = {
        code
        for binding in bindings
        for code in (
            ("resourceType", binding.pattern.resource_type.name),
            ("patternType", binding.pattern.pattern_type.name),
            ("operation", binding.entry.operation.name),
            ("permissionType", binding.entry.permission_type.name),
        )
    }
    errors = {f"IllegalArgumentException: {field} must not be {name}" for field, name in codes}
    unsupported = {
        f"IllegalArgumentException: Unsupported PatternType: {name}"
        for field, name in codes
        if field == "patternType"
    }
    of_filters = {error for error in errors if error.endswith((" ANY", " MATCH"))}
    return expected.get("error") in of_filters | unsupported


class _Captured(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(TRACE)
        self.lines: list[Json] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append({"level": record.levelname, "message": record.getMessage()})


def _check_authorize(replayed: Replayed, query: Json, answer: Json) -> None:
    """authorize() and the audit log must agree with the decision that has a reason."""
    context, action = request_of_query(query)
    captured = _Captured()
    logger = logging.getLogger(AUDIT_LOGGER_NAME)
    if query.get("audit"):
        replayed.audit.set_level(TRACE)
        logger.addHandler(captured)
    try:
        (result,) = replayed.authorizer.authorize(context, [action])
    except (ApiError, ValueError):
        assert "error" in answer, query
    else:
        assert result.value == answer["result"], query
        assert captured.lines == ([answer["audit"]] if query.get("audit") else []), query
    finally:
        logger.removeHandler(captured)
        replayed.audit.set_level(OFF)
