"""The settings of the network layer: limits of the broker's keys, and listener addresses."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.base.sampled_rate import Windows
from tidelog.broker.network.addresses import normalized_address
from tidelog.security.tls.server import TlsServer

UNLIMITED: Final = 2**31 - 1
_OVERRIDES: Final = "max.connections.per.ip.overrides"
_CACHED_HOSTS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """The broker-wide settings of the sockets; most fields are Kafka's keys with underscores.

    -1 has these meanings. A buffer size: the default of the operating system. The backlog: the longest accept
    queue that the system allows. `connections_max_idle_ms`: no limit. `queued_max_request_bytes`: requests
    are bounded by `max_large_request_bytes` instead. That key and `max_unsent_response_bytes` are Tidelog's.
    `inter_broker_listener` is the name of a listener, or "" for none. `quota_windows` is quota.window.*.
    """

    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    connections_max_idle_ms: int

    queued_max_request_bytes: int
    max_large_request_bytes: int
    max_unsent_response_bytes: int
    max_connection_creation_rate: int
    quota_windows: Windows
    inter_broker_listener: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """One address to listen on.

    `host` "" means all addresses of the machine, including IPv6 if available. With `port` 0 the operating
    system selects a port. `max_connections` is `listener.name.<name>.max.connections`,
    `max_connection_creation_rate` likewise. A listener with `tls` uses TLS. `unauthenticated_frame_bytes_max`
    limits the frames of clients that must authenticate by SASL; None if they need not.
    """

    name: str
    host: str
    port: int
    max_connections: int
    max_connection_creation_rate: int
    tls: TlsServer | None = None
    unauthenticated_frame_bytes_max: int | None = None


def parse_address_limits(text: str) -> dict[str, int]:
    """Parse max.connections.per.ip.overrides, e.g. "10.0.0.7:5,::1:100,build:20"; return limits by address.

    I/O: resolves host names. Errors: ConfigError for an entry that is not host:count with a count of at least
    0, and for a host that has no address.
    """
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        if not host or not (count.isascii() and count.isdecimal()):
            raise ConfigError(_OVERRIDES, entry, "allowed is host:count with a count of at least 0")
        for address in _addresses(host.strip("[]"), entry):
            limits[address] = int(count)
    return limits


def has_host_names(text: str) -> bool:
    """Return whether `parse_address_limits` must resolve a host name."""
    return not all(map(_is_address, (entry.rpartition(":")[0].strip(" []") for entry in text.split(","))))


def _is_address(host: str) -> bool:
    """Return whether `host` is an address, or is empty, which `parse_address_limits` rejects."""
    try:
        return not host or bool(normalized_address(host))
    except ValueError:
        return False


def _addresses(host: str, entry: str) -> frozenset[str]:
    """Return the addresses of a host in the text form of peer addresses."""
    try:
        return frozenset({normalized_address(host)})
    except ValueError:
        pass
    try:
        return _resolve(host)
    except (OSError, UnicodeError) as error:
        allowed = f"allowed is an address, or the name of a host that has one ({error})"
        raise ConfigError(_OVERRIDES, entry, allowed) from error


# Cached, so that a change of another config does not resolve the host again.
@lru_cache(_CACHED_HOSTS_MAX)
def _resolve(host: str) -> frozenset[str]:
    addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return frozenset(normalized_address(str(address[0])) for *_, address in addresses)
