"""Metadata transactions (KIP-868), record by record. It shares only the records with the product."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from records.entries import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from records.log_batch import LogRecord


def effective_records(records: Iterable[LogRecord]) -> Iterator[tuple[LogRecord, list[LogRecord]]]:
    """Each record of a log, and the records that take effect at its offset."""
    pending: list[LogRecord] | None = None
    for logged in records:
        effective: list[LogRecord] = []
        match logged.record:
            case BeginTransactionRecord():
                pending = []
            case EndTransactionRecord():
                effective, pending = pending or [], None
            case AbortTransactionRecord():
                pending = None
            case _ if pending is not None:
                pending.append(logged)
            case _:
                effective = [logged]
        yield logged, effective
