"""HTTP Basic as Confluent's clients send API keys: the password is a bearer token.

Only the password identifies the caller; the user name may be any. The password is verified as the same
token after ``Bearer``: one cache, one limit of failures, one rule about TLS. A header without such a password
is left as it is. It is then refused as malformed, which does not count as a failed try.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

#: RFC 7617; the scheme in any case.
_BASIC: Final = re.compile(rb"basic +([A-Za-z0-9+/]+={0,2}) *", re.IGNORECASE)


def bearer_of_basic(authorization: bytes) -> bytes:
    """Return the value of a bearer header with the password of a Basic one; any other value unchanged."""
    matched = _BASIC.fullmatch(authorization)
    if matched is None:
        return authorization
    try:
        _, colon, password = base64.b64decode(matched[1], validate=True).partition(b":")
    except binascii.Error:
        return authorization
    return b"Bearer " + password if colon else authorization
