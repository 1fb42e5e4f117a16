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
    ROLL = "every node, one after the other: clean stop, and start again"
    CUT = "isolated from all other nodes"
    DEAF = "receives nothing from other nodes, but they receive its packets"
    MUTE = "receives from other nodes, but they receive nothing from it"
    ADRIFT = "isolated from the other controllers, but not from brokers"


CUTS = frozenset({FaultKind.CUT, FaultKind.DEAF, FaultKind.MUTE, FaultKind.ADRIFT})


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


def schedule(seed: int, kinds: Sequence[FaultKind], *, least_s: float, most_s: float) -> Iterator[Fault]:
    """Yield faults without end: every kind with every target before a repetition, in an order by `seed`."""
    chance = random.Random(seed)
    pairs = list(itertools.product(kinds, (Target.CONTROLLER, Target.LEADER)))
    while True:
        chance.shuffle(pairs)
        for kind, target in pairs:
            yield Fault(kind, target, chance.uniform(least_s, most_s))


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
            case FaultKind.RESTART | FaultKind.ROLL:
                self._cluster.stop([node_id])
            case _:
                self._cut(kind, node_id)

    def end(self, kind: FaultKind, node_id: int) -> None:
        """Repair the fault; do not wait for all replicas to be in sync."""
        node = self._cluster.nodes[node_id]
        match kind:
            case FaultKind.KILL | FaultKind.RESTART | FaultKind.ROLL:
                node.start()
            case FaultKind.PAUSE:
                node.resume()
            case _:
                assert self._firewall is not None
                self._firewall.heal()

    def _cut(self, kind: FaultKind, node_id: int) -> None:
        assert self._firewall is not None, "isolation of nodes needs the firewall"
        own = self._cluster.layout.node(node_id)
        for other in self._cluster.layout.nodes:
            if other.node_id == node_id:
                continue
            if kind in (FaultKind.CUT, FaultKind.DEAF):
                self._firewall.drop(other.host, own.host)
            if kind in (FaultKind.CUT, FaultKind.MUTE):
                self._firewall.drop(own.host, other.host)
            if kind is FaultKind.ADRIFT:
                self._firewall.drop(own.host, other.host, other.controller_port)
                self._firewall.drop(other.host, own.host, own.controller_port)
