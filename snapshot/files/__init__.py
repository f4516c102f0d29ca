"""A state as one file: exports, imports, and Kafka's own checkpoints."""
