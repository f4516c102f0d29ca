"""The changes job and its history: every change of every log, kept when the log forgets."""
