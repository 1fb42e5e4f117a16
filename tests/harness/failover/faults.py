"""Faults of a cluster under load, and their repair."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tests.harness.failover.firewall import Firewall
from tidelog.local_cluster.cluster import LocalCluster


class FaultKind(Enum):
    """The kinds of faults."""

    KILL = "kill -9, and start again"
    PAUSE = "SIGSTOP, and SIGCONT"
    RESTART = "clean stop, and start again"
    ROLLING_RESTART = "clean stop and start of every node, one after the other"
    ISOLATION = "isolated from all other nodes"
    INBOUND_LOSS = "packets from other nodes to it are lost"
    OUTBOUND_LOSS = "packets from it to other nodes are lost"
    CONTROLLER_ISOLATION = "isolated from the other controllers, but not from brokers"


NETWORK_FAULTS = frozenset(
    {FaultKind.ISOLATION, FaultKind.INBOUND_LOSS, FaultKind.OUTBOUND_LOSS, FaultKind.CONTROLLER_ISOLATION}
)


class Target(Enum):
    """The affected node; the first one if all are affected."""

    CONTROLLER = "the active controller"
    LEADER = "a leader of partitions that is not the controller"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, the affected node, and its duration; for each node if all are affected."""

    kind: FaultKind
    target: Target
    seconds: float


def schedule(
    seed: int, kinds: Sequence[FaultKind], *, duration_s_min: float, duration_s_max: float
) -> Iterator[Fault]:
    """Yield faults without end; each pair of kind and target occurs once before any occurs again.

    `seed` determines the order and the durations.
    """
    randomness = random.Random(seed)
    pairs = list(itertools.product(kinds, (Target.CONTROLLER, Target.LEADER)))
    while True:
        randomness.shuffle(pairs)
        for kind, target in pairs:
            yield Fault(kind, target, randomness.uniform(duration_s_min, duration_s_max))


class Faults:
    """Injects faults into a cluster and repairs them."""

    def __init__(self, cluster: LocalCluster, firewall: Firewall | None) -> None:
        self._cluster = cluster
        self._firewall = firewall

    def begin(self, kind: FaultKind, node_id: int) -> None:
        """Inject the fault; a clean stop has ended when this returns."""
        node = self._cluster.nodes[node_id]
        match kind:
            case FaultKind.KILL:
                self._cluster.kill(node_id)
            case FaultKind.PAUSE:
                node.pause()
            case FaultKind.RESTART | FaultKind.ROLLING_RESTART:
                self._cluster.stop([node_id])
            case _:
                self._isolate(kind, node_id)

    def end(self, kind: FaultKind, node_id: int) -> None:
        """Repair the fault; do not wait for all replicas to be in sync."""
        node = self._cluster.nodes[node_id]
        match kind:
            case FaultKind.KILL | FaultKind.RESTART | FaultKind.ROLLING_RESTART:
                node.start()
            case FaultKind.PAUSE:
                node.resume()
            case _:
                assert self._firewall is not None
                self._firewall.heal()

    def _isolate(self, kind: FaultKind, node_id: int) -> None:
        assert self._firewall is not None, "isolation of nodes needs the firewall"
        own = self._cluster.layout.node(node_id)
        for other in self._cluster.layout.nodes:
            if other.node_id == node_id:
                continue
            if kind in (FaultKind.ISOLATION, FaultKind.INBOUND_LOSS):
                self._firewall.drop(other.host, own.host)
            if kind in (FaultKind.ISOLATION, FaultKind.OUTBOUND_LOSS):
                self._firewall.drop(own.host, other.host)
            if kind is FaultKind.CONTROLLER_ISOLATION:
                self._firewall.drop(own.host, other.host, other.controller_port)
                self._firewall.drop(other.host, own.host, own.controller_port)
