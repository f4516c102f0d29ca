"""Past states: scanned from the log or read from Spark's history, cached and compared."""
