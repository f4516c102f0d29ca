"""DescribeAcls from columns: the bytes that the encoder makes of values."""

from __future__ import annotations

import datetime as dt
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from authorizer.admin_server.handlers import acl_listing
from authorizer.admin_server.handlers.acl_listing import encode_listing
from authorizer.admin_server.request import schema_of
from authorizer.admin_server.values_encoder import values_encoder
from authorizer.api.errors import UnknownServerError
from authorizer.engine.decisions.listing import Listing, sort_in_kafka_order
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid

#: Few values, so that ACLs share patterns and some are equal; codes without a name, too.
TEXTS = st.sampled_from(["", "a", "b", "é" * 70, "n" * 130, "User:*", "😀" * 4_000])
CODES = st.sampled_from([0, 1, 2, 3, 4, 5, 9, 15, 16, 99, 127])
RECORDS = st.builds(
    AccessControlEntryRecord,
    st.integers(0, 5).map(lambda number: Uuid(number.to_bytes(16, "big"))),
    CODES,
    TEXTS,
    CODES,
    TEXTS,
    TEXTS,
    CODES,
    CODES,
)


def listing_of(records: list[AccessControlEntryRecord]) -> Listing:
    table = AclTable.of([AppliedAcl(record, None, 0) for record in records])
    rows = np.arange(len(table), dtype=np.int32)
    return Listing(table, sort_in_kafka_order(table, rows))


def encoded_values(listing: Listing, version: int) -> bytes:
    resources: list[dict[str, Any]] = [
        {
            "resource_type": pattern.resource_type,
            "resource_name": pattern.name,
            "pattern_type": pattern.pattern_type,
            "acls": [
                {
                    "principal": entry.principal,
                    "host": entry.host,
                    "operation": entry.operation,
                    "permission_type": entry.permission_type,
                }
                for entry in (binding.entry for binding in bindings)
            ],
        }
        for pattern, bindings in groupby(listing.bindings(), key=lambda binding: binding.pattern)
    ]
    schema = schema_of("describe_acls", version, EntityType.response)
    values = {"error_code": ErrorCode.none, "error_message": "", "resources": resources}
    out = bytearray()
    values_encoder(schema)(out, {"throttle_time": dt.timedelta(0), **values})
    return bytes(out)


@given(st.lists(RECORDS, max_size=40), st.sampled_from([1, 2, 3]), st.integers(1, 2_000))
def test_the_bytes_are_those_of_the_encoder_of_values(
    records: list[AccessControlEntryRecord], version: int, part_bytes: int
) -> None:
    listing = listing_of(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acl_listing, "_PART_BYTES", part_bytes)
        answer = encode_listing(listing, version)
        encoded = b"".join(answer.parts)
    assert encoded == encoded_values(listing, version)
    assert answer.size == len(encoded)


def test_a_text_that_a_version_cannot_hold_is_an_error() -> None:
    record = AccessControlEntryRecord(Uuid(bytes(16)), 2, "n" * 32_768, 3, "User:a", "*", 3, 3)
    assert b"n" * 32_768 in b"".join(encode_listing(listing_of([record]), 2).parts)
    with pytest.raises(UnknownServerError, match="32768 bytes"):
        encode_listing(listing_of([record]), 1)
