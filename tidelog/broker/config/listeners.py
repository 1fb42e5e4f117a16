"""The addresses of a node's listeners and its advertised addresses: `NAME://host:port`.

An empty host means every interface, and port 0 any free port. An IPv6 address is written in brackets. Names
are compared in upper case, as in Kafka.

Errors: ConfigError with key and value. Source: Endpoint and SocketServerConfigs of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass

_LISTENER: Final = re.compile(
    r"([A-Za-z0-9_.\-]+)://(?:\[([0-9A-Za-z:.%\-]+)\]|([0-9A-Za-z._\-]*)):([0-9]{1,5})"
)
_IPV4: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


class SecurityProtocol(IntEnum):
    """The security protocol of a listener; the numbers are those of the metadata records."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Listener:
    """One named address; an empty `host` means every interface. `host` has no brackets."""

    name: str
    host: str
    port: int
    security_protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(key: str, items: Iterable[str]) -> dict[str, SecurityProtocol]:
    """Parse `NAME:PROTOCOL` entries; return the protocols by name in upper case."""
    protocols: dict[str, SecurityProtocol] = {}
    for item in items:
        name, _, protocol = item.partition(":")
        if not name or protocol.strip().upper() not in SecurityProtocol.__members__:
            names = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(key, item, f"allowed is NAME:PROTOCOL, where the protocol is one of: {names}")
        if name.strip().upper() in protocols:
            raise ConfigError(key, item, f"the listener {name.strip()} is listed twice")
        protocols[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return protocols


def parse_listeners(
    key: str,
    items: Iterable[str],
    protocols: Mapping[str, SecurityProtocol],
    *,
    is_bound: bool = True,
) -> tuple[Listener, ...]:
    """Parse the listeners that `key` lists; their names must differ.

    If they are bound, the ports of one address family must differ, too. Advertised addresses may be equal,
    for example that of a proxy for several listeners.
    """
    listeners: list[Listener] = []
    for item in items:
        listener = _parse_listener(key, item, protocols)
        for other in listeners:
            if other.name == listener.name:
                raise ConfigError(key, item, f"the listener {listener.name} is listed twice, also as {other}")
            if (
                is_bound
                and other.port == listener.port != 0
                and not _have_different_families(other, listener)
            ):
                raise ConfigError(key, item, f"port {listener.port} is used by {other}")
        listeners.append(listener)
    return tuple(listeners)


def _parse_listener(key: str, item: str, protocols: Mapping[str, SecurityProtocol]) -> Listener:
    match = _LISTENER.fullmatch(item)
    if match is None or int(match[4]) > 65_535:
        allowed = "allowed is NAME://host:port, where an IPv6 host is in brackets, and the port is 0 to 65535"
        raise ConfigError(key, item, allowed)
    name = match[1].upper()
    if name not in protocols:
        allowed = f"listener.security.protocol.map has no protocol for the listener {name}"
        raise ConfigError(key, item, allowed)
    return Listener(name, match[2] or match[3], int(match[4]), protocols[name])


def _have_different_families(listener: Listener, other: Listener) -> bool:
    """Return whether one host is an IPv4 address, and the other one an IPv6 address."""
    hosts = (listener.host, other.host)
    return any(_IPV4.fullmatch(host) for host in hosts) and any(":" in host for host in hosts)
