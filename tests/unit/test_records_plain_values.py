"""Which keys and values are read as columns; that they are read right is for test_jobs_decode."""

from __future__ import annotations

import pyarrow as pa
import pytest

from records.codecs.avro import encode
from records.codecs.kraft import encode_frame
from records.entries import BeginTransactionRecord, FeatureLevelRecord, RemoveAccessControlEntryRecord
from records.ids import uuid_to_string
from records.plain_values import PlainValues
from support.snapshots import acl, acl_id

ACL = acl(1)
REMOVAL = RemoveAccessControlEntryRecord(acl_id(1))
KEY = uuid_to_string(acl_id(1)).encode()
NO_OP = b"\x01\x14\x00\x00"


def read(*messages: tuple[bytes | None, bytes | None]) -> PlainValues:
    keys, values = (pa.array([message[at] for message in messages], pa.binary()) for at in (0, 1))
    return PlainValues(keys, values)


@pytest.mark.parametrize("value", [encode_frame(ACL), encode(ACL)], ids=["frame", "avro"])
@pytest.mark.parametrize("key", [None, KEY, bytes(acl_id(1))], ids=["none", "text", "bytes"])
def test_acls_are_read_as_columns(key: bytes | None, value: bytes) -> None:
    """Every field, beside rows of other kinds."""
    found = read((None, NO_OP), (key, value), (KEY, None), (key, value))
    assert (found.acls.tolist(), found.removals.tolist(), found.others.tolist()) == ([1, 3], [2], [])
    assert found.ids == acl_id(1) * 2
    columns = (
        found.resource_types.tolist(),
        found.names.to_pylist(),
        found.pattern_types.tolist(),
        found.principals.to_pylist(),
        found.hosts.to_pylist(),
        found.operations.tolist(),
        found.permission_types.tolist(),
    )
    assert list(zip(*columns, strict=True)) == [ACL.content] * 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, encode_frame(REMOVAL)),
        (KEY, encode_frame(REMOVAL)),
        (KEY, encode(REMOVAL)),
        (KEY, None),
        (bytes(acl_id(1)), None),
    ],
)
def test_removals_are_read_as_columns(key: bytes | None, value: bytes | None) -> None:
    """Records, and tombstones."""
    found = read((None, NO_OP), (key, value))
    assert (found.removals.tolist(), found.removal_ids) == ([1], acl_id(1))
    assert found.acls.tolist() == found.others.tolist() == []


@pytest.mark.parametrize("size", [0, 1, 63, 64, 126, 127, 128, 5000])
def test_texts_of_all_sizes_are_read_as_columns(size: int) -> None:
    """Sizes of one byte and of two, in both formats."""
    long = acl(1, resource_name="n" * size, principal="ü" * (size // 2), host="h" * size)
    found = read((None, encode_frame(long)), (None, encode(long)))
    assert found.acls.tolist() == [0, 1]
    assert found.names.to_pylist() == [long.resource_name] * 2
    assert found.principals.to_pylist() == [long.principal] * 2
    assert found.hosts.to_pylist() == [long.host] * 2


FRAME, AVRO = encode_frame(ACL), encode(ACL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, encode_frame(FeatureLevelRecord("f", 1))),
        (None, encode_frame(BeginTransactionRecord())),
        (None, encode_frame(acl(1, operation=-1))),
        (None, encode(acl(1, operation=-1))),
        (None, encode(acl(1, operation=64))),
        (None, encode(acl(1, host="h" * 20_000))),
        (None, FRAME[:-1]),
        (None, AVRO[:-1]),
        (None, AVRO + b"\x00"),
        (None, AVRO[:9]),
        (None, AVRO[:10]),
        (None, encode(REMOVAL)[:-1]),
        (None, b"\xc3\x01" + bytes(8) + AVRO[10:]),
        (None, b"{}"),
        (None, b""),
        (None, None),
        (b"short", None),
        (b"\xff" * 22, None),
        (uuid_to_string(acl_id(2)).encode(), FRAME),
        (uuid_to_string(acl_id(2)).encode(), AVRO),
        (bytes(acl_id(2)), encode(REMOVAL)),
        (b"short", AVRO),
    ],
)
def test_all_else_is_left_to_others(key: bytes | None, value: bytes | None) -> None:
    """What is unusual or wrong; what stands beside it is not."""
    found = read((KEY, AVRO), (key, value), (KEY, FRAME))
    assert (found.acls.tolist(), found.removals.tolist(), found.others.tolist()) == ([0, 2], [], [1])


@pytest.mark.parametrize("value", [FRAME.replace(b"t-1", b"t-\xff"), AVRO.replace(b"t-1", b"\xed\xa0\x80")])
def test_where_a_text_is_not_utf_8_all_acls_are_left_to_others(value: bytes) -> None:
    """Arrow does not say which one."""
    found = read((KEY, FRAME), (None, value), (KEY, None))
    assert (found.acls.tolist(), found.removals.tolist(), found.others.tolist()) == ([], [2], [0, 1])


def test_no_rows() -> None:
    """Nothing in, nothing out."""
    found = read()
    assert (len(found.acls), len(found.removals), len(found.others), found.ids) == (0, 0, 0, b"")
