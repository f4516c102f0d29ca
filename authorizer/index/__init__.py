"""The index: all ACLs of one image, arranged for decisions. `acl_index` draws it.

Requests read it without a lock while one thread publishes: they see what that thread wrote in the order in
which it wrote it, as CPython with its GIL does it. A Python that runs without is refused here, for every
decision needs an index, and so needs this import.
"""

import sys

from authorizer.errors import UnsupportedPythonError

# Python 3.13 is the first that may run without, and that can be asked.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise UnsupportedPythonError(
        "aclog cannot decide on a free-threaded Python whose GIL is off, for its index is read while it is "
        "written. Start Python with the GIL (PYTHON_GIL=1, or -X gil=1), or use the ordinary build"
    )
