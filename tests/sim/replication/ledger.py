"""Invariants after every event, and acknowledgements to clients.

Committed is what any replica's high watermark has passed. As long as all elections were clean:

    1. an offset has one committed value, for ever
    2. a record is committed only once min.insync.replicas replicas have had it
    3. every member of the ISR that is up has all that is committed
    4. so has the leader, also when it comes from the eligible leader replicas
    5. nothing below a high watermark is cut
    6. what was acknowledged is committed

After an unclean election the first ones may be broken; then the replicas still have to end equal.

Of a tiered log, once all has come to rest:

    7. leader epochs and producers of every replica are the leader's
    8. every replica can give every record from the log start on, from its disk or out of the tier, and
       gives what was committed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.replication.sim_log import Entry, SimLog
from tidelog.cluster.image import NO_LEADER

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimBroker
    from tests.sim.replication.cluster import SimulatedCluster


class Violation(AssertionError):
    """An invariant does not hold."""


class Ledger:
    """Observes one run."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world
        self.committed: list[Entry] = []
        self.acknowledged: dict[str, int] = {}
        self._holders: dict[tuple[int, Entry], int] = {}
        """Which replicas ever had an entry at an offset, as bits."""
        self._high_watermarks: dict[int, int] = {}
        self.deleted_to = 0
        """Up to where clients have ever asked a leader to delete; not all replicas may hear of it."""
        self.is_strict = True

    # -- events

    def appended(self, broker: int, log: SimLog, count: int) -> None:
        """Record that a replica appended `count` entries."""
        end = log.log_end_offset
        for offset in range(end - count, end):
            entry = log.entry(offset)
            assert entry is not None
            key = (offset, entry)
            self._holders[key] = self._holders.get(key, 0) | 1 << broker

    def truncated(self, broker: int, log: SimLog, offset: int) -> None:
        """Record that a replica is about to truncate its log at `offset`."""
        if self.is_strict and offset < min(log.high_watermark, log.log_end_offset):
            self._violated(f"broker {broker} cuts to {offset}, its high watermark is {log.high_watermark}")

    def restarted(self, broker: int) -> None:
        """Record that a replica restarted and its high watermark may be lower."""
        self._high_watermarks.pop(broker, None)

    def acknowledge(self, value: str, offset: int) -> None:
        """Record an acknowledgement to a client."""
        self.acknowledged[value] = offset
        if self.is_strict and (offset >= len(self.committed) or self.committed[offset].value != value):
            self._violated(f"{value} at {offset} was acknowledged and is not committed")

    def unclean_election(self) -> None:
        """Record an unclean election, which may lose records."""
        self.is_strict = False

    # -- invariants

    def check(self) -> None:
        """Check all invariants after an event."""
        if not self.is_strict:
            return
        world = self._world
        for broker in world.brokers:
            self._follow_high_watermark(broker.id, broker.log)
        placed = world.controller.placed
        for member in placed.isr:
            broker = world.brokers[member]
            # A stopped or unregistered one will leave the ISR with what it lost.
            if broker.is_up and broker.epoch == world.controller.brokers[member].epoch:
                self._has_all("ISR member", member, broker.log)
        leader = placed.leader
        if leader != NO_LEADER:
            broker = world.brokers[leader]
            if broker.is_up and broker.epoch == world.controller.brokers[leader].epoch:
                self._has_all("leader", leader, broker.log)

    def _follow_high_watermark(self, broker: int, log: SimLog) -> None:
        before = self._high_watermarks.get(broker, log.base)
        now = log.high_watermark
        if now <= before:
            return
        self._high_watermarks[broker] = now
        if log.base > len(self.committed):
            self._violated(f"broker {broker} begins at {log.base}, {len(self.committed)} were committed")
        for offset in range(max(before, log.base), now):
            entry = log.entry(offset)
            assert entry is not None
            if offset < len(self.committed):
                if self.committed[offset] != entry:
                    self._violated(
                        f"broker {broker} has {entry} at {offset} below its high watermark {now}, "
                        f"committed was {self.committed[offset]}"
                    )
                continue
            if offset > len(self.committed):
                self._violated(f"broker {broker} jumps to {now}, {len(self.committed)} were committed")
            holders = self._holders.get((offset, entry), 0).bit_count()
            if holders < self._world.controller.minimum:
                self._violated(f"broker {broker} commits {entry} at {offset}, which {holders} replicas have")
            self.committed.append(entry)

    def _has_all(self, role: str, broker: int, log: SimLog) -> None:
        start, committed = log.base, self.committed
        if log.entries[: len(committed) - start] == committed[start:]:
            return
        missing = next(o for o in range(start, len(committed)) if log.entry(o) != committed[o])
        self._violated(
            f"{role} {broker} has {log.entry(missing)} at {missing}, committed was {committed[missing]}"
        )

    def check_end(self) -> None:
        """Check the state after all faults are repaired."""
        world = self._world
        placed = world.controller.placed
        if set(placed.isr) != set(placed.replicas):
            self._violated(f"the ISR is {placed.isr} at the end")
        leader = world.brokers[placed.leader].log
        if self.is_strict and world.swarm.tiered and leader.log_start_offset > self.deleted_to:
            self._violated(
                f"the log starts at {leader.log_start_offset}, deleted was up to {self.deleted_to}"
            )
        for broker in world.brokers:
            log = broker.log
            start = max(log.base, leader.base)
            if log.entries[start - log.base :] != leader.entries[start - leader.base :]:
                self._violated(f"broker {broker.id} has {log.entries[-5:]}, the leader {leader.entries[-5:]}")
            if log.high_watermark != leader.log_end_offset:
                self._violated(f"broker {broker.id} is at {log.high_watermark} of {leader.log_end_offset}")
            if world.swarm.tiered:
                self._check_past(broker, leader)
        if not self.is_strict:
            return
        for value, offset in self.acknowledged.items():
            entry = leader.entry(offset)
            if entry is None and world.swarm.tiered:
                entry = world.tier.value_at(world.brokers[placed.leader], offset)
            if world.swarm.tiered and offset < self.deleted_to:
                continue
            if offset >= leader.log_start_offset and (entry is None or entry.value != value):
                self._violated(f"{value} at {offset} was acknowledged and is gone")

    def _check_past(self, broker: SimBroker, leader: SimLog) -> None:
        log = broker.log
        start = max(log.log_start_offset, leader.log_start_offset, self.deleted_to)
        end = log.log_end_offset
        epochs, expected = (each.leader_epochs.entries_in_range(start, end) for each in (log, leader))
        if epochs != expected:
            self._violated(f"broker {broker.id} has epochs {epochs}, the leader {expected}")
        if not self.is_strict:
            return
        producers, expected_producers = (
            {producer: last for producer, last in each.last_offsets_of_producers().items() if last >= start}
            for each in (log, leader)
        )
        if producers != expected_producers:
            self._violated(f"broker {broker.id} has producers {producers}, the leader {expected_producers}")
        if log.log_start_offset > max(self.deleted_to, leader.log_start_offset):
            self._violated(f"broker {broker.id} starts at {log.log_start_offset}, the leader before that")
        for offset in range(start, log.base):
            found = self._world.tier.value_at(broker, offset)
            if found != self.committed[offset]:
                self._violated(
                    f"broker {broker.id} gives {found} at {offset}, committed was {self.committed[offset]}"
                )

    def _violated(self, text: str) -> None:
        raise Violation(text)
