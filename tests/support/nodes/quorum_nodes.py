"""Controllers in this process, over real sockets, each with a disk in memory that can lose unsynced data."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from tests.support.metadata.images import CLUSTER_ID
from tests.support.waiting import eventually
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.formatting import InitialVoter, NewCluster, format_directories
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_context import NodeFailure
from tidelog.broker.node.wiring.node_ports import system_ports
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.quorum.quorum import Quorum
from tidelog.local_cluster.layout import QUICK_TIMEOUTS
from tidelog.local_cluster.ports import free_ports
from tidelog.protocol.codec import decode
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.registry import APIS
from tidelog.protocol.schema import ApiMessage
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

DIRECTORY = "/data"
# Short, because tests wait for elections; long enough to avoid needless elections on a busy machine.
QUICK = {key: text for key, text in QUICK_TIMEOUTS.items() if key.startswith("controller.quorum.")}


class QuorumNodes:
    """The nodes by id; a stopped node keeps its disk."""

    def __init__(
        self, ids: Iterable[int], *, static: bool = True, settings: dict[str, str] | None = None
    ) -> None:
        """Create the disks; without `static`, nodes find each other by bootstrap servers."""
        self.ports = dict(zip(ids, free_ports(len(list(ids))), strict=True))
        self.disks = {node_id: CrashFileSystem() for node_id in self.ports}
        self.running: dict[int, BrokerNode] = {}
        self.failures: dict[int, NodeFailure] = {}
        """The failure of the last run of each node, which its process observes."""
        self.settings = {**QUICK, **(settings or {})}
        self.static = static

    def config(self, node_id: int, **values: str) -> BrokerConfig:
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.ports.items())
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        return BrokerConfig(
            {
                "process.roles": "controller",
                "node.id": str(node_id),
                "log.dirs": DIRECTORY,
                "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
                "controller.listener.names": "CONTROLLER",
                **(
                    {"controller.quorum.voters": voters}
                    if self.static
                    else {"controller.quorum.bootstrap.servers": servers}
                ),
                **self.settings,
                **values,
            }
        )

    def format(self, node_id: int, voters: tuple[InitialVoter, ...] = ()) -> None:
        """Format the directories of a node for a quorum with these first voters."""
        list(
            format_directories(
                self.disks[node_id],
                self.config(node_id),
                NewCluster(CLUSTER_ID, voters),
                ignore_formatted=False,
                randomness=random.SystemRandom(),
                now_ms=1,
            )
        )

    async def start(self, *ids: int) -> None:
        """Start nodes, all by default."""
        for node_id in ids or self.ports:
            failure = self.failures[node_id] = NodeFailure(node_id)
            self.running[node_id] = await BrokerNode.start(
                self.config(node_id),
                ports=system_ports(fs=self.disks[node_id]),
                cluster_id=CLUSTER_ID,
                failure=failure,
            )

    async def stop(self, node_id: int) -> None:
        """Stop a node cleanly."""
        await self.running.pop(node_id).stop()

    async def crash(self, node_id: int, survival: Survival = Survival.LOSE_UNSYNCED) -> None:
        """Cut the power of a node: its disk keeps the synced data."""
        node = self.running.pop(node_id)
        self.disks[node_id] = self.disks[node_id].crash(survival)
        await node.abandon()

    def lose_disk(self, node_id: int) -> None:
        """Replace the disk of a stopped node by an empty one."""
        assert node_id not in self.running
        self.disks[node_id] = CrashFileSystem()

    async def end(self) -> None:
        """Abandon all running nodes."""
        for node in self.running.values():
            await node.abandon()
        self.running.clear()

    async def send_request(self, node_id: int, request: ApiMessage, response: type[ResponseT]) -> ResponseT:
        """Return the response of a controller to a client, in the highest version."""
        version = APIS[request.api_key].highest
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[node_id])
        try:
            writer.write(encode_request(request.api_key, version, 1, "stranger", request))
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = memoryview(await reader.readexactly(size))
            _, position = read_response_header(frame, request.api_key, version)
            return decode(response, frame[position:], version)
        finally:
            writer.close()

    # ---- the state of the nodes

    def store(self, node_id: int) -> MetadataStore:
        return self.running[node_id].raft.store

    def quorum(self, node_id: int) -> Quorum:
        machine = self.running[node_id].raft.machine
        assert isinstance(machine, Quorum)
        return machine

    @property
    def leader(self) -> int | None:
        """Return the active controller among the running nodes, None if there is none."""
        active = [each for each in self.running if self.store(each).active_epoch is not None]
        return max(active, key=lambda each: self.store(each).leadership.epoch, default=None)

    async def wait_for_leader(self) -> int:
        """Wait for an active controller that all running nodes follow."""
        await eventually(lambda: self.leader is not None and self._all_follow(self.leader))
        assert self.leader is not None
        return self.leader

    def _all_follow(self, leader: int) -> bool:
        return all(self.store(each).leader == leader for each in self.running)

    async def set(self, key: str, value: str) -> None:
        """Commit a config on the active controller, which may change meanwhile."""
        while True:
            leader = await self.wait_for_leader()
            try:
                await self.store(leader).submit(partial(_write, key, value))
                return
            except KafkaError as error:
                assert error.code is ErrorCode.NOT_CONTROLLER, error

    def value(self, node_id: int, key: str) -> str | None:
        """Return the config in a node's image."""
        return self.store(node_id).image.cluster_configs().get(key)

    async def all_have(self, key: str, value: str) -> None:
        """Wait until the config is in the image of every running node."""
        await eventually(lambda: all(self.value(each, key) == value for each in self.running))


def _write(key: str, value: str, image: MetadataImage) -> ControllerResult[None]:
    return ControllerResult((ConfigRecord(resource_type=4, resource_name="", name=key, value=value),), None)


@asynccontextmanager
async def quorum_nodes(
    count: int = 3,
    *,
    static: bool = True,
    settings: dict[str, str] | None = None,
    prepare: Callable[[QuorumNodes], None] | None = None,
) -> AsyncIterator[QuorumNodes]:
    """Yield nodes 1 to `count`, not started."""
    nodes = QuorumNodes(range(1, count + 1), static=static, settings=settings)
    if prepare is not None:
        prepare(nodes)
    try:
        yield nodes
    finally:
        await nodes.end()
