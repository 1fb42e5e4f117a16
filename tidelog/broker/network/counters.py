"""The counters of the network layer: plain integers, which the metrics read at each scrape."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.broker.network.authentication_counters import AuthenticationCounters


@dataclass(slots=True, eq=False)
class NetworkCounters:
    """Totals since the start, unless noted; `bytes_out_of_closed` counts only connections that have ended."""

    authentications: defaultdict[str, AuthenticationCounters] = field(
        default_factory=lambda: defaultdict(AuthenticationCounters)
    )
    """The counters of each listener by its name."""
    bytes_in: int = 0
    bytes_out_of_closed: int = 0
    connections_accepted: int = 0
    connections_closed: int = 0
    connections_expired: int = 0
    connections_refused: int = 0
    connections_throttled: int = 0
    """The connections that are throttled now."""
