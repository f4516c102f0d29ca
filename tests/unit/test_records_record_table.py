"""Which keys and values are read as columns, and what is left to the general decoders."""

from __future__ import annotations

import numpy as np
import pytest

from records.codecs.avro import encode
from records.codecs.kraft import encode_frame
from records.columns.record_table import RecordTable
from records.columns.values import Values
from records.entries import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import uuid_to_string
from support.snapshots import acl, acl_id

ACL = acl(1)
REMOVAL = RemoveAccessControlEntryRecord(acl_id(1))
KEY = uuid_to_string(acl_id(1)).encode()
NO_OP = b"\x01\x14\x00\x00"


def read(*messages: tuple[bytes | None, bytes | None]) -> RecordTable:
    keys, values = ([message[at] for message in messages] for at in (0, 1))
    places = np.arange(len(messages))
    return RecordTable(Values.of(values), places, places, keys=Values.of(keys))


@pytest.mark.parametrize("value", [encode_frame(ACL), encode(ACL)], ids=["frame", "avro"])
@pytest.mark.parametrize("key", [None, KEY, bytes(acl_id(1))], ids=["none", "text", "bytes"])
def test_acls_are_read_as_columns(key: bytes | None, value: bytes) -> None:
    """Every field, beside rows of other kinds."""
    found = read((key, value), (KEY, None), (key, value))
    assert (found.acls.tolist(), found.removals.tolist(), found.unread.tolist()) == ([0, 2], [1], [])
    assert list(found.table.records(slice(None))) == [ACL] * 2
    assert list(found.records(0, 3)) == [ACL, REMOVAL, ACL]


def test_records_that_pass_by_are_known_by_their_header() -> None:
    """They are none of the three, and objects all the same."""
    found = read((None, encode_frame(ACL)), (None, NO_OP))
    assert (found.acls.tolist(), found.removals.tolist(), found.unread.tolist()) == ([0], [], [])
    assert list(found.records(0, 2)) == [ACL, OtherRecord(20, 0)]


def test_of_two_formats_the_one_that_is_there_more_often_is_read() -> None:
    """The values of the other are left to its general decoder."""
    found = read((KEY, AVRO), (KEY, FRAME), (KEY, AVRO), (KEY, None))
    assert (found.acls.tolist(), found.removals.tolist(), found.unread.tolist()) == ([0, 2], [3], [1])
    found = read((KEY, FRAME), (KEY, FRAME), (KEY, AVRO))
    assert (found.acls.tolist(), found.unread.tolist()) == ([0, 1], [2])


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
    found = read((key, value))
    assert (found.removals.tolist(), found.removal_ids) == ([0], acl_id(1))
    assert found.acls.tolist() == found.unread.tolist() == []


@pytest.mark.parametrize("size", [0, 1, 63, 64, 126, 127, 128, 5000, 20_000])
def test_texts_of_all_sizes_are_read_as_columns(size: int) -> None:
    """Sizes of one byte to three, in both formats."""
    long = acl(1, resource_name="n" * size, principal="ü" * (size // 2), host="h" * size)
    for value in (encode_frame(long), encode(long)):
        found = read((None, value), (None, value))
        assert found.acls.tolist() == [0, 1]
        assert list(found.table.records(slice(None))) == [long] * 2


FRAME, AVRO = encode_frame(ACL), encode(ACL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, encode_frame(FeatureLevelRecord("f", 1))),
        (None, encode_frame(BeginTransactionRecord())),
        (None, encode_frame(acl(1, operation=-1))),
        (None, encode(acl(1, operation=-1))),
        (None, encode(acl(1, operation=64))),
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
def test_other_rows_are_left_to_the_general_decoders(key: bytes | None, value: bytes | None) -> None:
    """What is unusual or wrong; what stands beside it is not."""
    for sound in (AVRO, FRAME):
        found = read((KEY, sound), (key, value), (KEY, sound))
        assert (found.acls.tolist(), found.removals.tolist(), found.unread.tolist()) == ([0, 2], [], [1])


@pytest.mark.parametrize("value", [FRAME.replace(b"t-1", b"t-\xff"), AVRO.replace(b"t-1", b"\xed\xa0\x80")])
def test_where_a_text_is_not_utf_8_all_acls_are_left_to_others(value: bytes) -> None:
    """Arrow does not say which one."""
    sound = FRAME if value.startswith(FRAME[:1]) else AVRO
    found = read((KEY, sound), (None, value), (KEY, None))
    assert (found.acls.tolist(), found.removals.tolist(), found.unread.tolist()) == ([], [2], [0, 1])


def test_no_rows_give_an_empty_table() -> None:
    """Nothing in, nothing out."""
    found = read()
    assert (len(found.acls), len(found.removals), len(found.unread), found.table.ids) == (0, 0, 0, b"")
