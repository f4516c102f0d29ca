"""Logs of metadata records: one module for each kind, one protocol for all (records.log.base)."""
