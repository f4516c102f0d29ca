"""Files that hold one state: exports, imports and Kafka's checkpoints."""
