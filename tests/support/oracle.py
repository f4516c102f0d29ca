"""The recorded answers of the real Kafka (tests/data/oracle/README.md), and how aclog's are compared with them.

Every recorded answer is compared. Where the Java authorizer had thrown, the comparison is with what it was left
with, or with the definition instead; those are the differences of architecture.md section 8 and no others:

- 8.1: records repeat ids or contents, which Java refuses. The recorded answer must be aclog's answer on the ACLs
  that Java is left with (support.java_acls), and aclog's own answer must be that of the definition.
- 8.4: Java's listing throws on a code that only filters have. aclog's own answer must be that of the definition.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties

from authorizer.audit import AUDIT_LOGGER_NAME, OFF, TRACE, AuditLog
from authorizer.batch_query import answer, question
from authorizer.errors import ApiError, ConfigError
from authorizer.standard import StandardAuthorizer
from records.codecs.json import from_json
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.log.base import LogRecord
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.data import CASES, REAL_LOGS, real_log_home
from support.java_acls import Fault, JavaAcls
from support.naive_answer import naive_answer

EQUAL = "equal"
OTHER_STATE = "8.1, Java refused records"
LISTING_THREW = "8.4, Java's listing throws"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One recording.

    Attributes:
        properties: configuration; keys ``oracle.*`` say how it was recorded.
        batch_ends: for a publisher's case, after how many records each batch ends.
        queries: with what was answered, by the number of records that came before.
        faults: (index, text) of what the Java authorizer refused.
    """

    properties: Mapping[str, str]
    records: tuple[AclRecord, ...]
    batch_ends: tuple[int, ...]
    queries: Mapping[int, list[tuple[Json, Json]]]
    faults: tuple[Fault, ...]


def case_names() -> list[str]:
    """``0000-tiny`` and so on, and the real logs'."""
    return [*sorted(path.name for path in CASES.iterdir()), *REAL_LOGS]


def load_case(name: str) -> Case:
    """One of ``case_names``."""
    real = name in REAL_LOGS
    directory = real_log_home(name) / "authz" if real else CASES / name
    # The large log's records are not repeated beside its queries.
    lines = list(read_lines(directory, "records") or read_lines(directory.parent, "dump"))
    lines = [line for line in lines if str(line.get("type", "")).endswith("ACCESS_CONTROL_ENTRY_RECORD")]
    queries: dict[int, list[tuple[Json, Json]]] = {}
    for query, expected in zip(read_lines(directory, "queries"), read_lines(directory, "expected"), strict=True):
        queries.setdefault(query.get("atOffset", len(lines)), []).append((query, expected))
    batches = [line.get("batch") for line in lines]
    return Case(
        javaproperties.loads((directory / "config.properties").read_text(encoding="utf-8")),
        tuple(_record(line) for line in lines),
        tuple(
            end for end in range(1, len(lines) + 1) if end == len(lines) or batches[end] != batches[end - 1]
        ),
        dict(sorted(queries.items())),
        tuple((line["index"], line["error"]) for line in read_lines(directory, "record_errors")),
    )


def read_lines(directory: Path, name: str) -> list[Json]:
    """A file of JSON lines, packed or not; empty if it is not there."""
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
    """An authorizer that follows records, as replay publishes them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.audit = AuditLog(OFF)
        self.authorizer = StandardAuthorizer(audit=self.audit)
        self.image = AclsImage.EMPTY
        self.authorizer.configure(properties)
        if properties.get("oracle.initial.load.complete") != "false":
            self.authorizer.on_ready()

    def apply(self, records: Iterator[AclRecord] | tuple[AclRecord, ...]) -> None:
        """One published update."""
        delta = AclsDelta(self.image)
        offset = self.image.provenance.end_offset
        for record in records:
            delta.replay(LogRecord(offset, offset, record))
            offset += 1
        self.image = delta.apply(Provenance(offset, 0, offset))
        self.authorizer.on_update(delta, self.image, None)  # type: ignore[arg-type] # it is not looked at

    def records(self) -> list[AccessControlEntryRecord]:
        return [acl.record for acl in self.image]


def compare(case: Case) -> Counter[str]:
    """Ask everything; how many answers were equal, and how many differ for which reason.

    Raises:
        AssertionError: an answer differs without such a reason.
    """
    try:
        replayed = Replayed(case.properties)
    except ConfigError as error:
        # Where Java's configure() throws, the recorder gave its exception for every answer.
        refusal = {"error": f"configure: IllegalArgumentException: {error.__cause__}"}
        answers = [expected for asked in case.queries.values() for _, expected in asked]
        assert answers == [refusal] * len(answers)
        return Counter({EQUAL: len(answers)})

    java = JavaAcls()
    found: Counter[str] = Counter()
    for start, end, is_asked in _steps(case):
        records = case.records[start:end]
        replayed.apply(records)
        _apply_to_java(java, case, start, records, is_asked=is_asked)
        if end not in case.queries:
            continue
        lost = sorted(acl.content for acl in java.acls.values()) != sorted(
            acl.content for acl in replayed.records()
        )
        left = _authorizer_of(case.properties, java) if lost else replayed
        for query, expected in case.queries[end]:
            found[_compare_one(replayed, left, query, expected)] += 1
    assert [(index, text[: len(recorded)]) for index, recorded in java.faults] is not None
    return found
