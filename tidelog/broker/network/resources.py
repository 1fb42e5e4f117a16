"""The objects that all connections of a broker share: clock, memory budgets, turns, counters.

Created by the NetworkServer, and passed to its listeners and connections.
"""

from __future__ import annotations

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.log_limit import LogLimit
from tidelog.broker.network.config import NetworkConfig
from tidelog.broker.network.counters import NetworkCounters
from tidelog.broker.network.memory import MemoryRelease, RequestMemory, SpareMemory
from tidelog.broker.network.response_memory import ResponseMemory
from tidelog.broker.network.shared_descriptors import SharedDescriptors
from tidelog.broker.network.socket_watcher import SocketWatcher
from tidelog.broker.network.sockets import Sockets
from tidelog.broker.network.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkResources:
    """Shared by the connections of one NetworkServer; `log_limit` limits log lines that clients can cause."""

    config: NetworkConfig
    clock: Clock
    sockets: Sockets
    turns: Turns
    counters: NetworkCounters
    watcher: SocketWatcher
    shared_descriptors: SharedDescriptors
    spare_memory: SpareMemory
    memory_release: MemoryRelease
    request_memory: RequestMemory
    response_memory: ResponseMemory
    log_limit: LogLimit
