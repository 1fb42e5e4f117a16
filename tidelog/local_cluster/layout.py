"""The layout of a local cluster, which is stored in its folder.

    <folder>/cluster.json             cluster id, and per node its id, host and ports
    <folder>/node-<id>/data           the node's log directory; data-2, ... if it has several
    <folder>/node-<id>/node.log       output and log of the process
    <folder>/node-<id>/pid            the process id while it runs
    <folder>/node-<id>/server.properties

Errors: FileNotFoundError for a folder without a cluster, ValueError for a layout that cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.base.properties import properties_text
from tidelog.base.randomness import SYSTEM_RANDOMNESS, new_uuid
from tidelog.local_cluster.ports import free_ports
from tidelog.local_cluster.private_files import write_private
from tidelog.local_cluster.tiering import metadata_topic_settings
from tidelog.protocol.ids import uuid_text
from tidelog.storage.directories.meta_properties import MetaProperties, MetaPropertiesFile
from tidelog.storage.disk.os_files import OsFileSystem

CLUSTER_FILE: Final = "cluster.json"
CLIENT_LISTENER: Final = "PLAINTEXT"
CONTROLLER_LISTENER: Final = "CONTROLLER"
REPLICAS_AT_MOST: Final = 3
QUICK_TIMEOUTS: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.fetch.timeout.ms": "800",
    "controller.quorum.request.timeout.ms": "800",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "50",
    "replica.socket.timeout.ms": "2000",
}
"""Short timeouts for clusters in which tests stop nodes: a failover takes about a second."""


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The id of one node, its host, and its ports for clients and for controllers."""

    node_id: int
    host: str
    port: int
    controller_port: int

    @property
    def address(self) -> str:
        """The address for clients, host:port."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The nodes of a cluster, and settings that override the defaults of `properties`."""

    folder: Path
    cluster_id: str
    nodes: tuple[NodeLayout, ...]
    settings: Mapping[str, str]
    directories: int = 1
    has_racks: bool = False
    client_listener: str = CLIENT_LISTENER
    """The name of the listener for clients and brokers."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes for clients, separated by commas."""
        return ",".join(node.address for node in self.nodes)

    def node(self, node_id: int) -> NodeLayout:
        """Return the node with an id. Raise ValueError with the existing ids if there is none."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise ValueError(
            f"there is no node {node_id}; nodes are {', '.join(str(n.node_id) for n in self.nodes)}"
        )

    def node_folder(self, node_id: int) -> Path:
        """Return the folder of a node."""
        return self.folder / f"node-{node_id}"

    def data_folder(self, node_id: int) -> Path:
        """Return the first log directory of a node."""
        return self.data_folders(node_id)[0]

    def data_folders(self, node_id: int) -> list[Path]:
        """Return all log directories of a node."""
        names = ["data", *(f"data-{number}" for number in range(2, self.directories + 1))]
        return [self.node_folder(node_id) / name for name in names]

    def properties(self, node: NodeLayout) -> dict[str, str]:
        """Return the configuration of a node: its addresses, replication for this many nodes, `settings`."""
        voters = ",".join(f"{node.node_id}@{node.host}:{node.controller_port}" for node in self.nodes)
        replicas = min(REPLICAS_AT_MOST, len(self.nodes))
        # One node may fail, and an acknowledged record is on more than one node.
        in_sync = max(1, replicas - 1)
        rack = {"broker.rack": f"rack-{node.node_id}"} if self.has_racks else {}
        return {
            **rack,
            "node.id": str(node.node_id),
            "process.roles": "broker,controller",
            "listeners": f"{self.client_listener}://{node.address},"
            f"{CONTROLLER_LISTENER}://{node.host}:{node.controller_port}",
            "listener.security.protocol.map": (
                f"{self.client_listener}:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT"
            ),
            "inter.broker.listener.name": self.client_listener,
            "controller.listener.names": CONTROLLER_LISTENER,
            "controller.quorum.voters": voters,
            "log.dirs": ",".join(map(str, self.data_folders(node.node_id))),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(in_sync),
            **metadata_topic_settings(len(self.nodes)),
            **self.settings,
        }

    def write(self) -> None:
        """Create and format the folders, and write the layout."""
        for node in self.nodes:
            for data in self.data_folders(node.node_id):
                data.mkdir(parents=True)
            self.format(node)
            # The settings of SASL contain passwords.
            write_private(
                self.node_folder(node.node_id) / "server.properties", properties_text(self.properties(node))
            )
        document = {
            "cluster_id": self.cluster_id,
            "nodes": [asdict(node) for node in self.nodes],
            "settings": dict(self.settings),
            "directories": self.directories,
            "has_racks": self.has_racks,
            "client_listener": self.client_listener,
        }
        write_private(self.folder / CLUSTER_FILE, json.dumps(document, indent=2) + "\n")

    def format(self, node: NodeLayout) -> None:
        """Write `meta.properties` into each log directory of a node."""
        for data in self.data_folders(node.node_id):
            properties = MetaProperties(
                cluster_id=self.cluster_id, node_id=node.node_id, directory_id=new_uuid(SYSTEM_RANDOMNESS)
            )
            MetaPropertiesFile(OsFileSystem(), str(data)).write(properties)


def new_layout(
    folder: Path,
    count: int,
    *,
    first_port: int | None = None,
    hosts: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    directories: int = 1,
    has_racks: bool = False,
) -> ClusterLayout:
    """Return a layout of `count` nodes on free ports, or from `first_port`, controllers after the brokers.

    `hosts` has an address for each node; by default it is 127.0.0.1. With `has_racks` each node is in a rack
    of its own: rack-1, rack-2, ...
    """
    addresses = list(hosts) or ["127.0.0.1"] * count
    ports = free_ports(2 * count) if first_port is None else list(range(first_port, first_port + 2 * count))
    nodes = tuple(
        NodeLayout(index + 1, addresses[index], ports[index], ports[count + index]) for index in range(count)
    )
    cluster_id = uuid_text(new_uuid(SYSTEM_RANDOMNESS))
    return ClusterLayout(folder.absolute(), cluster_id, nodes, dict(settings or {}), directories, has_racks)


def read_layout(folder: Path) -> ClusterLayout:
    """Return the layout that was written to `folder`."""
    path = folder.absolute() / CLUSTER_FILE
    try:
        document = json.loads(path.read_text())
        nodes = tuple(NodeLayout(**node) for node in document["nodes"])
        shape = (
            document["directories"],
            document["has_racks"],
            document.get("client_listener", CLIENT_LISTENER),
        )
        return ClusterLayout(folder.absolute(), document["cluster_id"], nodes, document["settings"], *shape)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"cannot read the layout of a cluster in {path}: {error}") from error
