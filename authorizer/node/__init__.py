"""A running node: follows a log, decides, writes, audits. Knows no HTTP."""
