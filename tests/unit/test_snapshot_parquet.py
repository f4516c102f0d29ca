"""Parts: every row comes back, as few strings as there are texts, and only our columns are read."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from records.columns.acl_table import AppliedAcl
from records.columns.acl_table_arrow import ACL_SCHEMA
from records.errors import EncodeError
from snapshot.columns import AclColumns
from snapshot.errors import SnapshotCorruptError
from snapshot.store.parquet import (
    decode_changes,
    decode_part,
    encode_changes,
    encode_part,
    read_part_table,
    to_rows,
)
from support.snapshots import acl, acl_id


def written(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def table(rows: int = 3) -> pa.Table:
    return pq.read_table(
        io.BytesIO(encode_part(AclColumns.of([AppliedAcl(acl(n), n, n) for n in range(rows)])))
    )


@pytest.mark.parametrize(
    "offsets", [[0, 5, 2**62], [None, None, None], [7, None, 9]], ids=["logged", "checkpoint", "mixed"]
)
def test_rows_come_back(offsets: list[int | None]) -> None:
    """Texts of any kind, codes of any sign, offsets that are known or not."""
    records = [
        acl(1),
        acl(2, resource_name="", principal="User:\n\"'\0", host="naïve-🚀" * 50, resource_type=-128),
        acl(3, operation=127, permission_type=-1, resource_name="t-1"),
    ]
    acls = [AppliedAcl(record, offset, 2**53 + 1) for record, offset in zip(records, offsets, strict=True)]
    assert list(decode_part(encode_part(AclColumns.of(acls)), rows=3, source="p")) == acls


def test_no_rows_come_back_as_none() -> None:
    """An empty part is a part."""
    assert len(decode_part(encode_part(AclColumns.EMPTY), rows=0, source="p")) == 0


def test_equal_texts_are_one_object() -> None:
    """Within a part and across parts: a million ACLs of a thousand principals hold a thousand strings."""
    parts = [
        decode_part(
            encode_part(
                AclColumns.of([AppliedAcl(acl(n, principal=f"User:{n % 3}"), n, 0) for n in numbers])
            ),
            rows=100,
            source="p",
        )
        for numbers in (range(100), range(100, 200))
    ]
    rows = [found.record for found in AclColumns.concat(parts)]
    assert len({id(record.principal) for record in rows}) == 3
    assert len({id(record.host) for record in rows}) == 1


def test_several_row_groups_and_dictionaries() -> None:
    """A file of other writers, with many row groups and no dictionaries, is read the same."""
    sink = io.BytesIO()
    pq.write_table(table(100), sink, row_group_size=7, use_dictionary=False, compression="none")
    part = decode_part(sink.getvalue(), rows=100, source="p")
    assert list(part) == [AppliedAcl(acl(n), n, n) for n in range(100)]


def test_columns_in_another_order_and_more_of_them() -> None:
    """Columns are known by name; those that we do not know are left alone."""
    other = table().select(list(reversed(ACL_SCHEMA.names))).append_column("note", pa.array(["x"] * 3))
    read, usual = (decode_part(written(each), rows=3, source="p") for each in (other, table()))
    assert list(read) == list(usual)


def test_ids_as_spark_writes_them() -> None:
    """Spark has no fixed-size binary: plain binary of 16 bytes each is taken too."""
    ids = table().column("id").cast(pa.binary())
    spark = table().set_column(0, "id", ids)
    assert decode_part(written(spark), rows=3, source="p").ids == acl_id(0) + acl_id(1) + acl_id(2)


def replaced(name: str, values: pa.Array) -> bytes:
    place = ACL_SCHEMA.get_field_index(name)
    return written(table().set_column(place, pa.field(name, values.type), values))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"PAR1" + bytes(100) + b"PAR1", "", id="nonsense"),
        pytest.param(written(table().drop_columns(["host"])), "0 columns `host`", id="missing"),
        pytest.param(replaced("host", pa.array([{"x": "y"}] * 3)), "", id="struct"),
        pytest.param(
            replaced("operation", pa.array([1, 2, 3], pa.int32())), "is int32, not int8", id="wider"
        ),
        pytest.param(
            replaced("timestamp_ms", pa.array([1, 2, 3], pa.timestamp("ms"))), "is timestamp", id="time"
        ),
        pytest.param(replaced("host", pa.array(["a", None, "b"])), "column `host` holds nulls", id="null"),
        pytest.param(replaced("operation", pa.array([1, None, 3], pa.int8())), "holds nulls", id="null code"),
        pytest.param(replaced("host", pa.array([1, 2, 3])), "column `host` is int64", id="no text"),
        pytest.param(replaced("host", pa.array([b"\xff", b"", b""])), "", id="not utf-8"),
        pytest.param(replaced("id", pa.array([b"1" * 16, b"2" * 15, b"3" * 16])), "", id="short id"),
        pytest.param(
            replaced("id", pa.array([b"1" * 8] * 3, pa.binary(8))), "fixed_size_binary[8]", id="8 bytes"
        ),
    ],
)
def test_other_files_are_corrupt(data: bytes, problem: str) -> None:
    """Whatever a part is, it gives our rows or a SnapshotCorruptError that names it."""
    with pytest.raises(SnapshotCorruptError, match=r"^p is not a snapshot part: ") as raised:
        decode_part(data, rows=3, source="p")
    assert problem in str(raised.value)


def test_some_rows_of_a_part() -> None:
    """They are as all rows are, and a file with the same bytes, wherever it is, is read once."""
    rows = AclColumns.of([AppliedAcl(acl(n, principal=f"User:{n % 3}"), n, n) for n in range(9)])
    data = encode_part(rows)
    part = read_part_table(data, rows=9, source="p")
    chosen = np.arange(9) % 2 == 0
    assert part.ids == rows.ids
    assert list(to_rows([part.take(chosen)])) == list(rows.take(chosen))
    assert list(decode_part(part.encoded_with(chosen, rows.take(~chosen)), rows=9, source="p")) == [
        *rows.take(chosen),
        *rows.take(~chosen),
    ]
    assert read_part_table(bytes(bytearray(data)), rows=9, source="q") is part
    for source in ("p", "q"):
        with pytest.raises(SnapshotCorruptError, match=f"{source} is not a snapshot part"):
            read_part_table(data[:-9], rows=9, source=source)


def test_a_lone_surrogate_is_refused() -> None:
    """Text that UTF-8 cannot hold: EncodeError, not some library's."""
    columns = AclColumns.of([AppliedAcl(acl(1, host="\ud800"), 0, 0)])
    with pytest.raises(EncodeError, match="cannot hold"):
        encode_part(columns)


