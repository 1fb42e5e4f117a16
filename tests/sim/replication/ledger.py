"""Invariants after every event, and acknowledgements to clients.

A record is committed when the high watermark of any replica has passed it. While all elections are clean:

    1. an offset has one committed value, which never changes
    2. a record is committed only after min.insync.replicas replicas have had it
    3. every running member of the ISR has all committed records
    4. the leader has all committed records, also if it was an eligible leader replica
    5. no record below a high watermark is truncated
    6. every acknowledged record is committed

After an unclean election invariants 1 to 6 are not checked; at the end all replicas must still be equal.

At the end of a run with a tiered log:

    7. leader epochs and producers of every replica are equal to the leader's
    8. every replica can return every committed record from the log start on, from its disk or from the tier
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

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.committed: list[Entry] = []
        self.acknowledged: dict[str, int] = {}
        self._holders: dict[tuple[int, Entry], int] = {}
        """The replicas that ever had an entry at an offset, as bits."""
        self._high_watermarks: dict[int, int] = {}
        self.deleted_to = 0
        """The highest offset to which clients have deleted records; replicas may have a lower log start."""
        self.is_strict = True

    # -- events

    def on_append(self, broker: int, log: SimLog, count: int) -> None:
        """Record that a replica appended `count` entries."""
        end = log.log_end_offset
        for offset in range(end - count, end):
            entry = log.entry(offset)
            assert entry is not None
            key = (offset, entry)
            self._holders[key] = self._holders.get(key, 0) | 1 << broker

    def on_truncation(self, broker: int, log: SimLog, offset: int) -> None:
        """Record that a replica is about to truncate its log at `offset`."""
        if self.is_strict and offset < min(log.high_watermark, log.log_end_offset):
            self._fail(f"broker {broker} truncates to {offset} below its high watermark {log.high_watermark}")

    def on_restart(self, broker: int) -> None:
        """Record that a replica restarted and its high watermark may be lower."""
        self._high_watermarks.pop(broker, None)

    def acknowledge(self, value: str, offset: int) -> None:
        """Record an acknowledgement to a client."""
        self.acknowledged[value] = offset
        if self.is_strict and (offset >= len(self.committed) or self.committed[offset].value != value):
            self._fail(f"{value} at {offset} was acknowledged and is not committed")

    def on_unclean_election(self) -> None:
        """Record an unclean election, which may lose records."""
        self.is_strict = False

    # -- invariants

    def check(self) -> None:
        """Check all invariants after an event."""
        if not self.is_strict:
            return
        cluster = self._cluster
        for broker in cluster.brokers:
            self._check_high_watermark(broker.id, broker.log)
        partition_image = cluster.controller.partition_image
        for member in partition_image.isr:
            broker = cluster.brokers[member]
            # A stopped or unregistered broker may have lost records; it will leave the ISR.
            if broker.is_up and broker.epoch == cluster.controller.brokers[member].epoch:
                self._require_all_committed("ISR member", member, broker.log)
        leader = partition_image.leader
        if leader != NO_LEADER:
            broker = cluster.brokers[leader]
            if broker.is_up and broker.epoch == cluster.controller.brokers[leader].epoch:
                self._require_all_committed("leader", leader, broker.log)

    def _check_high_watermark(self, broker: int, log: SimLog) -> None:
        before = self._high_watermarks.get(broker, log.base)
        now = log.high_watermark
        if now <= before:
            return
        self._high_watermarks[broker] = now
        if log.base > len(self.committed):
            self._fail(f"broker {broker} begins at {log.base}, {len(self.committed)} were committed")
        for offset in range(max(before, log.base), now):
            entry = log.entry(offset)
            assert entry is not None
            if offset < len(self.committed):
                if self.committed[offset] != entry:
                    self._fail(
                        f"broker {broker} has {entry} at {offset} below its high watermark {now}, "
                        f"committed was {self.committed[offset]}"
                    )
                continue
            if offset > len(self.committed):
                self._fail(f"broker {broker} jumps to {now}, {len(self.committed)} were committed")
            holders = self._holders.get((offset, entry), 0).bit_count()
            if holders < self._cluster.controller.minimum:
                self._fail(f"broker {broker} commits {entry} at {offset}, which {holders} replicas have")
            self.committed.append(entry)

    def _require_all_committed(self, role: str, broker: int, log: SimLog) -> None:
        start, committed = log.base, self.committed
        if log.entries[: len(committed) - start] == committed[start:]:
            return
        missing = next(o for o in range(start, len(committed)) if log.entry(o) != committed[o])
        self._fail(
            f"{role} {broker} has {log.entry(missing)} at {missing}, committed was {committed[missing]}"
        )

    def check_end(self) -> None:
        """Check the state after all faults are repaired."""
        cluster = self._cluster
        partition_image = cluster.controller.partition_image
        if set(partition_image.isr) != set(partition_image.replicas):
            self._fail(f"the ISR is {partition_image.isr} at the end")
        leader = cluster.brokers[partition_image.leader].log
        if self.is_strict and cluster.swarm.tiered and leader.log_start_offset > self.deleted_to:
            self._fail(f"the log starts at {leader.log_start_offset}, deleted was up to {self.deleted_to}")
        for broker in cluster.brokers:
            log = broker.log
            start = max(log.base, leader.base)
            if log.entries[start - log.base :] != leader.entries[start - leader.base :]:
                self._fail(f"broker {broker.id} has {log.entries[-5:]}, the leader {leader.entries[-5:]}")
            if log.high_watermark != leader.log_end_offset:
                self._fail(f"broker {broker.id} is at {log.high_watermark} of {leader.log_end_offset}")
            if cluster.swarm.tiered:
                self._check_tiered_log(broker, leader)
        if not self.is_strict:
            return
        for value, offset in self.acknowledged.items():
            entry = leader.entry(offset)
            if entry is None and cluster.swarm.tiered:
                entry = cluster.tier.value_at(cluster.brokers[partition_image.leader], offset)
            if cluster.swarm.tiered and offset < self.deleted_to:
                continue
            if offset >= leader.log_start_offset and (entry is None or entry.value != value):
                self._fail(f"{value} at {offset} was acknowledged and is lost")

    def _check_tiered_log(self, broker: SimBroker, leader: SimLog) -> None:
        log = broker.log
        start = max(log.log_start_offset, leader.log_start_offset, self.deleted_to)
        end = log.log_end_offset
        epochs, expected = (each.leader_epochs.entries_in_range(start, end) for each in (log, leader))
        if epochs != expected:
            self._fail(f"broker {broker.id} has epochs {epochs}, the leader {expected}")
        if not self.is_strict:
            return
        producers, expected_producers = (
            {producer: last for producer, last in each.last_offsets_of_producers().items() if last >= start}
            for each in (log, leader)
        )
        if producers != expected_producers:
            self._fail(f"broker {broker.id} has producers {producers}, the leader {expected_producers}")
        if log.log_start_offset > max(self.deleted_to, leader.log_start_offset):
            self._fail(f"broker {broker.id} starts at {log.log_start_offset}, the leader before that")
        for offset in range(start, log.base):
            entry = self._cluster.tier.value_at(broker, offset)
            if entry != self.committed[offset]:
                self._fail(
                    f"broker {broker.id} gives {entry} at {offset}, committed was {self.committed[offset]}"
                )

    def _fail(self, text: str) -> None:
        raise Violation(text)
