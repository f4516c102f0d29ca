"""Addresses as Java's InetAddress.getHostAddress writes them."""

from __future__ import annotations

import pytest

from authorizer.api.ip_address import host_address


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:0DB8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("[2001:db8::1]", "2001:db8:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:0a00:0001", "10.0.0.1"),
        ("::ffff:0:10.0.0.1", "0:0:0:0:ffff:0:a00:1"),
        ("fe80::1%1", "fe80:0:0:0:0:0:0:1%1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_addresses_are_written_as_in_java(literal: str, text: str) -> None:
    """Eight groups, lower case, never shortened; mapped addresses are IPv4 (H10)."""
    assert host_address(literal) == text


@pytest.mark.parametrize(
    "name",
    ["localhost", "", "*", "10.0.0", "10.0.0.0/24", "010.0.0.1", " 10.0.0.1", "[10.0.0.1]", "::1::", "%1"],
)
def test_names_and_networks_are_refused(name: str) -> None:
    """Names are never resolved; networks and short forms are not addresses."""
    with pytest.raises(ValueError, match="is not an IP address"):
        host_address(name)
