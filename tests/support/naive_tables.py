"""What the tables of a history must hold, from a fold of its log at every offset; and what they hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import decision_changes_by
from authorizer.engine.decisions.state import AuthorizerSettings
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid, uuid_from_string
from records.log.directory import DirectoryLog
from records.log_batch import LogRecord
from replay.load_image import load_image
from snapshot.jobs.changes.change_table import CONTENT, record_from_row
from snapshot.jobs.changes.coverage import read_coverage
from snapshot.store.storage import Storage
from support.naive_counts import kind_of

Row = tuple[Any, ...]
Rows = Counter[Row]
Acls = Mapping[Uuid, AccessControlEntryRecord]


class NaiveTables:
    """The expected rows: changes, periods, counts and access changes, each with how often.

    ``states``: the ACLs in force after each offset, by id.
    """

    def __init__(self, states: Iterable[tuple[int, Acls]]) -> None:
        self.changes: Rows = Counter()
        self.periods: Rows = Counter()
        self.counts: Rows = Counter()
        self.access: Rows = Counter()
        state: dict[Uuid, tuple[int, AccessControlEntryRecord]] = {}
        by_kind: Counter[Row] = Counter()
        table = AclTable.of(())
        for offset, now in states:
            before_table, table = table, AclTable.of([AppliedAcl(each, None, 0) for each in now.values()])
            changed = ChangedAcls.between(before_table, table)
            for access in decision_changes_by(changed, before_table, AuthorizerSettings()):
                for operation in access.request_class.operations:
                    as_json = json.dumps(access.request_class.to_json(operation))
                    self.access[offset, access.direction, access.releases, as_json] += 1
            deltas: Counter[Row] = Counter()
            for acl_id in sorted(state.keys() | now.keys()):
                since, before = state.get(acl_id, (None, None))
                after = now.get(acl_id)
                if before == after:
                    continue
                self.changes[offset, since, before, after] += 1
                if before is not None:
                    self.periods[since, offset, before] += 1
                    deltas[kind_of(before)] -= 1
                    del state[acl_id]
                if after is not None:
                    deltas[kind_of(after)] += 1
                    state[acl_id] = (offset, after)
            for kind, delta in deltas.items():
                if delta:
                    by_kind[kind] += delta
                    self.counts[offset, kind, delta, by_kind[kind]] += 1
        for since, record in state.values():
            self.periods[since, None, record] += 1


def directory_states(directory: Path) -> Iterator[tuple[int, Acls]]:
    """The ACLs in force after each offset of a directory log."""
    with DirectoryLog.open(directory) as log:
        for offset in range(log.high_watermark()):
            image = load_image(log, at_offset=offset).image
            yield offset, {each.record.id: each.record for each in image}


def record_states(records: Iterable[LogRecord]) -> Iterator[tuple[int, Acls]]:
    """The ACLs in force after each record; those of a topic take effect one by one."""
    acls: dict[Uuid, AccessControlEntryRecord] = {}
    for logged in records:
        if isinstance(logged.record, AccessControlEntryRecord):
            acls[logged.record.id] = logged.record
        elif isinstance(logged.record, RemoveAccessControlEntryRecord):
            acls.pop(logged.record.id, None)
        yield logged.offset, dict(acls)


def rows_of(output: Path, table: str, cluster_id: str | None = None) -> list[dict[str, Any]]:
    """All rows of a table, read without Spark."""
    rows = DeltaTable(f"file://{output}/tables/{table}").to_pyarrow_table().to_pylist()
    return [row for row in rows if cluster_id in (None, row["cluster_id"])]


def assert_tables_are_of(output: Path, directory: Path, cluster_id: str | None = None) -> None:
    """The tables have exactly the expected rows of a directory log, each once."""
    assert_tables_have(output, NaiveTables(directory_states(directory)), cluster_id)


def assert_tables_have(output: Path, expected: NaiveTables, cluster_id: str | None = None) -> None:
    """The tables have exactly the expected rows, each once."""
    assert all(
        (row["begin_offset"], row["begin_time"]) == (0, None)
        for row in rows_of(output, "acl_coverage", cluster_id)
    )
    covered = [row["cluster_id"] for row in rows_of(output, "acl_coverage", cluster_id)]
    assert len(covered) == len(set(covered)) > 0
    assert_compacted_ranges_are_of(output, cluster_id)
    changes: Rows = Counter()
    for row in rows_of(output, "acl_changes", cluster_id):
        previous = row["previous"]
        before = None if previous is None else _record(row["id"], previous)
        now = _record(row["id"], row)
        assert (row["change"] == "added") == (before is None)
        after = None if row["change"] == "removed" else now
        assert after is not None or now == before
        since = None if previous is None else previous["valid_from_offset"]
        assert row["month"] == f"{row['time']:%Y-%m}"
        changes[row["offset"], since, before, after] += 1
    assert changes == expected.changes
    periods = Counter(
        (row["valid_from_offset"], row["valid_to_offset"], _record(row["id"], row))
        for row in rows_of(output, "acl_in_force", cluster_id)
    )
    assert periods == expected.periods
    counts: Rows = Counter()
    for row in rows_of(output, "acl_counts", cluster_id):
        kind = tuple(row[name] for name in ("resource_type", "pattern_type", "permission_type", "operation"))
        counts[row["offset"], kind, row["delta"], row["count"]] += 1
    assert counts == expected.counts
    access = Counter(
        (row["offset"], row["change"], row["releases"], json.dumps(_class_json(row)))
        for row in rows_of(output, "access_changes", cluster_id)
    )
    assert access == expected.access


def assert_compacted_ranges_are_of(output: Path, cluster_id: str | None = None) -> None:
    """acl_coverage has the ranges of the history's own coverage."""
    for row in rows_of(output, "acl_coverage", cluster_id):
        coverage = read_coverage(Storage(str(output)), row["cluster_id"])
        assert coverage is not None
        ranges = [(each["from_offset"], each["until_offset"]) for each in row["compacted_ranges"]]
        assert ranges == list(coverage.coarse)


def _class_json(row: dict[str, Any]) -> dict[str, Any]:
    """RequestClass.to_json of a row of access_changes."""

    def name(each: dict[str, Any]) -> dict[str, Any]:
        return {"name" if each["pattern_type"] == "LITERAL" else "prefix": each["name"]}

    witness = row["witness"]
    excluded = row["excluded_hosts"]
    return {
        "witness": {
            "principal": witness["principal"],
            "host": witness["host"],
            "operation": row["operation"],
            "resourceType": row["resource_type"],
            "resourceName": witness["resource_name"],
        },
        "principal": "*" if row["principal"] == "User:*" else row["principal"],
        "principalsExcept": row["excluded_principals"],
        "resourceType": row["resource_type"],
        "operation": row["operation"],
        "names": [
            name(each)
            | ({} if each["pattern_type"] == "LITERAL" else {"except": list(map(name, each["excluded"]))})
            for each in row["names"]
        ],
        "hosts": {"host": row["host"]} | ({"except": excluded} if row["host"] == "*" or excluded else {}),
    }


def _record(acl_id: str, row: dict[str, Any]) -> AccessControlEntryRecord:
    return record_from_row(uuid_from_string(acl_id), {name: row[name] for name in CONTENT})
