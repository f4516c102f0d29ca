"""The fields of many KRaft frames at once (records.codecs.kraft says how one lies). Pure.

    ACL frame  01 12 00 | id | type name | pattern principal | host | operation permission | 00

Plain frames are ACLs and removals as `values` says, nothing tagged on, codes from 0 to 127; and records that
pass by, known by their header alone. Source: AccessControlEntryRecord.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from records.codecs.kraft import FRAME_VERSION, RECORD_VERSION
from records.codecs.kraft_others import PASSING_VERSIONS
from records.columns.values import Fields, Layout, Values
from records.entries import ACCESS_CONTROL_ENTRY_API_KEY, REMOVE_ACCESS_CONTROL_ENTRY_API_KEY
from records.ids import UUID_BYTES

if TYPE_CHECKING:
    from records.columns.values import Ints

_LAYOUT: Final = Layout(header_bytes=3, ending=b"\0", is_doubled=False)
_REMOVE_BYTES: Final = _LAYOUT.header_bytes + UUID_BYTES + 1
# By API key, whose versions below this pass by.
_PASSING_BELOW: Final = np.zeros(256, np.uint8)
_PASSING_BELOW[[*PASSING_VERSIONS]] = [version + 1 for version in PASSING_VERSIONS.values()]


def frame_fields(values: Values, rows: Ints) -> Fields:
    """Of the values of these rows."""
    bytes_, starts, ends = values.bytes_, values.starts[rows], values.ends[rows]
    api_keys, versions = bytes_[starts + 1], bytes_[starts + 2]
    is_version_0 = versions == RECORD_VERSION
    is_acl = is_version_0 & (api_keys == ACCESS_CONTROL_ENTRY_API_KEY)
    is_removal = is_version_0 & (api_keys == REMOVE_ACCESS_CONTROL_ENTRY_API_KEY)
    is_removal &= (ends - starts == _REMOVE_BYTES) & (bytes_[ends - 1] == 0)
    is_known = is_acl | is_removal | (versions < _PASSING_BELOW[api_keys])
    is_known &= (bytes_[starts] == FRAME_VERSION) & (ends - starts >= _LAYOUT.header_bytes)
    return _LAYOUT.fields(values, rows, is_acl, is_removal, is_known)
