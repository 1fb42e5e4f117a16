"""Addresses of clients and of access control entries, in the form in which they are compared."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def comparable_address(address: str) -> str:
    """Return an address in its shortest form, a mapped IPv4 address as IPv4; other texts unchanged.

    Kafka's tools write IPv6 addresses without abbreviation.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)
