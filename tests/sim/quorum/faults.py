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

    def __init__(self, world: SimulatedCluster) -> None:
        self.world = world
        self.stopped = False
        swarm = world.swarm
        self._every(swarm.partition_every, self._partition)
        self._every(swarm.isolate_every, self._isolate)
        self._every(swarm.crash_every, self._crash)
        self._every(swarm.pause_every, self._pause)
        self._every(swarm.wipe_every, self._wipe)
        self._every(swarm.resign_every, self._resign)

    def stop(self) -> None:
        """Repair links, start and resume all nodes, and make the network reliable."""
        world = self.world
        self.stopped = True
        world.swarm = world.swarm.healed()
        world.network.cut.clear()
        for node in world.nodes.values():
            if node.quorum is None:
                node.start()
            node.resume()

    def _every(self, mean: int, fault: Callable[[], None]) -> None:
        if mean:
            self.world.at(self.world.now + self._interval(mean), self._happen, mean, fault)

    def _happen(self, mean: int, fault: Callable[[], None]) -> None:
        if not self.stopped:
            fault()
            self._every(mean, fault)

    def _interval(self, mean: int) -> int:
        return 1 + int(self.world.random.expovariate(1 / mean))

    def _victim(self) -> SimNode:
        """Return any node, more often a leader."""
        random, leaders = self.world.random, self.world.leaders()
        if leaders and random.random() < self.world.swarm.crash_leader:
            return random.choice(leaders)
        return random.choice(list(self.world.nodes.values()))

    def _partition(self) -> None:
        """Isolate one node or a group of nodes, in one direction or both."""
        world, random = self.world, self.world.random
        ids = list(world.nodes)
        if random.random() < 0.4:
            apart = {self._victim().id}
        else:
            apart = set(random.sample(ids, random.randrange(1, len(ids) + 1)))
        others = [each for each in ids if each not in apart]
        links = {(a, b) for a in sorted(apart) for b in others}
        if random.random() >= world.swarm.one_way:
            links |= {(b, a) for a, b in links}
        elif random.random() < 0.5:
            links = {(b, a) for a, b in links}
        world.network.cut |= links
        world.at(world.now + random.randrange(1, world.swarm.partition_max), self._heal, links)

    def _isolate(self) -> None:
        world, random, leaders = self.world, self.world.random, self.world.leaders()
        if world.network.cut or len(leaders) != 1:
            return
        apart = random.choice([node.id for node in world.nodes.values() if node is not leaders[0]])
        others = [leaders[0].id] if random.random() < 0.5 else [each for each in world.nodes if each != apart]
        links = {(apart, other) for other in others} | {(other, apart) for other in others}
        world.network.cut |= links
        world.at(world.now + random.randrange(1, world.swarm.partition_max), self._heal, links)

    def _heal(self, links: set[tuple[int, int]]) -> None:
        self.world.network.cut -= links

    def _crash(self) -> None:
        world, random = self.world, self.world.random
        victims = list(world.nodes.values()) if random.random() < 0.1 else [self._victim()]
        for node in victims:
            if node.quorum is not None:
                node.stop(power_lost=random.random() < world.swarm.lose_unsynced)
                world.at(world.now + random.randrange(1, world.swarm.down_max + 1), self._restart, node)

    def _restart(self, node: SimNode) -> None:
        if node.quorum is None:
            node.start()

    def _pause(self) -> None:
        node = self._victim()
        if node.quorum is not None and not node.paused:
            node.pause()
            pause = self.world.random.randrange(1, self.world.swarm.pause_max)
            self.world.at(self.world.now + pause, self._wake, node, node.life)

    def _wake(self, node: SimNode, life: int) -> None:
        if node.life == life:
            node.resume()

    def _wipe(self) -> None:
        """A node loses its disk, unless that would take away the last majority.

        Static voters may not lose theirs: a voter that has not heard of the upgrade yet takes an empty
        disk for a voter's.
        """
        world = self.world
        node = self._victim()
        logs = [each.disk.log for each in world.nodes.values() if not each.disk.is_replacement]
        if world.swarm.mode is not Voters.DYNAMIC and not all(world.voter_sets_in(log) for log in logs):
            return
        # Who joins by itself may yet be added with the disk that it loses now.
        spare = 1 if world.swarm.auto_join else 0
        if not all(live_majority(world, voters, node, spare) for voters in possible_voter_sets(world)):
            return
        if node.quorum is not None:
            node.stop(power_lost=True)
        node.disk = world.new_disk(node.id)
        node.disk.is_replacement = True
        world.at(world.now + world.random.randrange(1, world.swarm.down_max + 1), self._restart, node)

    def _resign(self) -> None:
        leaders = self.world.leaders()
        if leaders:
            self.world.random.choice(leaders).handle(Resign())


def possible_voter_sets(world: SimulatedCluster) -> list[VoterSet]:
    """Return all possible voter sets: the last committed one and later ones in some log."""
    committed = [voters for _, voters in world.ledger.voter_sets[-1:]]
    end = world.ledger.voter_sets[-1][0] if world.ledger.voter_sets else -1
    others = [
        voters
        for node in world.nodes.values()
        for offset, voters in world.voter_sets_in(node.disk.log)
        if offset > end
    ]
    return [*committed, *others, *world.proposed_voter_sets]


def live_majority(
    world: SimulatedCluster, voters: VoterSet, without: SimNode | None = None, spare: int = 0
) -> bool:
    """Whether a majority of the voters is on disks that exist, once `without` has lost its own.

    `spare`: also if so many voters come to the set that are on no disk.
    """
    live = 0
    for voter in voters:
        node = world.nodes[voter.id]
        live += node is not without and voter.key.directory_id in (None, node.disk.directory_id)
    return live >= (len(voters) + spare) // 2 + 1
