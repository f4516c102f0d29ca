"""Readers of exported files that do not use the product's code."""

from __future__ import annotations

import csv
from pathlib import Path

from authorizer.api.acl_json import content_from_json
from records.codecs import json
from records.entries import AccessControlEntryRecord, MetadataRecord
from records.ids import uuid_from_string
from snapshot.files.csv_cell import text_of_cell


def records_in_json_lines(path: Path) -> list[MetadataRecord]:
    """The object on each line; only a newline ends a line."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def acls_in_csv(path: Path) -> list[AccessControlEntryRecord]:
    """The rows by column name, without the quote that stops spreadsheets from running formulas."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            {name: text_of_cell(cell) for name, cell in row.items()}
            for row in csv.DictReader(file, strict=True)
        ]
        return [
            AccessControlEntryRecord(uuid_from_string(row["id"]), *content_from_json(row)) for row in rows
        ]
