"""Export formats of a state. Apart from `export`, because the command's help needs no writers."""

from __future__ import annotations

from enum import StrEnum


class ExportFormat(StrEnum):
    """Formats of ``export.export_image``."""

    AVRO = "avro"
    JSON_LINES = "jsonl"
    CSV = "csv"
    KIP11 = "kip11"
