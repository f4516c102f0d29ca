"""What all jobs share: a streaming query whose micro-batches fold logs into stored snapshots."""
