"""Faults of the simulated object store: errors 503, slow and lost responses, listings of an earlier state."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tidelog.testing.simulation.cluster import SimulatedCluster, SimulatedNode
from tidelog.testing.simulation.object_store import SimulatedBucket
from tidelog.testing.simulation.scheduler import MS, SECOND
from tidelog.testing.simulation.states import ProcessState

REQUESTS_BEFORE_KILL = 12


def disturb(bucket: SimulatedBucket, random: Random) -> str:
    """Begin one fault, and return a text about it."""
    kind = random.choice(("unavailable", "failures", "losses", "slow", "stale"))
    if kind == "unavailable":
        bucket.is_unavailable = True
        return "the store is unavailable"
    if kind == "failures":
        bucket.failure_share = random.choice((0.05, 0.3))
        return f"{bucket.failure_share:.0%} of the requests to the store fail"
    if kind == "losses":
        bucket.loss_share = random.choice((0.05, 0.3))
        return f"{bucket.loss_share:.0%} of the responses of the store are lost"
    if kind == "slow":
        bucket.delay_ns_max = random.choice((200, 2_000, 5_000)) * MS
        return f"requests to the store take up to {bucket.delay_ns_max // MS} ms longer"
    bucket.stale_ns = random.choice((1, 10)) * SECOND
    return f"listings of the store are {bucket.stale_ns // SECOND} s old"


class StoreKill:
    """Kills the node that sends one of the next requests to the store, before that request."""

    def __init__(self, cluster: SimulatedCluster, on_killed: Callable[[SimulatedNode], None]) -> None:
        self._cluster = cluster
        self._on_killed = on_killed
        self._remaining = 0
        cluster.bucket.on_request.append(self._on_request)

    def arm(self, random: Random) -> None:
        """Kill a node at one of the next requests."""
        self._remaining = 1 + random.randrange(REQUESTS_BEFORE_KILL)

    def disarm(self) -> None:
        """Kill no node any more."""
        self._remaining = 0

    def _on_request(self, process: ProcessState, action: str, key: str) -> None:
        if not self._remaining:
            return
        self._remaining -= 1
        node = self._cluster.node_of(process)
        if not self._remaining and node is not None:
            node.kill()
            self._on_killed(node)
