"""Tables of a history without Spark: publications, access changes, and the page that describes them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest

from authorizer.analysis.history.access_history import Bounds
from authorizer.api.kafka_version import KafkaVersion
from authorizer.cli.spark.access_analysis import SettingsAnalysis
from authorizer.engine.decisions.state import AuthorizerSettings
from records.ids import Uuid
from records.log.base import LogIdentity
from snapshot.errors import HistoryMissingError, SnapshotCorruptError, SnapshotError, SparkJobError
from snapshot.jobs.changes.change_table import CONTENT
from snapshot.jobs.changes.coverage import BrokerLevels, Coverage, levels_at
from snapshot.jobs.changes.tables import access_rows, maintenance
from snapshot.jobs.changes.tables.access_rows import ClusterRange
from snapshot.jobs.changes.tables.maintenance import VACUUM_AFTER_HOURS, maintain
from snapshot.jobs.changes.tables.publication import (
    begin_publication,
    end_publication,
    last_publication,
    next_publication,
    require_tables,
)
from snapshot.jobs.changes.tables.schema import TABLES
from snapshot.store.storage import Storage

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_describes_every_column() -> None:
    page = (ROOT / "docs" / "spark-tables.md").read_text(encoding="utf-8")
    for table in TABLES:
        (section,) = [part for part in page.split("\n## ") if part.startswith(f"{table.name}\n")]
        assert f"\n{table.comment}.\n" in section
        for column in table.columns:
            (row,) = [line for line in section.splitlines() if line.startswith(f"| `{column.name}` |")]
            assert row.endswith(f" | {column.comment} |")


def test_a_publication_continues_the_one_before(tmp_path: Path) -> None:
    """A cluster keeps its end until it advances; only the newest complete one is kept."""
    storage = Storage(str(tmp_path))
    assert last_publication(storage) is None
    first = next_publication(None, {"a": 5, "b": 7})
    assert first.ranges == {"a": (None, 5), "b": (None, 7)}
    assert begin_publication(storage, first)
    assert last_publication(storage) == first
    with pytest.raises(HistoryMissingError, match="has no tables"):
        require_tables(storage)  # they are being written
    for table in TABLES:
        (tmp_path / "tables" / table.name).mkdir()
    second = next_publication(first, {"a": 9})
    assert (second.writer, second.number, second.ranges) == (first.writer, 2, {"a": (5, 9)})
    assert begin_publication(storage, second)
    assert len(storage.files("tables/_publications")) == 2
    assert last_publication(storage) == second
    assert begin_publication(storage, second)
    assert not begin_publication(storage, next_publication(first, {"a": 8}))
    assert last_publication(storage) == second
    require_tables(storage)
    complete = end_publication(storage, second)
    assert (complete.is_complete, last_publication(storage)) == (True, complete)
    assert len(storage.files("tables/_publications")) == 1
    assert next_publication(second, {"b": 8}).ranges == {"b": (7, 8)}

    def completed_by_the_job(path: str) -> bytes:
        reading.stop()
        third = next_publication(complete, {"a": 10})
        begin_publication(storage, third)
        end_publication(storage, third)
        return storage.read(path)

    reading = patch.object(storage, "read", completed_by_the_job)
    reading.start()
    last = last_publication(storage)
    assert last is not None
    assert (last.number, last.is_complete) == (3, True)


def test_tables_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    """Without its publication a table would be written twice, and a removed table only in part."""
    storage = Storage(str(tmp_path))
    again = r"Move .*tables away: the next run writes all tables again from the history"
    for table in TABLES:
        (tmp_path / "tables" / table.name).mkdir(parents=True)
    with pytest.raises(SparkJobError, match=rf"_publications is missing, but there are tables. {again}"):
        last_publication(storage)
    first = next_publication(None, {"a": 5})
    assert begin_publication(storage, first)
    second = next_publication(first, {"a": 6})
    assert begin_publication(storage, second)
    (tmp_path / "tables" / "acl_counts").rmdir()
    with pytest.raises(SparkJobError, match=rf"has no table acl_counts: .* {again}"):
        last_publication(storage)
    (tmp_path / "tables" / "_publications" / "0000000002.json").write_text("{", encoding="utf-8")
    with pytest.raises(SnapshotCorruptError, match=rf"0000000002.json is damaged: .* {again}"):
        last_publication(storage)


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("topic_id", *CONTENT)),
        ("valid_from_offset", pa.int64()),
        ("valid_to_offset", pa.int64()),
        ("valid_from_time", pa.timestamp("us", "UTC")),
        ("valid_to_time", pa.timestamp("us", "UTC")),
    ]
)
ACCESS_SCHEMA = pa.schema(
    [
        *(
            (name, pa.string())
            for name in ("cluster_id", "month", "change", "principal", "operation", "host", "releases")
        ),
        ("offset", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("excluded_principals", pa.list_(pa.string())),
        ("names", pa.list_(pa.struct([("name", pa.string()), ("pattern_type", pa.string())]))),
        *((f"omitted_{name}", pa.int64()) for name in ("names", "principals", "classes")),
    ]
)


def period(name: str, principal: str, begin: int | None, **changes: Any) -> dict[str, Any]:
    """A row of acl_in_force: an ALLOW of READ on a topic; null: from before the history."""
    content = dict(zip(CONTENT, ("TOPIC", name, "LITERAL", principal, "*", "READ", "ALLOW"), strict=True))
    time = None if begin is None else datetime(2026, 11, 30, 23, begin, tzinfo=UTC)
    return {**content, "topic_id": "t", "valid_from_offset": begin, "valid_from_time": time} | changes


def analysed(
    periods: list[dict[str, Any]],
    bounds: Bounds | None = None,
    cluster_range: ClusterRange | None = None,
) -> list[dict[str, Any]]:
    rows = pa.Table.from_pylist(periods, SCHEMA)
    analysis = SettingsAnalysis(AuthorizerSettings(), bounds)
    return list(
        access_rows._analysed(
            rows, "c", cluster_range or ClusterRange(5, 9), analysis, ACCESS_SCHEMA
        ).to_pylist()
    )


def test_retention_is_refused_while_changes_are_deferred(tmp_path: Path) -> None:
    """Before any statement of SQL: the analysis needs the rows. Without retention, maintenance begins."""
    session = Mock()
    session.sql.side_effect = SnapshotError("maintenance has begun")
    with (
        patch.object(maintenance, "_session", return_value=session),
        patch.object(maintenance, "deferred_changes", return_value=3),
    ):
        run = partial(maintain, session, str(tmp_path), vacuum_after_hours=VACUUM_AFTER_HOURS)
        with pytest.raises(SparkJobError, match="3 changes are deferred: their analysis needs"):
            list(run(keep_from=datetime.now(UTC)))
        session.sql.assert_not_called()
        session.read.format.assert_not_called()
        with pytest.raises(SnapshotError, match="maintenance has begun"):
            list(run())
    assert list(tmp_path.rglob("*.json")) == []


def test_the_analysis_can_be_made_again_of_its_configuration(tmp_path: Path) -> None:
    """As a publication stores it."""
    for settings in (
        AuthorizerSettings(),
        AuthorizerSettings(frozenset({"User:a", "User:CN=b,O=c"}), True, KafkaVersion.V4_3),
    ):
        publication = next_publication(None, {"a": 5}, SettingsAnalysis(settings).configs())
        storage = Storage(str(tmp_path / str(settings.allow_everyone)))
        assert begin_publication(storage, publication)
        stored = last_publication(storage)
        assert stored is not None
        assert SettingsAnalysis.of_configs(stored.analysis).settings == settings


def test_access_changes_of_periods() -> None:
    """One row for each operation; a period from before the history is no change."""
    ended = {"valid_to_offset": 6, "valid_to_time": datetime(2026, 12, 1, tzinfo=UTC)}
    rows = analysed([period("old", "User:a", None, **ended), period("new", "User:b", 5)])
    found = [(row["offset"], row["month"], row["change"], row["principal"], row["operation"]) for row in rows]
    assert found == [
        (6, "2026-12", "revoked", "User:a", "READ"),
        (6, "2026-12", "revoked", "User:a", "DESCRIBE"),
        (5, "2026-11", "granted", "User:b", "READ"),
        (5, "2026-11", "granted", "User:b", "DESCRIBE"),
    ]
    assert rows[0]["names"] == [{"name": "old", "pattern_type": "LITERAL"}]
    assert not any(row["omitted_names"] for row in rows)


def test_access_changes_have_the_release_that_the_log_names() -> None:
    """An ACL for a network: brokers of 4.3 ignore it, and without brokers both rules are possible."""
    network = [period("new", "User:b", 5, host="10.0.0.0/24")]
    for levels, releases in (((), ["from Kafka 4.4 on"] * 2), ((30,), []), ((33,), [None] * 2)):
        found = ClusterRange(5, 9, (BrokerLevels(0, 9, None, levels),))
        assert [row["releases"] for row in analysed(network, cluster_range=found)] == releases


def test_the_levels_of_a_log_by_offset() -> None:
    """In the batch that changed them, those before and after it; a repeated batch replaces its own."""
    coverage = Coverage.beginning(LogIdentity("c", Uuid(bytes(16))), 0, 0)
    for start, end, version, levels in (
        *((0, 10, 30, (30,)), (10, 20, 30, (30,))),
        *((20, 30, 30, (30, 33)), (20, 25, 33, (33,)), (25, 30, 33, (33,))),
    ):
        coverage = coverage.with_brokers(BrokerLevels(start, end, version, levels))
    assert [each.start for each in coverage.brokers] == [0, 20]
    found = [levels_at(coverage.brokers, offset) for offset in (3, 19, 20, 24, 25)]
    assert [(each.metadata_version, each.levels) for each in found] == [
        *((30, (30,)), (30, (30,))),
        *((30, (30, 33)), (30, (30, 33))),
        (33, (33,)),
    ]
    assert levels_at((), 3).levels == ()


def test_access_changes_beyond_a_bound_are_marked() -> None:
    """Work of all changes, and names of one class. A deferred change has its rows when it is analysed."""
    (row,) = analysed([period("new", "User:b", 5)], Bounds(work=1))
    assert (row["offset"], row["month"], row["change"], row["principal"]) == (
        *(5, "2026-11", "deferred"),
        "User:b",
    )
    assert (row["omitted_principals"], row["names"]) == (None, None)
    deferred = ClusterRange(9, 9, deferred=frozenset({5}))
    rows = analysed([period("new", "User:b", 5), period("old", "User:b", 4)], cluster_range=deferred)
    assert [(row["offset"], row["month"], row["change"]) for row in rows] == [
        (5, "2026-11", "analysed"),
        (5, "2026-11", "granted"),
        (5, "2026-11", "granted"),
    ]
    names = [period(f"n-{number}", "User:b", 5) for number in range(1_500)]
    read, _ = analysed(names)
    assert (len(read["names"]), read["omitted_names"]) == (1_000, 500)
    denied = [period("x", f"User:{number}", 1, permission_type="DENY") for number in range(2_000)]
    *listed, omitted = analysed([*denied, period("x", "User:*", 5)])
    assert [(row["principal"], row["excluded_principals"]) for row in listed] == [("User:*", None)] * 2
    assert (omitted["principal"], omitted["omitted_principals"]) == ("User:*", 2_000)
