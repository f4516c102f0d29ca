"""Decision events: what was decided as CloudEvents, on stdout, in a rotated file or in a Kafka topic."""
