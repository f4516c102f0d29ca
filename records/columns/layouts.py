"""Byte layouts of ACLs in KRaft frames, in Avro and in message keys: fields of many values as columns. Pure.

    KRaft frame  01 12 00 | id | type name | pattern principal | host | operation permission | 00
    Avro         C3 01 fingerprint | id | type name | pattern principal | host | operation permission
    key          the ACL's id: 16 bytes, or 22 characters of URL-safe base64

Supports ACLs and removals of the current schemas without tagged fields, codes from 0 to 127 (Avro: 63), and
the headers of ignored frames. records.codecs and records.log.topic.codec decode everything else.
Sources: AccessControlEntryRecord.json, Apache Avro specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from records.codecs.avro_header import ACL_HEADER, HEADER_BYTES, REMOVE_HEADER
from records.codecs.kraft import FRAME_VERSION, RECORD_VERSION
from records.codecs.kraft_cluster_records import IGNORED_VERSIONS
from records.columns.values import Fields, Layout, Values
from records.entries import ACCESS_CONTROL_ENTRY_API_KEY, REMOVE_ACCESS_CONTROL_ENTRY_API_KEY
from records.ids import UUID_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

    from records.columns.values import Bytes, Ints, Mask


_FRAME_LAYOUT: Final = Layout(header_bytes=3, ending=b"\0", is_doubled=False)
_REMOVE_FRAME_BYTES: Final = _FRAME_LAYOUT.header_bytes + UUID_BYTES + 1
# By API key: records of versions below this are ignored.
_IGNORED_BELOW: Final = np.zeros(256, np.uint8)
_IGNORED_BELOW[[*IGNORED_VERSIONS]] = [version + 1 for version in IGNORED_VERSIONS.values()]


def frame_fields(values: Values, rows: Ints) -> Fields:
    """Decode the fields of the KRaft frames in these rows."""
    bytes_, starts, ends = values.bytes_, values.starts[rows], values.ends[rows]
    api_keys, versions = bytes_[starts + 1], bytes_[starts + 2]
    is_version_0 = versions == RECORD_VERSION
    is_acl = is_version_0 & (api_keys == ACCESS_CONTROL_ENTRY_API_KEY)
    is_removal = is_version_0 & (api_keys == REMOVE_ACCESS_CONTROL_ENTRY_API_KEY)
    is_removal &= (ends - starts == _REMOVE_FRAME_BYTES) & (bytes_[ends - 1] == 0)
    is_known = is_acl | is_removal | (versions < _IGNORED_BELOW[api_keys])
    is_known &= (bytes_[starts] == FRAME_VERSION) & (ends - starts >= _FRAME_LAYOUT.header_bytes)
    return _FRAME_LAYOUT.fields(values, rows, is_acl, is_removal, is_known)


_AVRO_LAYOUT: Final = Layout(header_bytes=HEADER_BYTES, ending=b"", is_doubled=True)


def avro_fields(values: Values, rows: Ints) -> Fields:
    """Decode the fields of the Avro values in these rows."""
    starts, ends = values.starts[rows], values.ends[rows]
    headers = values.windows(HEADER_BYTES, starts)
    is_acl = (headers == np.frombuffer(ACL_HEADER, np.uint8)).all(axis=1)
    is_removal = (headers == np.frombuffer(REMOVE_HEADER, np.uint8)).all(axis=1)
    is_removal &= ends - starts == HEADER_BYTES + UUID_BYTES
    return _AVRO_LAYOUT.fields(values, rows, is_acl, is_removal, is_acl | is_removal)


_KEY_CHARACTERS: Final = 22
_NO_DIGIT: Final = 0xFF
# The 6 bits of each character of URL-safe base64.
_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")] = np.arange(64)


class KeyIds:
    """Ids in the keys of many messages.

    Attributes:
        is_id: whether each key is an id.
        ids: a row of 16 bytes for each key.
    """

    __slots__ = ("_is_null", "ids", "is_id")

    def __init__(self, keys: Values) -> None:
        count = len(keys)
        self.ids = np.zeros((count, UUID_BYTES), np.uint8)
        self.is_id = np.zeros(count, np.bool_)
        self._is_null: Mask = np.zeros(count, np.bool_) if keys.is_null is None else keys.is_null
        sizes = np.where(self._is_null, 0, keys.ends - keys.starts)
        as_bytes = np.flatnonzero(sizes == UUID_BYTES)
        self.ids[as_bytes] = keys.windows(UUID_BYTES, keys.starts[as_bytes])
        self.is_id[as_bytes] = True
        as_text = np.flatnonzero(sizes == _KEY_CHARACTERS)
        digits = np.zeros((len(as_text), _KEY_CHARACTERS + 2), np.uint8)
        digits[:, :_KEY_CHARACTERS] = _DIGITS[keys.windows(_KEY_CHARACTERS, keys.starts[as_text])]
        self.is_id[as_text] = (digits != _NO_DIGIT).all(axis=1)
        first, second, third, fourth = digits.reshape(-1, 6, 4).transpose(2, 0, 1)
        triples = np.stack([first << 2 | second >> 4, second << 4 | third >> 2, third << 6 | fourth], axis=2)
        self.ids[as_text] = triples.reshape(len(as_text), 18)[:, :UUID_BYTES]

    def contradict(self, rows: Ints, ids: Bytes) -> npt.NDArray[np.bool_]:
        """Whether the key of each row differs from the given id of its value."""
        differs: Mask = ~self.is_id[rows] | (self.ids[rows] != ids).any(axis=1)
        return differs & ~self._is_null[rows]
