"""A simulated cluster: real `BrokerNode`s on simulated machines, and machines for clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.randomness import new_uuid
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.broker.metadata.formatting import InitialVoter, voter_set, write_bootstrap, write_voters
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_context import NodeFailure
from tidelog.broker.node.wiring.node_ports import NodePorts
from tidelog.cluster.features import BOOTSTRAP_LEVELS
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.local_cluster.layout import CONTROLLER_LISTENER, ClusterLayout, NodeLayout
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.storage.directories.meta_properties import MetaProperties, MetaPropertiesFile
from tidelog.testing.simulation.cleaning_worker import SimulatedCleaningWorker
from tidelog.testing.simulation.crash_file_system import SimulatedCrash
from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.object_store import SimulatedBucket
from tidelog.testing.simulation.process import FIRST_WALL_MS, Machine, Process
from tidelog.testing.simulation.scheduler import Scheduler
from tidelog.testing.simulation.states import ProcessState

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
DEFAULTS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class SimulatedNode:
    """One node of the cluster: its machine, and the broker while it runs."""

    def __init__(
        self,
        machine: Machine,
        properties: Mapping[str, str],
        node_id: int,
        bucket: SimulatedBucket,
    ) -> None:
        self.machine = machine
        self.node_id = node_id
        self.directory_id = new_uuid(machine.state.scheduler.rng)
        """The id of the log directory."""
        self.broker: BrokerNode | None = None
        """None until it has started, and after its end."""
        self.failure: NodeFailure | None = None
        self.is_stopping = False
        self.cleaning_workers: list[SimulatedCleaningWorker] = []
        """The running workers of the log cleaner."""
        self._bucket = bucket
        self._properties = properties

    def format(self, records: Sequence[MetadataRecord], voters: VoterSet | None) -> None:
        """Format the log directory with the first records of the cluster, and with its dynamic voters."""
        disk, folder = self.machine.state.disk, self.log_folder
        disk.makedirs(folder)
        if voters is not None:
            write_voters(disk, folder, voters, FIRST_WALL_MS)
        write_bootstrap(disk, folder, records, FIRST_WALL_MS)
        MetaPropertiesFile(disk, folder).write(
            MetaProperties(cluster_id=CLUSTER_ID, node_id=self.node_id, directory_id=self.directory_id)
        )
        disk.sync_all()

    @property
    def log_folder(self) -> str:
        """The log directory."""
        return self._properties["log.dirs"]

    @property
    def is_running(self) -> bool:
        """Whether the process runs; the broker may still be starting."""
        return self.machine.process is not None

    def start(self, overrides: Mapping[str, str] | None = None) -> None:
        """Start the process of the node."""
        process = self.machine.start_process()
        self.broker = None
        self.is_stopping = False
        self._trace("starts")
        config = BrokerConfig({**self._properties, **(overrides or {})})
        process.start(self._run(process, config))

    async def _run(self, process: Process, config: BrokerConfig) -> None:
        failure = self.failure = NodeFailure(BrokerId(self.node_id))
        ports = NodePorts(
            fs=self.machine.state.disk,
            clock=process.clock,
            environment=process.environment,
            randomness=process.rng,
            sockets=process.sockets,
            threads=process.threads,
            open_store=lambda _, settings, ports: self._bucket.open(process.state),
            start_cleaning_worker=lambda: self._start_cleaning_worker(process),
        )
        try:
            self.broker = await BrokerNode.start(config, ports=ports, cluster_id=CLUSTER_ID, failure=failure)
        except (KafkaError, OSError, ConfigError) as error:
            # ConfigError: no log directory can be used, as its disk fails.
            self._trace(f"cannot start: {error}")
        else:
            self._trace("serves clients")
            await failure.event.wait()
            self._trace(f"has failed: {failure.reason}")
            self.is_stopping = True
            await self._stop(self.broker)
            return
        self.broker = None
        self.machine.kill_process()

    async def _stop(self, broker: BrokerNode) -> None:
        """Stop the broker and end its process. If its disk fails, the next start recovers the logs."""
        try:
            await broker.stop()
        except (KafkaError, OSError) as error:
            self._trace(f"cannot stop cleanly: {error}")
        else:
            self._trace("has stopped")
        self.broker = None
        self.machine.kill_process()

    def _start_cleaning_worker(self, process: Process) -> SimulatedCleaningWorker:
        worker = SimulatedCleaningWorker(self.machine.state.disk, process.clock, process.rng)
        self.cleaning_workers = [each for each in self.cleaning_workers if each.is_running] + [worker]
        return worker

    def stop(self) -> None:
        """Stop cleanly."""
        process, broker = self.machine.process, self.broker
        assert process is not None and broker is not None
        self._trace("begins to stop")
        self.is_stopping = True
        process.start(self._stop(broker))

    def kill(self) -> None:
        """End the process at once, as with kill -9."""
        self._trace("is killed")
        self.broker = None
        self.machine.kill_process()

    def kill_at_operation(self) -> None:
        """End the process before the effect of a change of its disk. Errors: SimulatedCrash, always."""
        state = self.machine.state
        self.kill()
        state.reopen_disk()
        raise SimulatedCrash(f"{state.name} was killed")

    def fail_power(self) -> None:
        """End the process and lose a part of the unsynced data."""
        self._trace("loses power")
        self.broker = None
        self.machine.fail_power()

    def _trace(self, text: str) -> None:
        self.machine.state.scheduler.trace.note(self.machine.state.name, text)


class SimulatedCluster:
    """`count` nodes, each broker and controller, which are started by `start`.

    `features` are the first feature levels; None for the newest ones. `voters_may_change` selects a dynamic
    quorum (KIP-853).
    """

    def __init__(
        self,
        scheduler: Scheduler,
        count: int = 3,
        config: Mapping[str, str] | None = None,
        *,
        features: Mapping[str, int] | None = None,
        voters_may_change: bool = False,
    ) -> None:
        self.scheduler = scheduler
        self.network = Network(scheduler)
        self.bucket = SimulatedBucket(scheduler)
        """The object store of all nodes."""
        nodes = tuple(
            NodeLayout(number, f"10.0.0.{number}", PORT, CONTROLLER_PORT) for number in range(1, count + 1)
        )
        self.layout = ClusterLayout(Path("/"), CLUSTER_ID, nodes, {**DEFAULTS, **(config or {})})
        self.nodes = {
            node.node_id: SimulatedNode(
                Machine(self.network, f"node-{node.node_id}", node.host),
                self._properties(node, voters_may_change),
                node.node_id,
                self.bucket,
            )
            for node in nodes
        }
        levels = BOOTSTRAP_LEVELS if features is None else features
        records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
        voters = self._first_voters() if voters_may_change else None
        for each in self.nodes.values():
            each.format(records, voters)
        self.machines = [node.machine for node in self.nodes.values()]
        self._clients = 0

    def _properties(self, node: NodeLayout, voters_may_change: bool) -> dict[str, str]:
        properties = self.layout.properties(node)
        if voters_may_change:
            del properties["controller.quorum.voters"]
            controllers = [f"{each.host}:{each.controller_port}" for each in self.layout.nodes]
            properties["controller.quorum.bootstrap.servers"] = ",".join(controllers)
        return properties

    def _first_voters(self) -> VoterSet:
        return voter_set(
            (
                InitialVoter(node.node_id, node.machine.state.address, CONTROLLER_PORT, node.directory_id)
                for node in self.nodes.values()
            ),
            CONTROLLER_LISTENER,
        )

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
        """The newest metadata of a running node. Errors: ValueError if no node runs."""
        images = [node.broker.services.image() for node in self.nodes.values() if node.broker is not None]
        return max(images, key=lambda image: image.offset)

    def node_of(self, process: ProcessState) -> SimulatedNode | None:
        """Return the node that runs in a process; None if it has ended or is that of a client."""
        for node in self.nodes.values():
            if node.machine.process is not None and node.machine.process.state is process:
                return node
        return None

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
        """Remove all brokers and processes: the simulation has ended. The disks remain."""
        for node in self.nodes.values():
            node.cleaning_workers.clear()
            node.broker = node.failure = None
        for machine in self.machines:
            machine.release()
        self.network.endpoints.clear()
        self.network.listeners.clear()
