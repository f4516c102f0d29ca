"""Parser of the Host header (RFC 9112, section 3.2; RFC 3986, section 3.2.2)."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_HOST: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::[0-9]{0,5})?",
    re.ASCII | re.IGNORECASE,
)


def parse_host(header: str) -> str | None:
    """The name or address of a Host header, in lower case and without a dot at its end.

    Args:
        header: ``NAME[:PORT]``, ``IPV4[:PORT]`` or ``[IPV6][:PORT]``.

    Returns:
        None for anything else. Nothing is cut off: ``[::1].evil.example`` is no address.
    """
    matched = _HOST.fullmatch(header)
    if matched is None:
        return None
    if matched["name"] is not None:
        return matched["name"].lower()
    try:
        ipaddress.IPv6Address(matched["ipv6"])
    except ValueError:
        return None
    return matched["ipv6"].lower()
