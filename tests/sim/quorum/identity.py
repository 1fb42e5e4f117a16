"""Names and endpoints of the simulated cluster."""

from __future__ import annotations

from tidelog.cluster.quorum.voter_set import Endpoint

CLUSTER_ID = "simulated-cluster-id-1"
CLIENT = -1
"""The sender id of requests of clients and operators."""
FIRST_PORT = 9000


def endpoints_of(node_id: int) -> tuple[Endpoint, ...]:
    """Return the endpoint of a node's controller listener."""
    return (Endpoint("CONTROLLER", f"node-{node_id}", FIRST_PORT + node_id),)
