"""The states of a simulated cluster in which a fault can be of interest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.sim.cluster.gauges import Gauges
from tests.sim.cluster.replication import running_brokers
from tidelog.testing.simulation.cluster import SimulatedCluster, SimulatedNode

_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_numgroups"
_CONSUMER_GROUPS: Final = "kafka_server_group_coordinator_metrics_consumer_groups"
_TRANSACTIONS: Final = "kafka_coordinator_transaction_numtransactionalids"
_REPLICAS: Final = "kafka_server_replicamanager_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"


def _sum(*names: str) -> Callable[[Gauges], float]:
    return lambda gauges: sum(gauges.total(name) for name in names)


STATES_OF_NODES: Final[dict[str, Callable[[Gauges], float]]] = {
    "replica lags": _sum(f"{_REPLICAS}underreplicatedpartitions"),
    "acks=all rejected": _sum(f"{_REPLICAS}underminisrpartitioncount"),
    "replica failed": _sum("kafka_server_replicafetchermanager_failedpartitionscount"),
    "directory offline": _sum("kafka_log_logmanager_offlinelogdirectorycount"),
    "partition without leader": _sum(f"{_CONTROLLER}offlinepartitionscount"),
    "leaders not preferred": _sum(f"{_CONTROLLER}preferredreplicaimbalancecount"),
    "broker fenced": _sum(f"{_CONTROLLER}fencedbrokercount"),
    "reassignment": _sum(f"{_REPLICAS}reassigningpartitions"),
    "group rebalances": lambda gauges: (
        gauges.total(f"{_GROUPS}preparingrebalance")
        + gauges.total(f"{_GROUPS}completingrebalance")
        + gauges.total(_CONSUMER_GROUPS, "assigning")
        + gauges.total(_CONSUMER_GROUPS, "reconciling")
    ),
    "group stable": lambda gauges: (
        gauges.total(f"{_GROUPS}stable") + gauges.total(_CONSUMER_GROUPS, "stable")
    ),
    "transaction open": _sum(f"{_TRANSACTIONS}ongoing"),
    "transaction prepared": _sum(f"{_TRANSACTIONS}preparecommit", f"{_TRANSACTIONS}prepareabort"),
}
"""By name: a value above 0 on any running node means that the cluster is in the state."""

STATES_OF_CLUSTERS: Final[dict[str, Callable[[SimulatedCluster], bool]]] = {
    "node down": lambda cluster: any(not node.is_running for node in cluster.nodes.values()),
    "node starts": lambda cluster: any(
        node.is_running and node.broker is None for node in cluster.nodes.values()
    ),
    "node stops": lambda cluster: any(node.is_stopping for node in cluster.nodes.values()),
    "node paused": lambda cluster: any(_is_paused(node) for node in cluster.nodes.values()),
    "links cut": lambda cluster: cluster.network.is_cut,
    "disk full": lambda cluster: any(
        node.machine.state.disk.free_bytes is not None for node in cluster.nodes.values()
    ),
    "disk slow": lambda cluster: any(node.machine.state.disk_delay_ns_max for node in cluster.nodes.values()),
    "no controller": lambda cluster: (
        not any(
            Gauges(node).total(f"{_CONTROLLER}activecontrollercount") for node in running_brokers(cluster)
        )
    ),
}
ALL_STATES: Final = ("quiet", *STATES_OF_CLUSTERS, *STATES_OF_NODES)
"""The names of all states; in the state "quiet" there is nothing but stable groups."""
_QUIET: Final = frozenset({"group stable", "leaders not preferred"})


def states_of(cluster: SimulatedCluster) -> list[str]:
    """Return the names of the states in which a cluster is now."""
    names = [name for name, holds in STATES_OF_CLUSTERS.items() if holds(cluster)]
    gauges = [Gauges(node) for node in running_brokers(cluster)]
    names += [name for name, read in STATES_OF_NODES.items() if any(read(each) > 0 for each in gauges)]
    return ["quiet", *names] if _QUIET.issuperset(names) else names


def has_open_transactions(cluster: SimulatedCluster) -> bool:
    """Return whether a coordinator has a transaction that is open or prepared."""
    reads = STATES_OF_NODES["transaction open"], STATES_OF_NODES["transaction prepared"]
    return any(read(Gauges(node)) > 0 for node in running_brokers(cluster) for read in reads)


def _is_paused(node: SimulatedNode) -> bool:
    process = node.machine.process
    return process is not None and process.state.is_paused
