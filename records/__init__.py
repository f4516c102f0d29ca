"""What is in a metadata log, and how it is read and appended.

Imports none of the other layers; only `records.log` does I/O.
"""
