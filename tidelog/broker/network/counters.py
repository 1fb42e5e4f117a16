"""The counters of the network layer: plain integers, which the metrics read at each scrape."""

from __future__ import annotations


class NetworkCounters:
    """Totals since the start, unless noted; `bytes_out_of_closed` counts only connections that have ended."""

    __slots__ = (
        "bytes_in",
        "bytes_out_of_closed",
        "connections_accepted",
        "connections_closed",
        "connections_expired",
        "connections_refused",
        "connections_throttled",
        "handshakes_failed",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out_of_closed = 0
        self.connections_accepted = 0
        self.connections_closed = 0
        self.connections_expired = 0
        self.connections_refused = 0
        self.handshakes_failed = 0
        self.connections_throttled = 0
        """The connections that are throttled now."""
