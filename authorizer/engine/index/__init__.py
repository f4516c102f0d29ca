"""The index: all ACLs of one image, arranged for decisions (see `acl_index`).

An index is immutable except for caches: rights of principals, and names. Any thread may fill them without a
lock, by one write to a dict or an attribute, which CPython's GIL makes atomic. Two threads may do the same
work and store equal values. Without the GIL that is unsafe, so this import fails there.
"""

import sys

from authorizer.api.errors import UnsupportedPythonError

# Python 3.13 is the first that can run without the GIL, and that has this function.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise UnsupportedPythonError(
        "aclog cannot decide on a free-threaded Python whose GIL is off, for its index is read while it is "
        "written. Start Python with the GIL (PYTHON_GIL=1, or -X gil=1), or use the ordinary build"
    )
