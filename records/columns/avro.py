"""The fields of many Avro values at once (records.codecs.avro says how one lies). Pure.

    ACL        C3 01 fingerprint | id | type name | pattern principal | host | operation permission

Plain values are ACLs and removals of today's schemas as `values` says, codes from 0 to 63.
Source: Apache Avro specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from records.codecs.avro import ACL_HEADER, HEADER_BYTES, REMOVE_HEADER
from records.columns.values import Fields, Layout, Values
from records.ids import UUID_BYTES

if TYPE_CHECKING:
    from records.columns.values import Ints

_LAYOUT: Final = Layout(header_bytes=HEADER_BYTES, ending=b"", is_doubled=True)


def avro_fields(values: Values, rows: Ints) -> Fields:
    """Of the values of these rows."""
    starts, ends = values.starts[rows], values.ends[rows]
    headers = values.windows(HEADER_BYTES, starts)
    is_acl = (headers == np.frombuffer(ACL_HEADER, np.uint8)).all(axis=1)
    is_removal = (headers == np.frombuffer(REMOVE_HEADER, np.uint8)).all(axis=1)
    is_removal &= ends - starts == HEADER_BYTES + UUID_BYTES
    return _LAYOUT.fields(values, rows, is_acl, is_removal, is_acl | is_removal)
