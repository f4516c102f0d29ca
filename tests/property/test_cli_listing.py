"""`aclog acls --list` by column, compared with a listing made from one ACL after the other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from authorizer.cli.acls import kafka_acls_listing
from authorizer.cli.acls.kafka_acls_listing import listing, listing_of_principal
from authorizer.cli.main import cli
from authorizer.cli.rendering import output
from authorizer.cli.rendering.output import shown
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_to_name
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from support.acl_strategies import acls
from support.data import real_log

# Characters that could forge a line, and harmless characters that are not printable.
FORGING = st.sampled_from(("a\nb", "\x1b[2J", "\x85", "\u2028", "\ud800", "a\u00a0b"))


def strange(
    record: AccessControlEntryRecord, name: str | None, principal: str | None
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        record.id,
        record.resource_type,
        record.resource_name if name is None else name,
        record.pattern_type,
        record.principal if principal is None else principal,
        record.host,
        record.operation,
        record.permission_type,
    )


any_acls = st.lists(st.builds(strange, acls(), st.none() | FORGING, st.none() | FORGING), max_size=30)


def columns_of(records: Iterable[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def resource(record: AccessControlEntryRecord) -> tuple[int, str, int]:
    return record.resource_type, record.resource_name, record.pattern_type


def entry(record: AccessControlEntryRecord) -> tuple[str, str, int, int]:
    return record.principal, record.host, record.operation, record.permission_type


def listed_one_by_one(records: Iterable[AccessControlEntryRecord]) -> str:
    ordered = sorted(records, key=lambda record: (resource(record), entry(record)))
    text = ""
    for (resource_type, name, pattern_type), block in groupby(ordered, key=resource):
        text += (
            f"Current ACLs for resource `ResourcePattern(resourceType="
            f"{code_to_name(ResourceType, resource_type)}, name={shown(name)}, "
            f"patternType={code_to_name(PatternType, pattern_type)})`:\n"
        )
        for (principal, host, operation, permission), _ in groupby(block, key=entry):
            text += (
                f"\t(principal={shown(principal)}, host={shown(host)}, "
                f"operation={code_to_name(AclOperation, operation)}, "
                f"permissionType={code_to_name(AclPermissionType, permission)})\n"
            )
        text += "\n"
    return text


@given(any_acls, st.integers(1, 5))
def test_a_listing_by_column_equals_one_by_record(
    records: list[AccessControlEntryRecord], piece_rows: int
) -> None:
    """Same order, same escapes, each ACL once for all its ids, wherever a piece ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_acls_listing, "_PIECE_ROWS", piece_rows)
        assert "".join(listing(columns_of(records))) == listed_one_by_one(records)


@given(any_acls.filter(bool), st.data())
def test_a_listing_of_one_principal(records: list[AccessControlEntryRecord], data: st.DataObject) -> None:
    """It has that principal's ACLs alone, under its name; an unknown principal has none."""
    principal = data.draw(st.sampled_from([record.principal for record in records]) | st.just("User:nobody"))
    of_principal = [record for record in records if record.principal == principal]
    text = "".join(listing_of_principal(principal, columns_of(records)))
    assert text == f"ACLs for principal `{shown(principal)}`\n" + listed_one_by_one(of_principal)


def test_progress_is_printed_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, or with --progress, stderr shows how much of the log was read."""
    monkeypatch.setattr(output, "_PROGRESS_LINE_EVERY_S", 0.0)
    command = ["acls", "--log", str(real_log("kraft-small")), "--list"]
    assert "offsets: 281 of 281 (100 %)" in CliRunner().invoke(cli, [*command, "--progress"]).stderr
    assert "offsets: " not in CliRunner().invoke(cli, command).stderr


def test_a_complete_listing_creates_no_acl_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects for 200,000 ACLs would take a second; the listing reads the columns."""

    def refused(*_: object) -> None:
        raise AssertionError("rows were made into objects")

    monkeypatch.setattr(AclTable, "acls", refused)
    monkeypatch.setattr(AclTable, "acl", refused)
    for args in ([], ["--principal", "User:alice"]):
        result = CliRunner().invoke(cli, ["acls", "--log", str(real_log("kraft-small")), "--list", *args])
        assert result.exit_code == 0
        assert "(principal=User:alice" in result.stdout
