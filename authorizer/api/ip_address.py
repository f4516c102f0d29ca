"""Hosts of ACLs: IP addresses as Java's InetAddress.getHostAddress writes them, and CIDR networks (KIP-1276).

IPv4 is dotted decimal. IPv6 is eight groups in lower-case hex, without leading zeros and never shortened by
``::``; a scope follows as ``%1``. An IPv4 address mapped into IPv6 is IPv4. Host names are
never resolved: an ACL whose host is a name never matches.

Networks are parsed as by Kafka 4.4:

- An ACL whose host contains a slash matches every address of the network; bits of the host part are ignored.
- A text that is not a network matches nothing. It is not an error, because older controllers accept any host.
- An IPv4 network contains IPv4 addresses only, and never 0.0.0.0. An IPv4-mapped IPv6 address is IPv4.
- The scope of an IPv6 address is ignored, both the client's and the ACL's. Kafka requires that an interface
  with that name exists, which is the case on the machine the address comes from.

Source: CidrUtils, and the SubnetUtils and SubnetUtils6 of Apache Commons Net that kafka-clients 4.4.0 holds;
java.net.InetAddress.getByName.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from records.acl import AclPermissionType

if TYPE_CHECKING:
    from records.entries import AccessControlEntryRecord

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


_ALLOW_CODE: Final = int(AclPermissionType.ALLOW)
_IPV4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128
_OCTET_MAX: Final = 255
_GROUP_MAX: Final = 0xFFFF
_CACHE_SIZE: Final = 1 << 12


class Network(NamedTuple):
    """The addresses that share a prefix of bits; a single address if the prefix has all bits."""

    bits: int
    length: int
    prefix: int

    def is_within(self, other: Network) -> bool:
        """Whether this is a subnet of the other network, or equal to it."""
        bits, length, prefix = other
        return self.bits == bits and self.length >= length and self.prefix >> (self.length - length) == prefix

    def halves(self) -> tuple[Network, Network]:
        """The two halves of the network, which must not be a single address."""
        bits, length, prefix = self
        return Network(bits, length + 1, prefix << 1), Network(bits, length + 1, prefix << 1 | 1)

    def wider(self, bits: int) -> Network:
        """The enclosing network whose prefix is shorter by ``bits``."""
        return Network(self.bits, self.length - bits, self.prefix >> bits)

    @property
    def first(self) -> int:
        """The first address, as a number."""
        return self.prefix << (self.bits - self.length)

    @property
    def end(self) -> int:
        """The last address plus one, as a number."""
        return (self.prefix + 1) << (self.bits - self.length)

    def __str__(self) -> str:
        """CIDR notation with the address as Java prints it; a single address has no slash."""
        address = address_text(self.bits, self.first)
        return address if self.length == self.bits else f"{address}/{self.length}"


#: All IPv4 and all IPv6 addresses.
EVERY_IPV4: Final = Network(_IPV4_BITS, 0, 0)
EVERY_IPV6: Final = Network(_IPV6_BITS, 0, 0)


def address_text(bits: int, number: int) -> str:
    """The text of an address, as java.net.InetAddress.getHostAddress."""
    return host_address(str(IPv4Address(number) if bits == _IPV4_BITS else IPv6Address(number)))


def read_network(text: str) -> Network:
    """Parse a host with a slash. Raises ValueError: not a network; the message is Commons Net's."""
    return _ipv6(text) if ":" in text else _ipv4(text)


@lru_cache(_CACHE_SIZE)
def network_of(host: str) -> Network | None:
    """The network of an ACL host; None for a host without a slash, or if it is not a network."""
    if "/" not in host:
        return None
    try:
        return read_network(host)
    except ValueError:
        return None


@lru_cache(_CACHE_SIZE)
def address_of(host: str) -> Network | None:
    """The address of a client as a network of one; None if no network can contain it."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    number, bits = int(address), address.max_prefixlen
    return None if bits == _IPV4_BITS and number == 0 else Network(bits, bits, number)


class NetworkRules(NamedTuple):
    """Whether hosts of ACLs are read as networks: for ALLOW ACLs, and for all others, which deny."""

    allow: bool
    deny: bool

    def of(self, permission_type: int) -> bool:
        """The rule for an ACL's permission type."""
        return self.allow if permission_type == _ALLOW_CODE else self.deny


#: Before Kafka 4.4: hosts are not read as networks.
EXACT_HOSTS: Final = NetworkRules(allow=False, deny=False)
#: From Kafka 4.4 on.
NETWORK_HOSTS: Final = NetworkRules(allow=True, deny=True)
#: For an unknown release. An ACL matches under NETWORK_HOSTS every address that it matches under EXACT_HOSTS,
#: so these rules allow exactly what both others allow.
STRICTEST: Final = NetworkRules(allow=False, deny=True)


def host_matches(acl_host: str, host: str, *, networks: bool) -> bool:
    """Whether an ACL host matches a client's address; ``networks``: as from Kafka 4.4 on."""
    if acl_host in ("*", host):
        return True
    if not networks or (network := network_of(acl_host)) is None:
        return False
    address = address_of(host)
    return address is not None and address.is_within(network)


def matches_host(record: AccessControlEntryRecord, host: str, networks: NetworkRules) -> bool:
    """Whether an ACL's host matches a client's address."""
    return host_matches(record.host, host, networks=networks.of(record.permission_type))


def _ipv4(text: str) -> Network:
    match = _IPV4.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, length = map(int, match.groups())
    number = 0
    for octet in octets:
        number = number << 8 | _in_range(octet, _OCTET_MAX)
    length = _in_range(length, _IPV4_BITS)
    return Network(_IPV4_BITS, length, number >> (_IPV4_BITS - length))


def _in_range(value: int, highest: int) -> int:
    if value > highest:
        raise ValueError(f"Value [{value}] not in range [0,{highest}]")
    return value


def _ipv6(text: str) -> Network:
    address, _, after = text.partition("/")
    length = _java_int(after)
    if length is None:
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    if not 0 <= length <= _IPV6_BITS:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and {_IPV6_BITS}")
    number = _ipv6_number(address)
    return Network(_IPV6_BITS, length, number >> (_IPV6_BITS - length))


def _java_int(text: str) -> int | None:
    """Integer.parseInt: an optional sign and decimal digits of any script."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not all(each.isdecimal() and ord(each) <= _GROUP_MAX for each in digits):
        return None
    number = int(text)
    return number if -(2**31) <= number < 2**31 else None


def _ipv6_number(text: str) -> int:
    """InetAddress.getByName for IPv6; it accepts any number of leading zeros in a group."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    inner, percent, scope = inner.partition("%")
    groups = [_short_group(group) for group in inner.split(":")]
    try:
        if percent and not scope:
            raise ValueError  # noqa: TRY301 - handled like any other invalid address
        address = IPv6Address(":".join(groups))
    except ValueError:
        raise ValueError(f"Could not parse [{text}]") from None
    if address.ipv4_mapped is not None:
        if percent:
            raise ValueError(f"Could not parse [{text}]")
        raise ValueError(f"Could not parse [{text}] - not an IPv6 address")
    return int(address)


def _short_group(group: str) -> str:
    return group.lstrip("0").rjust(1, "0") if len(group) > 4 and "." not in group else group
