"""Where the rows of a job come from: logs in directories and in topics."""
