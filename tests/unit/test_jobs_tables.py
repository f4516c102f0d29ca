"""Tables of a history without Spark: their publications, and the page that describes them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from snapshot.errors import SnapshotCorruptError, SparkJobError
from snapshot.jobs.changes.tables.publication import last_publication, next_publication, put_publication
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
    put_publication(storage, first)
    assert last_publication(storage) == first
    for table in TABLES:
        (tmp_path / "tables" / table.name).mkdir()
    second = next_publication(first, {"a": 9})
    assert (second.writer, second.number, second.ranges) == (first.writer, 2, {"a": (5, 9)})
    put_publication(storage, second)
    assert len(storage.files("tables/_publications")) == 2
    assert last_publication(storage) == second
    put_publication(storage, msgspec.structs.replace(second, is_complete=True))
    assert len(storage.files("tables/_publications")) == 1
    assert next_publication(second, {"b": 8}).ranges == {"b": (7, 8)}


def test_tables_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    """Without its publication a table would be written twice, and a removed table only in part."""
    storage = Storage(str(tmp_path))
    again = r"Move .*tables away: the next run writes all tables again from the history"
    for table in TABLES:
        (tmp_path / "tables" / table.name).mkdir(parents=True)
    with pytest.raises(SparkJobError, match=rf"_publications is missing, but there are tables. {again}"):
        last_publication(storage)
    first = next_publication(None, {"a": 5})
    put_publication(storage, first)
    second = next_publication(first, {"a": 6})
    put_publication(storage, second)
    (tmp_path / "tables" / "acl_counts").rmdir()
    with pytest.raises(SparkJobError, match=rf"has no table acl_counts: .* {again}"):
        last_publication(storage)
    (tmp_path / "tables" / "_publications" / "0000000002.json").write_text("{", encoding="utf-8")
    with pytest.raises(SnapshotCorruptError, match=rf"0000000002.json is damaged: .* {again}"):
        last_publication(storage)
