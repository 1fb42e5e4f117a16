"""Separate controllers and brokers, which communicate only over the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from tests.support.metadata.images import CLUSTER_ID
from tests.support.nodes.quorum_nodes import DIRECTORY, QUICK, QuorumNodes
from tests.support.waiting import eventually
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_ports import system_ports
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.disk.files import FileSystem
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

SETTINGS = {"broker.heartbeat.interval.ms": "100", "broker.session.timeout.ms": "1000"}


class Brokers:
    """The brokers of a quorum of controllers, by id."""

    def __init__(self, controllers: QuorumNodes) -> None:
        self.controllers = controllers
        self.running: dict[int, BrokerNode] = {}
        self.disks: dict[int, FileSystem] = {}

    async def start(self, node_id: int) -> BrokerNode:
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.controllers.ports.items())
        config = BrokerConfig(
            {
                "process.roles": "broker",
                "node.id": str(node_id),
                "log.dirs": DIRECTORY,
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                **QUICK,
                **SETTINGS,
            }
        )
        disk = self.disks.setdefault(node_id, CrashFileSystem())
        node = await BrokerNode.start(config, ports=system_ports(fs=disk), cluster_id=CLUSTER_ID)
        self.running[node_id] = node
        return node

    def unfenced_brokers(self, observer: int) -> set[int]:
        """Return the brokers that are unfenced in the metadata of one of them."""
        brokers = self.running[observer].services.image().brokers.values()
        return {broker.id for broker in brokers if not broker.fenced}

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{node.bound_port()}" for node in self.running.values())


@asynccontextmanager
async def cluster() -> AsyncIterator[Brokers]:
    """Yield three controllers, 101 to 103, with brokers 1 and 2."""
    controllers = QuorumNodes([101, 102, 103], settings=SETTINGS)
    brokers = Brokers(controllers)
    async with asyncio.timeout(120):
        try:
            await controllers.start()
            await asyncio.gather(*(brokers.start(node_id) for node_id in (1, 2)))
            await eventually(lambda: all(brokers.unfenced_brokers(each) == {1, 2} for each in (1, 2)))
            yield brokers
        finally:
            for node in brokers.running.values():
                await node.abandon()
            await controllers.end()


async def test_metadata_changes_continue_after_a_controller_failure() -> None:
    async with cluster() as brokers:
        leader = brokers.running[1].services.store.leader
        assert leader in {101, 102, 103}
        async with Admin(brokers.servers) as admin:
            created = await admin.create_topic("tides", num_partitions=2, replication_factor=2)
            assert created.replication_factor == 2
            await brokers.controllers.crash(leader)
            try:
                await admin.create_topic("moons", num_partitions=1, replication_factor=1)
            except KafkaError as error:
                # A controller may have performed the first attempt, and its response may be lost.
                assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
            created_again = await admin.create_topics([])
            assert created_again == {}
        for node in brokers.running.values():
            await eventually(partial(has_topics, node, {"tides", "moons"}))
            assert node.services.store.leader != leader
            producer_ids = {await node.services.producer_ids.next() for _ in range(3)}
            assert len(producer_ids) == 3


def has_topics(node: BrokerNode, names: set[str]) -> bool:
    return names <= set(node.services.image().topics_by_name)


async def test_a_stopping_broker_moves_its_leadership_and_returns() -> None:
    async with cluster() as brokers:
        async with Admin(brokers.servers) as admin:
            await admin.create_topic("tides", num_partitions=4, replication_factor=2)
        observer = brokers.running[2]

        def leaders() -> set[int]:
            topic = observer.services.image().topics_by_name.get("tides")
            return set() if topic is None else {each.leader for each in topic.partitions.values()}

        def is_whole() -> bool:
            topic = observer.services.image().topics_by_name["tides"]
            return all(set(each.isr) == {1, 2} for each in topic.partitions.values())

        await eventually(lambda: leaders() == {1, 2} and is_whole())
        stopping = brokers.running.pop(1)
        await stopping.stop()
        await eventually(lambda: leaders() == {2} and brokers.unfenced_brokers(2) == {2})
        epoch = observer.services.image().brokers[1].epoch
        # The former session ended with the shutdown, so there is no wait for it.
        await brokers.start(1)
        assert observer.services.image().brokers[1].epoch > epoch
        await eventually(lambda: brokers.unfenced_brokers(2) == {1, 2} and is_whole())


async def test_a_killed_broker_is_fenced_and_its_id_is_free_after_its_session() -> None:
    async with cluster() as brokers:
        dead = brokers.running.pop(1)
        await dead.abandon()
        await eventually(lambda: brokers.unfenced_brokers(2) == {2})
        await brokers.start(1)
        await eventually(lambda: brokers.unfenced_brokers(2) == {1, 2})


async def test_an_unregistered_broker_is_removed() -> None:
    async with cluster() as brokers:
        dead = brokers.running.pop(1)
        await dead.abandon()
        async with Admin(brokers.servers) as admin:
            await admin.unregister_broker(1)
            await eventually(lambda: set(brokers.running[2].services.image().brokers) == {2})
            try:
                await admin.unregister_broker(1)
                raise AssertionError("it was there still")
            except KafkaError as error:
                assert error.code is ErrorCode.BROKER_ID_NOT_REGISTERED
