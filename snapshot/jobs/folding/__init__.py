"""Fold of a log's records onto its stored state, as Spark tasks run it."""
