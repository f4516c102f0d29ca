"""The formats that a state can be exported in, apart from what writes them: a command's help names them."""

from __future__ import annotations

from enum import StrEnum


class ExportFormat(StrEnum):
    """Formats of ``export.export_image``."""

    AVRO = "avro"
    JSON_LINES = "jsonl"
    CSV = "csv"
    KIP11 = "kip11"
