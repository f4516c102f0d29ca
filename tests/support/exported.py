"""What is in an exported file, read as another program reads it."""

from __future__ import annotations

import csv
from pathlib import Path

from authorizer.api.acl_json import acl_from_json
from records.codecs import json
from records.entries import AccessControlEntryRecord, MetadataRecord
from snapshot.files.csv_cell import text_of_cell


def records_in_json_lines(path: Path) -> list[MetadataRecord]:
    """Line by line; a line ends with a newline alone."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def acls_in_csv(path: Path) -> list[AccessControlEntryRecord]:
    """Row by row, by the names in the header, without what keeps a spreadsheet from running a text."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        return [acl_from_json({name: text_of_cell(cell) for name, cell in row.items()}) for row in rows]
