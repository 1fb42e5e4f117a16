"""IP addresses of clients and of settings, in the form in which they are compared."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def normalized_address(text: str) -> str:
    """Return an address in its shortest form, an IPv4-mapped address as IPv4. Errors: ValueError."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def without_mapping(address: str) -> str:
    """Return the address of a socket's peer, an IPv4-mapped address as IPv4."""
    return address.removeprefix("::ffff:")


def comparable_host(host: str) -> str:
    """Return an address in its shortest form, without its zone; other texts, for example "*", unchanged."""
    try:
        return normalized_address(host.partition("%")[0])
    except ValueError:
        return host
