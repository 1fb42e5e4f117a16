"""What the network layer is told: limits under Kafka's keys and defaults, and where to listen."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from storage.config_definition import ConfigError

UNLIMITED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """The broker-wide settings of the sockets; each field is Kafka's key with underscores.

    A buffer size of -1 leaves it to the operating system, `queued_max_request_bytes` -1 and
    `connections_max_idle_ms` -1 mean no limit.
    """

    socket_request_max_bytes: int = 100 * 1024 * 1024
    socket_send_buffer_bytes: int = 100 * 1024
    socket_receive_buffer_bytes: int = 100 * 1024
    socket_listen_backlog_size: int = 50
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connections_max_idle_ms: int = 600_000
    queued_max_requests: int = 500
    queued_max_request_bytes: int = -1


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
    """`max.connections.per.ip.overrides`, e.g. "10.0.0.7:5,::1:100", as limits by address.

    Errors: ConfigError for an entry that is not address:count with a count from 0 on.
    """
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = entry.rpartition(":")
        if not address or not count.isdecimal():
            raise ConfigError(
                "max.connections.per.ip.overrides", entry, "allowed is address:count with a count from 0 on"
            )
        limits[address.strip("[]")] = int(count)
    return limits
