"""Running a job: its settings, its streaming query, its micro-batches, metrics and errors."""
