"""Faults of the safety phase: link failures, crashes, pauses, lost disks, resignations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.quorum.swarm import Voters
from tidelog.cluster.quorum.events import Resign
from tidelog.cluster.quorum.voter_set import VoterSet

if TYPE_CHECKING:
    from tests.sim.quorum.cluster import SimulatedCluster
    from tests.sim.quorum.node import SimNode


class Faults:
    """Injects faults until `stop`, and then repairs everything."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.is_stopped = False
        swarm = cluster.swarm
        self._repeat(swarm.partition_every, self._partition)
        self._repeat(swarm.isolate_every, self._isolate)
        self._repeat(swarm.crash_every, self._crash)
        self._repeat(swarm.pause_every, self._pause)
        self._repeat(swarm.wipe_every, self._wipe)
        self._repeat(swarm.resign_every, self._resign)

    def stop(self) -> None:
        """Repair links, start and resume all nodes, and make the network reliable."""
        cluster = self.cluster
        self.is_stopped = True
        cluster.swarm = cluster.swarm.with_reliable_network()
        cluster.network.cut_links.clear()
        for node in cluster.nodes.values():
            if node.quorum is None:
                node.start()
            node.resume()

    def _repeat(self, mean: int, fault: Callable[[], None]) -> None:
        if mean:
            self.cluster.schedule(self.cluster.now + self._interval(mean), self._inject, mean, fault)

    def _inject(self, mean: int, fault: Callable[[], None]) -> None:
        if not self.is_stopped:
            fault()
            self._repeat(mean, fault)

    def _interval(self, mean: int) -> int:
        return 1 + int(self.cluster.random.expovariate(1 / mean))

    def _victim(self) -> SimNode:
        """Return any node, more often a leader."""
        random, leaders = self.cluster.random, self.cluster.leaders()
        if leaders and random.random() < self.cluster.swarm.crash_leader:
            return random.choice(leaders)
        return random.choice(list(self.cluster.nodes.values()))

    def _partition(self) -> None:
        """Isolate one node or a group of nodes, in one direction or both."""
        cluster, random = self.cluster, self.cluster.random
        ids = list(cluster.nodes)
        if random.random() < 0.4:
            apart = {self._victim().id}
        else:
            apart = set(random.sample(ids, random.randrange(1, len(ids) + 1)))
        others = [each for each in ids if each not in apart]
        links = {(a, b) for a in sorted(apart) for b in others}
        if random.random() >= cluster.swarm.one_way:
            links |= {(b, a) for a, b in links}
        elif random.random() < 0.5:
            links = {(b, a) for a, b in links}
        cluster.network.cut_links |= links
        cluster.schedule(cluster.now + random.randrange(1, cluster.swarm.partition_max), self._heal, links)

    def _isolate(self) -> None:
        cluster, random, leaders = self.cluster, self.cluster.random, self.cluster.leaders()
        if cluster.network.cut_links or len(leaders) != 1:
            return
        apart = random.choice([node.id for node in cluster.nodes.values() if node is not leaders[0]])
        others = (
            [leaders[0].id] if random.random() < 0.5 else [each for each in cluster.nodes if each != apart]
        )
        links = {(apart, other) for other in others} | {(other, apart) for other in others}
        cluster.network.cut_links |= links
        cluster.schedule(cluster.now + random.randrange(1, cluster.swarm.partition_max), self._heal, links)

    def _heal(self, links: set[tuple[int, int]]) -> None:
        self.cluster.network.cut_links -= links

    def _crash(self) -> None:
        cluster, random = self.cluster, self.cluster.random
        victims = list(cluster.nodes.values()) if random.random() < 0.1 else [self._victim()]
        for node in victims:
            if node.quorum is not None:
                node.stop(power_lost=random.random() < cluster.swarm.lose_unsynced)
                cluster.schedule(
                    cluster.now + random.randrange(1, cluster.swarm.down_max + 1), self._restart, node
                )

    def _restart(self, node: SimNode) -> None:
        if node.quorum is None:
            node.start()

    def _pause(self) -> None:
        node = self._victim()
        if node.quorum is not None and not node.is_paused:
            node.pause()
            pause = self.cluster.random.randrange(1, self.cluster.swarm.pause_max)
            self.cluster.schedule(self.cluster.now + pause, self._wake, node, node.life)

    def _wake(self, node: SimNode, life: int) -> None:
        if node.life == life:
            node.resume()

    def _wipe(self) -> None:
        """Replace the disk of a node by an empty one if a majority of every voter set keeps its disks.

        Static voters keep their disks: a voter that has not applied the upgrade yet would accept an empty
        disk as that of a voter.
        """
        cluster = self.cluster
        node = self._victim()
        logs = [each.disk.log for each in cluster.nodes.values() if not each.disk.is_replacement]
        if cluster.swarm.mode is not Voters.DYNAMIC and not all(cluster.voter_sets_in(log) for log in logs):
            return
        # A node that joins by itself may still be added as a voter with the disk that it loses now.
        spare = 1 if cluster.swarm.auto_join else 0
        if not all(live_majority(cluster, voters, node, spare) for voters in possible_voter_sets(cluster)):
            return
        if node.quorum is not None:
            node.stop(power_lost=True)
        node.disk = cluster.new_disk(node.id)
        node.disk.is_replacement = True
        cluster.schedule(
            cluster.now + cluster.random.randrange(1, cluster.swarm.down_max + 1), self._restart, node
        )

    def _resign(self) -> None:
        leaders = self.cluster.leaders()
        if leaders:
            self.cluster.random.choice(leaders).handle(Resign())


def possible_voter_sets(cluster: SimulatedCluster) -> list[VoterSet]:
    """Return all possible voter sets: the last committed one and later ones in some log."""
    committed = [voters for _, voters in cluster.ledger.voter_sets[-1:]]
    end = cluster.ledger.voter_sets[-1][0] if cluster.ledger.voter_sets else -1
    others = [
        voters
        for node in cluster.nodes.values()
        for offset, voters in cluster.voter_sets_in(node.disk.log)
        if offset > end
    ]
    return [*committed, *others, *cluster.proposed_voter_sets]


def live_majority(
    cluster: SimulatedCluster, voters: VoterSet, without: SimNode | None = None, spare: int = 0
) -> bool:
    """Return whether a majority of the voters has existing disks after `without` has lost its disk.

    The majority must remain if `spare` voters without a disk are added.
    """
    live = 0
    for voter in voters:
        node = cluster.nodes[voter.id]
        live += node is not without and voter.key.directory_id in (None, node.disk.directory_id)
    return live >= (len(voters) + spare) // 2 + 1
