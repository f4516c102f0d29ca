"""Filters against Kafka: what `acls(filter)` lists in the oracle's `filters` cases."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from records.acl import AclBinding
from records.codecs.json import loads
from records.entries import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from support.data import CASES
from support.naive_answer import filter_of


def lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


def bindings_after(records: list[MetadataRecord]) -> list[AclBinding]:
    """These cases hold no repeated ids and no equal ACLs: a dict is the whole fold."""
    acls: dict[bytes, AclBinding] = {}
    for record in records:
        match record:
            case AccessControlEntryRecord():
                acls[record.id] = record.binding()
            case RemoveAccessControlEntryRecord():
                del acls[record.id]
    return list(acls.values())


def listed(binding: AclBinding) -> tuple[str, ...]:
    pattern, entry = binding.pattern, binding.entry
    return (
        pattern.resource_type.name,
        pattern.name,
        pattern.pattern_type.name,
        entry.principal,
        entry.host,
        entry.operation.name,
        entry.permission_type.name,
    )


@pytest.mark.parametrize("case", sorted(CASES.glob("*-filters")), ids=lambda path: path.name)
def test_filters_match_the_acls_that_kafka_lists(case: Path) -> None:
    """Some 200 filters for each case, against the ACLs after any number of records."""
    records = [loads(line) for line in lines(case / "records.jsonl.gz")]
    queries = [json.loads(line) for line in lines(case / "queries.jsonl.gz")]
    answers = [json.loads(line) for line in lines(case / "expected.jsonl.gz")]
    compared = 0
    for query, answer in zip(queries, answers, strict=True):
        if query.get("kind") == "acls" and "acls" in answer:
            wanted = filter_of(query)
            found = [
                binding
                for binding in bindings_after(records[: query.get("atOffset", len(records))])
                if wanted.matches(binding)
            ]
            assert sorted(map(listed, found)) == sorted(tuple(acl.values()) for acl in answer["acls"])
            compared += 1
    assert compared > 150
