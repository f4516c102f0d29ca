"""Text form of an IP address, as Java's InetAddress.getHostAddress; ACL hosts are compared with it.

IPv4 is dotted decimal. IPv6 is eight groups in lower-case hex, without leading zeros and never shortened by
``::``; a scope follows as ``%1``. An IPv4 address mapped into IPv6 is IPv4. Host names are
never resolved: an ACL whose host is a name never matches.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

#: The host of a request that names none.
DEFAULT_HOST: Final = "127.0.0.1"
#: Longer texts are not cached: only an IPv6 scope, which may be any text, makes an address longer.
_CACHED_LENGTH_MAX: Final = 64


def host_address(literal: str) -> str:
    """The text form of an IP literal; IPv6 may be in brackets.

    Raises:
        ValueError: not an IP literal, for example a name, a network, or a short or octal-like IPv4 form.
    """
    return _cached_address(literal) if len(literal) <= _CACHED_LENGTH_MAX else _address(literal)


def is_loopback(host: str | None) -> bool:
    """Whether a host is a loopback address or the name localhost."""
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _address(literal: str) -> str:
    inner = literal[1:-1] if literal.startswith("[") and literal.endswith("]") else literal
    try:
        address = ip_address(inner)
    except ValueError:
        raise ValueError(f"`{literal}` is not an IP address") from None
    if inner is not literal and not isinstance(address, IPv6Address):
        raise ValueError(f"`{literal}` is not an IP address")
    return _text(address)


# A few clients send most requests, and parsing an address costs as much as a decision.
_cached_address: Final = lru_cache(maxsize=4096)(_address)


def _text(address: IPv4Address | IPv6Address) -> str:
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    text = ":".join(f"{int.from_bytes(packed[at : at + 2]):x}" for at in range(0, len(packed), 2))
    return text if address.scope_id is None else f"{text}%{address.scope_id}"
