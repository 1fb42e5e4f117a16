"""The counters of the network layer: plain integers, which the metrics read at each scrape."""

from __future__ import annotations


class NetworkCounters:
    """Totals since start; `bytes_out_before` is of the connections that have ended."""

    __slots__ = (
        "bytes_in",
        "bytes_out_before",
        "connections_accepted",
        "connections_closed",
        "connections_expired",
        "connections_refused",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out_before = 0
        self.connections_accepted = 0
        self.connections_closed = 0
        self.connections_expired = 0
        self.connections_refused = 0
