"""Networks in CIDR notation as hosts of ACLs (KIP-1276), read as Kafka 4.4 reads them.

An ACL whose host has a slash matches every address of the network, whatever bits of the host part are set. A
text that is no network matches nothing, and that is no error: an older controller takes any host. An IPv4
network has IPv4 addresses only, and never 0.0.0.0; an address mapped into IPv6 is IPv4. The scope of an IPv6
address is not looked at, neither the client's nor the ACL's: Kafka wants an interface of that name to be
there, as it is where the address is from.

Source: CidrUtils, and the SubnetUtils and SubnetUtils6 of Apache Commons Net that kafka-clients 4.4.0 holds;
java.net.InetAddress.getByName.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.api.ip_address import host_address
from records.acl import AclPermissionType

if TYPE_CHECKING:
    from records.entries import AccessControlEntryRecord

_ALLOW_CODE: Final = int(AclPermissionType.ALLOW)
_IPV4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128
_OCTET_MAX: Final = 255
_GROUP_MAX: Final = 0xFFFF
_REMEMBERED: Final = 1 << 12


class Network(NamedTuple):
    """All addresses that begin with the same bits; a single address if these are all.

    Attributes:
        bits: of an address: 32 or 128.
        length: how many of them are the same.
        prefix: these, as a number.
    """

    bits: int
    length: int
    prefix: int

    def is_within(self, other: Network) -> bool:
        """Whether all of it is in the other one."""
        bits, length, prefix = other
        return self.bits == bits and self.length >= length and self.prefix >> (self.length - length) == prefix

    def halves(self) -> tuple[Network, Network]:
        """The two networks that make it up; it must not be a single address."""
        bits, length, prefix = self
        return Network(bits, length + 1, prefix << 1), Network(bits, length + 1, prefix << 1 | 1)

    def wider(self, bits: int) -> Network:
        """The network around it whose prefix is shorter by ``bits``."""
        return Network(self.bits, self.length - bits, self.prefix >> bits)

    @property
    def first(self) -> int:
        """Its first address, as a number."""
        return self.prefix << (self.bits - self.length)

    @property
    def end(self) -> int:
        """One more than its last address."""
        return (self.prefix + 1) << (self.bits - self.length)

    def __str__(self) -> str:
        """As CIDR, the address as Java writes it; a single one without a slash."""
        address = address_text(self.bits, self.first)
        return address if self.length == self.bits else f"{address}/{self.length}"


#: All addresses of either kind.
EVERY_IPV4: Final = Network(_IPV4_BITS, 0, 0)
EVERY_IPV6: Final = Network(_IPV6_BITS, 0, 0)


def address_text(bits: int, number: int) -> str:
    """An address as java.net.InetAddress.getHostAddress has it."""
    return host_address(str(IPv4Address(number) if bits == _IPV4_BITS else IPv6Address(number)))


def read_network(text: str) -> Network:
    """The network that a host with a slash is.

    Raises:
        ValueError: none; the text is Commons Net's.
    """
    return _ipv6(text) if ":" in text else _ipv4(text)


@lru_cache(_REMEMBERED)
def network_of(host: str) -> Network | None:
    """The same; None for any other host, and for what is no network."""
    if "/" not in host:
        return None
    try:
        return read_network(host)
    except ValueError:
        return None


@lru_cache(_REMEMBERED)
def address_of(host: str) -> Network | None:
    """An address by which networks are searched; None for what none of them has."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    number, bits = int(address), address.max_prefixlen
    return None if bits == _IPV4_BITS and number == 0 else Network(bits, bits, number)


class NetworkRules(NamedTuple):
    """Whether hosts may be networks, apart for ALLOW ACLs and for all others, which deny."""

    allow: bool
    deny: bool

    def of(self, permission_type: int) -> bool:
        """Of an ACL's permission type."""
        return self.allow if permission_type == _ALLOW_CODE else self.deny


#: Before Kafka 4.4: no host is a network.
EXACT_HOSTS: Final = NetworkRules(allow=False, deny=False)
#: From Kafka 4.4 on.
NETWORK_HOSTS: Final = NetworkRules(allow=True, deny=True)
#: Where the release is not known. An ACL matches every address under NETWORK_HOSTS that it matches under
#: EXACT_HOSTS. So what these rules allow is exactly what both others allow.
STRICTEST: Final = NetworkRules(allow=False, deny=True)


def host_matches(acl_host: str, host: str, *, networks: bool) -> bool:
    """Whether an ACL with this host is about a client there; ``networks``: as from Kafka 4.4 on."""
    if acl_host in ("*", host):
        return True
    if not networks or (network := network_of(acl_host)) is None:
        return False
    address = address_of(host)
    return address is not None and address.is_within(network)


def matches_host(record: AccessControlEntryRecord, host: str, networks: NetworkRules) -> bool:
    """Whether an ACL is about a client there."""
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
    """Integer.parseInt: a sign, and decimal digits of any script."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not all(each.isdecimal() and ord(each) <= _GROUP_MAX for each in digits):
        return None
    number = int(text)
    return number if -(2**31) <= number < 2**31 else None


def _ipv6_number(text: str) -> int:
    """InetAddress.getByName, of an IPv6 address; a group may begin with any number of zeros there."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    inner, percent, scope = inner.partition("%")
    groups = [_short_group(group) for group in inner.split(":")]
    try:
        if percent and not scope:
            raise ValueError  # noqa: TRY301 - as any other text that is no address
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
