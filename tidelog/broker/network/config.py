"""The settings of the network layer: limits with Kafka's keys and defaults, and listener addresses."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from tidelog.base.config_definition import ConfigError

UNLIMITED: Final = 2**31 - 1
_OVERRIDES: Final = "max.connections.per.ip.overrides"
_HOSTS_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """The broker-wide settings of the sockets; each field is Kafka's key with underscores.

    A buffer size of -1 leaves it to the operating system, a backlog of -1 is the longest accept queue that
    the system allows, `connections_max_idle_ms` -1 means no limit. With `queued_max_request_bytes` -1
    requests are bounded by `max_large_request_bytes`, which is Tidelog's own key, as is
    `max_unsent_response_bytes`.
    `inter_broker_listener` is a listener's name, "" for none.
    """

    socket_request_max_bytes: int = 100 * 1024 * 1024
    socket_send_buffer_bytes: int = -1
    socket_receive_buffer_bytes: int = -1
    socket_listen_backlog_size: int = -1
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connections_max_idle_ms: int = 600_000
    queued_max_requests: int = 500
    queued_max_request_bytes: int = -1
    max_large_request_bytes: int = 512 * 1024 * 1024
    max_unsent_response_bytes: int = 256 * 1024 * 1024
    inter_broker_listener: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """One address to listen on.

    `host` "" means every address, IPv6 included where there is one; `port` 0 lets the system
    choose. `max_connections` is `listener.name.<name>.max.connections`. With `ssl_context` the
    listener speaks TLS.
    """

    name: str
    host: str = ""
    port: int = 9092
    max_connections: int = UNLIMITED
    ssl_context: ssl.SSLContext | None = None


def parse_address_limits(text: str) -> dict[str, int]:
    """Parse max.connections.per.ip.overrides, e.g. "10.0.0.7:5,::1:100,build:20"; return limits by address.

    I/O: the addresses of hosts that are named. Errors: ConfigError for an entry that is not host:count with
    a count from 0 on, and for a host that has no address.
    """
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        if not host or not (count.isascii() and count.isdecimal()):
            raise ConfigError(_OVERRIDES, entry, "allowed is host:count with a count from 0 on")
        for address in _addresses(host.strip("[]"), entry):
            limits[address] = int(count)
    return limits


def names_hosts(text: str) -> bool:
    """Return whether `parse_address_limits` would have to look up the address of a host."""
    return not all(map(_is_address, (entry.rpartition(":")[0].strip(" []") for entry in text.split(","))))


def _is_address(host: str) -> bool:
    """Return whether `host` is an address, or empty, which is reported as a separate error."""
    try:
        return not host or bool(_written(host))
    except ValueError:
        return False


def _addresses(host: str, entry: str) -> frozenset[str]:
    """Return the addresses of a host in the text form of peer addresses."""
    try:
        return frozenset({_written(host)})
    except ValueError:
        pass
    try:
        return _resolved(host)
    except (OSError, UnicodeError) as error:
        allowed = f"allowed is an address, or the name of a host that has one ({error})"
        raise ConfigError(_OVERRIDES, entry, allowed) from error


# A host is looked up once, not at each change of a config.
@lru_cache(_HOSTS_REMEMBERED)
def _resolved(host: str) -> frozenset[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return frozenset(_written(str(address[0])) for *_, address in found)


def _written(address: str) -> str:
    parsed = ip_address(address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
