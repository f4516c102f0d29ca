"""Records of a metadata log, their codecs, and how logs are read and appended.

Imports none of the other layers. Only `records.log` does I/O.
"""
