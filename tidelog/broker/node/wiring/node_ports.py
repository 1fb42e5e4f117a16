"""The ports of a node to its machine: disk, clock, sockets, connections, random numbers, threads, workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.base.clock import Clock, SystemClock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import SYSTEM_RANDOMNESS, Randomness
from tidelog.base.threads import SYSTEM_THREADS, Threads
from tidelog.broker.logs.cleaning.worker_process import StartWorker, WorkerProcess
from tidelog.broker.logs.descriptor_budget import process_budget
from tidelog.broker.network.sockets import SYSTEM_SOCKETS, Sockets
from tidelog.clients.config.environment import Environment, SystemEnvironment
from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.descriptor_reserve import DescriptorReserve
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.disk.os_files import OsFileSystem

if TYPE_CHECKING:
    from tidelog.remote.objects.stores.port import ObjectStore, OpenStore, StorePorts

DESCRIPTORS_RESERVED: Final = 8
"""The number of threads of a node that may need a descriptor at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """What a node uses of its machine. Tests and simulations replace any of them."""

    fs: FileSystem
    clock: Clock
    environment: Environment
    randomness: Randomness
    sockets: Sockets
    threads: Threads
    open_store: OpenStore
    start_cleaning_worker: StartWorker


def system_ports(*, fs: FileSystem | None = None, clock: Clock | None = None) -> NodePorts:
    """Return the ports to the operating system, with another disk or clock if given."""
    return NodePorts(
        fs=fs or _file_system(),
        clock=clock or SystemClock(),
        environment=SystemEnvironment(),
        randomness=SYSTEM_RANDOMNESS,
        sockets=SYSTEM_SOCKETS,
        threads=SYSTEM_THREADS,
        open_store=_open_store,
        start_cleaning_worker=WorkerProcess,
    )


def _open_store(backend_class: str, values: Mapping[str, str], ports: StorePorts) -> ObjectStore:
    # Imported only by nodes with tiered storage.
    from tidelog.remote.objects.stores.backends import object_store

    return object_store(backend_class, values, ports)


def _file_system() -> FileSystem:
    """Return the operating system's files, with as many pooled descriptors as the process may open."""
    pool: DescriptorPool[File] = DescriptorPool(process_budget().pooled_max)
    return OsFileSystem(pool, DescriptorReserve(DESCRIPTORS_RESERVED))
