"""Answers of the HTTP API: the sidecar encodes them, the client decodes them, OpenAPI describes them.

``end_offset`` is that of the state that an answer is about; ``offset`` is its earlier name. The JSON has no
members whose value is UNSET, and no default values of a Struct with ``omit_defaults``.
"""
