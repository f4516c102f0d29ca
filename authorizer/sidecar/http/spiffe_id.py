"""The SPIFFE id of a certificate (X509-SVID, section 2): the URI in its subject alternative name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The scheme is case-insensitive (RFC 3986, section 3.1).
_IS_SPIFFE: Final = re.compile(r"spiffe:", re.IGNORECASE)
_SPIFFE_ID: Final = re.compile(r"spiffe://([a-z0-9._-]{1,255})((?:/.*)?)", re.ASCII | re.IGNORECASE)
_LENGTH_MAX: Final = 2048


def spiffe_id_of(uris: Iterable[str]) -> str | None:
    """The SPIFFE id among a certificate's URIs; None if none of them is one.

    Its scheme and trust domain are in lower case, as SPIFFE writes them: they mean the same in any case.

    Raises:
        ValueError: there are several, or one that is not well-formed. Then the certificate must not be known
            by another of its names.
    """
    found = [uri for uri in uris if _IS_SPIFFE.match(uri)]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"it has {len(found)} SPIFFE ids, and may have one")
    matched = _SPIFFE_ID.fullmatch(found[0])
    if matched is None or len(found[0]) > _LENGTH_MAX:
        raise ValueError(
            f"`{found[0]:.200}` is no SPIFFE id: that is spiffe://TRUST-DOMAIN/PATH, of at most "
            f"{_LENGTH_MAX} characters"
        )
    return f"spiffe://{matched[1].lower()}{matched[2]}"