def test_pandas_is_not_loaded() -> None:
    """Arrow's own ways from and to numpy load it where it is installed: 0.2 s at every start."""
    program = """
import sys
from records.entries import AccessControlEntryRecord
from snapshot.columns import AclColumns
from records.columns.acl_table import AppliedAcl
from snapshot.store.parquet import decode_part, encode_part
record = AccessControlEntryRecord(b"i" * 16, 2, "t", 3, "User:a", "*", 3, 3)
acls = [AppliedAcl(record, 7, 8), AppliedAcl(record, None, 8)]
assert list(decode_part(encode_part(AclColumns.of(acls)), rows=2, source="p")) == acls
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_changes_come_back() -> None:
    """Rows with their ACLs, and ids of rows that are gone."""
    columns = AclColumns.of([AppliedAcl(acl(number), None if number else 7, number) for number in range(3)])
    removed_ids = acl_id(8) + acl_id(9)
    data = encode_changes(columns, removed_ids)
    rows, ids = decode_changes(data, rows=5, source="p")
    assert (list(rows), ids) == (list(columns), removed_ids)
    rows, ids = decode_changes(encode_changes(AclColumns.EMPTY, removed_ids), rows=2, source="p")
    assert (len(rows), ids) == (0, removed_ids)
    # It is no part: what it leaves out would be taken for not there.
    with pytest.raises(SnapshotCorruptError, match="holds nulls"):
        decode_part(data, rows=5, source="p")


def test_a_removed_row_has_only_its_id() -> None:
    """Half an ACL is damage."""
    whole = pq.read_table(io.BytesIO(encode_changes(AclColumns.EMPTY, acl_id(8))))
    for name in ("host", "timestamp_ms", "operation"):
        field = whole.schema.field(name)
        value = pa.array(["x"] if field.type == pa.string() else [1], field.type)
        half = whole.set_column(whole.column_names.index(name), field, value)
        with pytest.raises(SnapshotCorruptError, match="p is not a snapshot part"):
            decode_changes(written(half), rows=1, source="p")


def bomb(rows: int, **columns: pa.Array) -> bytes:
    """A small file of many rows: each column holds one value, or what is given."""
    filled = {
        field.name: columns.get(field.name, pa.repeat(table(1).column(field.name)[0], rows))
        for field in ACL_SCHEMA
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(filled), sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def decoded_bytes(data: bytes, rows: int) -> int:
    """What Arrow took at most while a part was refused, after what it had before."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        for decode in (decode_part, decode_changes, read_part_table):
            with pytest.raises(SnapshotCorruptError, match="rows"):
                decode(data, rows=rows, source="p")
    finally:
        pa.set_memory_pool(before)
    return int(pool.max_memory() or 0)


@pytest.mark.parametrize("claimed_rows", [3_000_000, 2_999_999, 1000])
def test_a_file_of_many_rows_is_refused_by_its_footer(claimed_rows: int) -> None:
    """A hundred kilobytes would decode to a hundred megabytes; what the manifest says does not help."""
    data = bomb(3_000_000)
    assert len(data) < 200_000
    assert decoded_bytes(data, claimed_rows) < 1_000_000


def test_a_long_name_in_every_row_is_refused() -> None:
    """The footer says how large the columns are as they are stored, which for a dictionary is once."""
    rows = 20_000
    names = pa.DictionaryArray.from_arrays(pa.repeat(0, rows).cast(pa.int32()), ["n" * 30_000])
    ids = pa.array([n.to_bytes(16, "big") for n in range(rows)], pa.binary(16))
    data = bomb(rows, resource_name=names, id=ids)
    assert len(data) < 200_000
    assert decoded_bytes(data, rows) < 400_000_000  # of 600 MB


def test_row_groups_that_say_other_rows_are_refused() -> None:
    """Columns of ours are not read where the footer contradicts its manifest."""
    data = written(table(3))
    with pytest.raises(SnapshotCorruptError, match="it has 3 rows, its manifest says 4"):
        decode_part(data, rows=4, source="p")
