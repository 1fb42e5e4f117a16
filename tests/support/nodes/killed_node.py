"""`python -m tests.support.nodes.killed_node --config F`: a broker that kills itself at a fault point.

A test writes `<FAULT POINT> <n>` to the file `dies-at` in the directory of the properties file, before or
after the start of the node. When the process reaches that fault point for the nth time, in any thread, it
renames the file to `died-at` and kills itself. Without the file this is an ordinary broker. Fault points are
the members of FaultPoint and of Step.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tidelog.broker.node.process
import tidelog.broker.tier.managers
import tidelog.broker.tier.tiered_storage
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_ports import system_ports
from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.topic_based import TopicBasedRemoteLogMetadataManager
from tidelog.remote.metadata.topic_clients import TopicWriter
from tidelog.remote.objects.stores.local_directory import LocalDirectoryStore
from tidelog.remote.objects.stores.port import Content
from tidelog.remote.tasks.context import NodeServices
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.storage.disk.files import File
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.partition_log import PartitionLog

ARMED_FILE = "dies-at"
DIED_FILE = "died-at"
SNAPSHOT_INTERVAL_S = 0.3


class Step(Enum):
    """Fault points outside of the RemoteLogManager: in its ports and in other tasks of tiering."""

    OBJECT_PUT = auto()
    """Before an object is put: log, small files, manifest."""
    OBJECT_WRITTEN = auto()
    """After an object is written completely, before it gets its name."""
    OBJECT_LOOKED_AT = auto()
    """Before the size of a stored object is checked."""
    OBJECT_DELETED = auto()
    """Before each object of a segment is deleted: manifest, small files, log."""
    RECORD_PRODUCED = auto()
    """Before a record of remote metadata is produced."""
    RECORD_NOT_READ_BACK = auto()
    """After a record of remote metadata is acknowledged, before this node has read it."""
    SNAPSHOT_FILE = auto()
    """Before each change in the directory of snapshots of remote metadata."""
    INDEX_CACHE_FILE = auto()
    """Before each change in the directory of the index cache."""
    LOCAL_SEGMENT_FILE = auto()
    """Before a file of a local segment is renamed or removed: local retention."""
    RESTART_FROM_REMOTE = auto()
    """Before each change on disk while a follower restarts its log at the local start of its leader."""


MOMENTS: dict[str, Enum] = {each.name: each for kind in (FaultPoint, Step) for each in kind}


class Death:
    """Kills the process at the armed fault point; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._armed, self._died = folder / ARMED_FILE, folder / DIED_FILE
        self._lock = threading.Lock()
        self._passed = 0

    def __call__(self, moment: Enum) -> None:
        """Count one pass of the fault point `moment`, and kill the process at the armed pass."""
        with self._lock:
            try:
                name, nth = self._armed.read_text().split()
            except FileNotFoundError:
                self._passed = 0
                return
            if moment.name != name:
                return
            self._passed += 1
            if self._passed >= int(nth):
                self._armed.rename(self._died)
                os.kill(os.getpid(), signal.SIGKILL)


class DyingFileSystem(OsFileSystem):
    """A disk on which some changes are fault points."""

    def __init__(self, death: Death) -> None:
        super().__init__()
        self._death = death
        self.is_restarting_from_remote = False

    def open(self, path: str, *, create: bool) -> File:
        if create:
            self._changes(path)
        return super().open(path, create=create)

    def create(self, path: str) -> None:
        self._changes(path)
        super().create(path)

    def rename(self, old: str, new: str) -> None:
        self._changes(old, is_name=True)
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        self._changes(path, is_name=True)
        super().unlink(path)

    def rmtree(self, path: str) -> None:
        self._changes(path)
        super().rmtree(path)

    def fsync_dir(self, path: str) -> None:
        self._changes(path)
        super().fsync_dir(path)

    def _changes(self, path: str, *, is_name: bool = False) -> None:
        if self.is_restarting_from_remote:
            self._death(Step.RESTART_FROM_REMOTE)
        if "/remote-log-metadata" in path:
            self._death(Step.SNAPSHOT_FILE)
        elif "/remote-log-index-cache/" in path:
            self._death(Step.INDEX_CACHE_FILE)
        elif is_name and Path(path).name.split(".")[0].isdigit():
            self._death(Step.LOCAL_SEGMENT_FILE)


def install(death: Death) -> None:
    """Install the fault points of `death` in this process."""
    disk = DyingFileSystem(death)
    dying_broker = SimpleNamespace(start=partial(BrokerNode.start, ports=system_ports(fs=disk)))
    replace(tidelog.broker.node.process, "BrokerNode", dying_broker)
    replace(tidelog.broker.tier.tiered_storage, "NodeServices", partial(NodeServices, faults=death))
    replace(
        tidelog.broker.tier.managers,
        "TopicBasedRemoteLogMetadataManager",
        partial(TopicBasedRemoteLogMetadataManager, snapshot_interval_s=SNAPSHOT_INTERVAL_S),
    )
    _kill_in_store(death)
    _kill_in_writer(death)
    _kill_in_restarts(disk)


def replace(owner: Any, name: str, value: object) -> None:
    """Replace an attribute for the whole process."""
    assert hasattr(owner, name), (owner, name)
    setattr(owner, name, value)


def _kill_in_store(death: Death) -> None:
    store = LocalDirectoryStore
    put, place, size, delete = store.put, store._place, store.size, store.delete

    def dying_put(self: LocalDirectoryStore, key: str, content: Content, size: int | None = None) -> None:
        death(Step.OBJECT_PUT)
        put(self, key, content, size)

    def dying_place(self: LocalDirectoryStore, upload: str, path: str) -> None:
        death(Step.OBJECT_WRITTEN)
        place(self, upload, path)

    def dying_size(self: LocalDirectoryStore, key: str) -> int:
        death(Step.OBJECT_LOOKED_AT)
        return size(self, key)

    def dying_delete(self: LocalDirectoryStore, keys: Iterable[str]) -> None:
        for key in keys:
            death(Step.OBJECT_DELETED)
            delete(self, [key])

    replace(store, "put", dying_put)
    replace(store, "_place", dying_place)
    replace(store, "size", dying_size)
    replace(store, "delete", dying_delete)


def _kill_in_writer(death: Death) -> None:
    append = TopicWriter.append

    async def dying_append(self: TopicWriter, metadata_partition: int, value: bytes) -> Offset:
        death(Step.RECORD_PRODUCED)
        offset = await append(self, metadata_partition, value)
        death(Step.RECORD_NOT_READ_BACK)
        return offset

    replace(TopicWriter, "append", dying_append)


def _kill_in_restarts(disk: DyingFileSystem) -> None:
    restart: Callable[..., None] = PartitionLog.restart_from_remote

    def dying_restart(self: PartitionLog, *values: Any) -> None:
        disk.is_restarting_from_remote = True
        try:
            restart(self, *values)
        finally:
            disk.is_restarting_from_remote = False

    replace(PartitionLog, "restart_from_remote", dying_restart)


def main() -> int:
    """Run the broker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    install(Death(Path(parser.parse_args().config).parent))
    return tidelog.broker.node.process.main()


if __name__ == "__main__":
    sys.exit(main())
