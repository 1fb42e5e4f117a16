"""The address under which a broker or controller is reached."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.ids import BrokerId


class BrokerAddress(NamedTuple):
    """Node id, host, port and rack of one node; bootstrap servers have negative ids."""

    node_id: BrokerId
    host: str
    port: int
    rack: str | None = None
