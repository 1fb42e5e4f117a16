"""A simulated cluster: real `BrokerNode`s on simulated machines, and machines for clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.base.randomness import new_uuid
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_context import NodeFailure
from tidelog.broker.node.wiring.node_ports import NodePorts
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.local_cluster.layout import ClusterLayout, NodeLayout
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.storage.directories.meta_properties import MetaProperties, MetaPropertiesFile
from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.process import Machine, Process
from tidelog.testing.simulation.scheduler import Scheduler

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
DEFAULTS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
}


class SimulatedNode:
    """One node of the cluster: its machine, and the broker while it runs."""

    def __init__(self, machine: Machine, layout: ClusterLayout, node: NodeLayout) -> None:
        self.machine = machine
        self.node_id = node.node_id
        self.broker: BrokerNode | None = None
        """None until it has started, and after its end."""
        self.failure: NodeFailure | None = None
        self.is_stopping = False
        self._layout = layout
        self._node = node
        for folder in layout.data_folders(node.node_id):
            directory_id = new_uuid(machine.state.scheduler.rng)
            machine.state.disk.makedirs(str(folder))
            MetaPropertiesFile(machine.state.disk, str(folder)).write(
                MetaProperties(cluster_id=CLUSTER_ID, node_id=node.node_id, directory_id=directory_id)
            )
        machine.state.disk.sync_all()

    @property
    def log_folder(self) -> str:
        """The first log directory."""
        return str(self._layout.data_folder(self.node_id))

    @property
    def is_running(self) -> bool:
        """Whether the process runs; the broker may still be starting."""
        return self.machine.process is not None

    def start(self, overrides: Mapping[str, str] | None = None) -> None:
        """Start the process of the node."""
        process = self.machine.start_process()
        self.is_stopping = False
        self._trace("starts")
        config = BrokerConfig({**self._layout.properties(self._node), **(overrides or {})})
        process.start(self._run(process, config))

    async def _run(self, process: Process, config: BrokerConfig) -> None:
        failure = self.failure = NodeFailure(BrokerId(self.node_id))
        ports = NodePorts(
            fs=self.machine.state.disk,
            clock=process.clock,
            environment=process.environment,
            randomness=process.rng,
            sockets=process.sockets,
            threads=process.executor,
        )
        try:
            self.broker = await BrokerNode.start(config, ports=ports, cluster_id=CLUSTER_ID, failure=failure)
        except (KafkaError, OSError) as error:
            self._trace(f"cannot start: {error}")
        else:
            self._trace("serves clients")
            await failure.event.wait()
            self._trace(f"has failed: {failure.reason}")
            await self.broker.stop()
        self.broker = None
        self.machine.kill_process()

    def stop(self) -> None:
        """Stop cleanly."""
        process, broker = self.machine.process, self.broker
        assert process is not None and broker is not None
        self._trace("begins to stop")
        self.is_stopping = True

        async def stop() -> None:
            await broker.stop()
            self._trace("has stopped")
            self.broker = None
            self.machine.kill_process()

        process.start(stop())

    def kill(self) -> None:
        """End the process at once, as with kill -9."""
        self._trace("is killed")
        self.broker = None
        self.machine.kill_process()

    def fail_power(self) -> None:
        """End the process and lose a part of the unsynced data."""
        self._trace("loses power")
        self.broker = None
        self.machine.fail_power()

    def _trace(self, text: str) -> None:
        self.machine.state.scheduler.trace.note(self.machine.state.name, text)


class SimulatedCluster:
    """`count` nodes, each broker and controller, which are started by `start`."""

    def __init__(self, scheduler: Scheduler, count: int = 3, config: Mapping[str, str] | None = None) -> None:
        self.scheduler = scheduler
        self.network = Network(scheduler)
        nodes = tuple(
            NodeLayout(number, f"10.0.0.{number}", PORT, CONTROLLER_PORT) for number in range(1, count + 1)
        )
        self.layout = ClusterLayout(Path("/"), CLUSTER_ID, nodes, {**DEFAULTS, **(config or {})})
        self.nodes = {
            node.node_id: SimulatedNode(
                Machine(self.network, f"node-{node.node_id}", node.host), self.layout, node
            )
            for node in nodes
        }
        self.machines = [node.machine for node in self.nodes.values()]
        self._clients = 0

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes."""
        return self.layout.bootstrap_servers

    def start(self) -> None:
        """Start all nodes."""
        for node in self.nodes.values():
            node.start()

    @property
    def image(self) -> MetadataImage:
        """The newest metadata of a running node."""
        images = [node.broker.services.image() for node in self.nodes.values() if node.broker is not None]
        return max(images, key=lambda image: image.offset)

    def leader(self, topic: str, partition: int) -> SimulatedNode:
        """Return the leader of a partition. Errors: KeyError if there is none."""
        return self.nodes[self.image.topics_by_name[topic].partitions[partition].leader]

    def group_coordinator(self, group_id: str) -> SimulatedNode:
        """Return the coordinator of a group. Errors: KeyError if there is none."""
        count = len(self.image.topics_by_name[GROUP_METADATA_TOPIC].partitions)
        return self.leader(GROUP_METADATA_TOPIC, partition_for(group_id, count))

    def client(self, name: str) -> Process:
        """Return a process on a new machine for clients."""
        self._clients += 1
        machine = Machine(self.network, name, f"10.0.1.{self._clients}")
        self.machines.append(machine)
        return machine.start_process()

    @property
    def processes(self) -> list[Process]:
        """All processes, also those that have ended."""
        return [
            process
            for machine in self.machines
            for process in (*machine.ended, *((machine.process,) if machine.process else ()))
        ]

    def release(self) -> None:
        """Remove all brokers: the simulation has ended."""
        for node in self.nodes.values():
            node.broker = node.failure = None
        self.network.endpoints.clear()
        self.network.listeners.clear()
