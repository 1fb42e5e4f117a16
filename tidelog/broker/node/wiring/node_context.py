"""What the parts of a node share."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.scheduling.slices import HEAVY_MAX, Slices
from tidelog.clients.config.environment import Environment
from tidelog.storage.disk.files import FileSystem

# One for what must be durable before the quorum goes on, one for a snapshot.
_QUORUM_THREADS: Final = 2
# Syncing is what these threads do; more of them than disks does not make it faster.
_FLUSH_THREADS: Final = 4
# Threads of their own: a produce that waits for its fsync must not wait for large files to be removed too.
_HOUSEKEEPING_THREADS: Final = 2
_CLEANING_THREADS_MAX: Final = 32


class NodeThreads:
    """The threads in which a node waits for its disks."""

    def __init__(self) -> None:
        self.quorum = ThreadPoolExecutor(_QUORUM_THREADS, thread_name_prefix="tidelog-quorum")
        self.flush = ThreadPoolExecutor(_FLUSH_THREADS, thread_name_prefix="tidelog-flush")
        self.housekeeping = ThreadPoolExecutor(_HOUSEKEEPING_THREADS, thread_name_prefix="tidelog-upkeep")
        # One, which keeps the order of what is made.
        self.making = ThreadPoolExecutor(1, thread_name_prefix="tidelog-make-logs")
        # What is too long for the event loop in one piece: compressing and expanding large batches.
        self.slices = ThreadPoolExecutor(HEAVY_MAX, thread_name_prefix="tidelog-slices")
        # There are as many as log.cleaner.threads asks for, up to this.
        self.cleaning = ThreadPoolExecutor(_CLEANING_THREADS_MAX, thread_name_prefix="tidelog-log-cleaner")

    def shut_down(self) -> None:
        """Wait for what they do, and end them."""
        working = (self.quorum, self.flush, self.housekeeping, self.making, self.slices, self.cleaning)
        for executor in working:
            executor.shutdown(wait=True)


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """One node's settings, identity and ways to the outside; `cannot_go_on` is told why it must stop.

    `directory_ids` are those of all usable directories by path, that of the metadata log included.
    """

    config: BrokerConfig
    cluster_id: str
    directory_ids: Mapping[str, UUID]
    fs: FileSystem
    clock: Clock
    environment: Environment
    randomness: Randomness
    metrics: BrokerMetrics
    threads: NodeThreads
    slices: Slices
    cannot_go_on: Callable[[str], None]

    @property
    def log_directory_ids(self) -> dict[str, UUID]:
        """The ids of the directories that hold partitions, by path."""
        directories = self.config.log_directories
        return {path: found for path, found in self.directory_ids.items() if path in directories}

    @cached_property
    def host_name(self) -> str:
        """What others are told when nothing is configured; may ask a name server, and that once."""
        config = self.config
        named = (
            *config.broker_listeners,
            *config.advertised("", {}),
            *config.advertised_controllers("", {}),
        )
        return "" if all(listener.host for listener in named) else socket.getfqdn()
