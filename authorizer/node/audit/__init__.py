"""Writes Kafka's audit lines behind the decisions."""
