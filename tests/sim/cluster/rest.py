"""What a node may keep in memory when no client is connected: nothing waits but the fetches of followers."""

from __future__ import annotations

from typing import Final

from tests.sim.cluster.gauges import Gauges
from tests.sim.cluster.replication import running_brokers
from tests.sim.cluster.violation import Violation
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import BrokerId
from tidelog.testing.simulation.cluster import SimulatedCluster

_FETCHERS: Final = "num.replica.fetchers"
_PURGATORY: Final = "kafka_server_delayedoperationpurgatory_numdelayedoperations"
_EMPTY: Final[tuple[tuple[str, ...], ...]] = (
    (_PURGATORY, "Produce"),
    (_PURGATORY, "DeleteRecords"),
    (_PURGATORY, "ShareFetch"),
    ("kafka_network_requestchannel_requestqueuesize",),
    ("kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",),
    ("kafka_server_replicafetchermanager_failedpartitionscount",),
    ("tidelog_slices_pending",),
    ("tidelog_slices_heavy",),
)
"""Gauges and their labels that are 0 at rest."""
_PARKED_FETCH_BYTES_MAX: Final = 50_000
"""A parked fetch of a follower, with some partitions."""


def check_at_rest(cluster: SimulatedCluster, fetchers: int, *, is_tiered: bool) -> None:
    """Check the queues of all nodes; `fetchers` is the static num.replica.fetchers. Errors: Violation.

    `is_tiered`: each node has a consumer of the metadata of remote segments.
    """
    for node in running_brokers(cluster):
        readers = sum(
            _fetcher_count(cluster.image, other, fetchers) for other in cluster.nodes if other != node.node_id
        )
        if is_tiered:
            readers += len(cluster.nodes)
        gauges = Gauges(node)
        for name, *labels in _EMPTY:
            if value := gauges.total(name, *labels):
                raise Violation(f"node {node.node_id} at rest: {name} {' '.join(labels)} is {value:g}, not 0")
        fetches = gauges.total(_PURGATORY, "Fetch")
        if fetches > readers:
            raise Violation(f"node {node.node_id} at rest: {fetches:g} parked fetches of {readers} readers")
        parked_bytes = gauges.total("kafka_server_parkedrequests_bytes")
        if parked_bytes > fetches * _PARKED_FETCH_BYTES_MAX:
            raise Violation(
                f"node {node.node_id} at rest: {parked_bytes:g} bytes for {fetches:g} parked fetches"
            )


def _fetcher_count(image: MetadataImage, node_id: int, static_count: int) -> int:
    """Return num.replica.fetchers of a node, which a workload may have changed while the node ran."""
    own, of_all = image.broker_configs(BrokerId(node_id)), image.cluster_configs()
    return int(own.get(_FETCHERS) or of_all.get(_FETCHERS) or static_count)
