"""The index: all ACLs of one image, arranged for decisions. `acl_index` draws it.

An index is immutable but for what it makes late and keeps: rights of who asks, and names remembered. Any
thread does that, without a lock, by one write to a dict or an attribute, which CPython's GIL makes whole; two
may do it at once, and store equal values. A Python that runs without is refused here, for every decision
needs an index, and so needs this import.
"""

import sys

from authorizer.api.errors import UnsupportedPythonError

# Python 3.13 is the first that may run without, and that can be asked.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise UnsupportedPythonError(
        "aclog cannot decide on a free-threaded Python whose GIL is off, for its index is read while it is "
        "written. Start Python with the GIL (PYTHON_GIL=1, or -X gil=1), or use the ordinary build"
    )
