"""Decisions as CloudEvents on stdout, in a rotated file or in a Kafka topic."""
