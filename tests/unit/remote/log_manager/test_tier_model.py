"""Random histories of a tiered partition: elections, zombies, crashes, transactions, failures at any step.

After every step, no retained record is lost. When all faults have ended, everything that can be remote
is remote, and remote storage contains nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.tier.tier_cluster import (
    PARTITION,
    TIERED,
    TierCluster,
    TierNode,
    batches_of,
    end_transaction,
    produce,
    replicate,
    run_to_end,
)
from tidelog.protocol.ids import Offset
from tidelog.remote.expiry.segment_deletion import delete_undeleted_copies
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentState
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.truncation import RemoteState

REPLICAS = 3
KINDS = ("copy", "expiration", "follower")
FAULTS = ("before", "half_way", "response_lost", "unavailable")
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
nodes = st.integers(0, REPLICAS - 1)
picks = st.integers(0, 99)
Run = Coroutine[Any, Any, None]
T = TypeVar("T")


def pick_one(choices: Sequence[T], pick: int) -> T:
    """Return one of `choices`, selected by a number that is independent of their count."""
    return choices[pick % len(choices)]


class TieredPartition(RuleBasedStateMachine):
    """Three replicas; those not notified of an election continue as before, the others are in sync again."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = TierCluster(REPLICAS)
        self.epoch = 0
        self.leader = 0
        self.in_sync = set(range(REPLICAS))
        self.notified = set(range(REPLICAS))
        self.runs: dict[tuple[int, str], Run] = {}
        self.batches: dict[Offset, tuple[bytes, int]] = {}
        """The records that leaders wrote and that were not truncated: bytes and timestamp, by base offset."""
        self.transactions: dict[int, tuple[Offset, Offset | None]] = {}
        self.floor = 0
        """The highest log start offset of any replica."""
        self.next_producer = 1

    @initialize()
    def begin(self) -> None:
        for index, node in enumerate(self.cluster.nodes):
            if index == self.leader:
                node.lead(0)
            else:
                node.follow(0)

    @property
    def head(self) -> TierNode:
        return self.cluster.nodes[self.leader]

    @property
    def config(self) -> LogConfig:
        return self.head.log.config

    # -- records

    @rule(count=st.integers(1, 4), is_transactional=st.booleans(), rolls=st.booleans())
    def write(self, count: int, is_transactional: bool, rolls: bool) -> None:
        log, now_ms = self.head.log, self.cluster.clock.now_ms
        if rolls:
            log.roll(now_ms)
        if is_transactional:
            producer_id, self.next_producer = self.next_producer, self.next_producer + 1
            first = produce(
                log,
                count,
                epoch=self.epoch,
                replicated=False,
                timestamp=now_ms,
                producer_id=producer_id,
                sequence=0,
                is_transactional=True,
            )
            self.transactions[producer_id] = (first, None)
        else:
            first = produce(log, count, epoch=self.epoch, replicated=False, timestamp=now_ms)
        self._remember(first, now_ms)

    @precondition(lambda self: self._open_transactions())
    @rule(pick=picks, is_abort=st.booleans())
    def end_transaction(self, pick: int, is_abort: bool) -> None:
        self._end(pick_one(self._open_transactions(), pick), is_abort)

    def _end(self, producer_id: int, is_abort: bool) -> None:
        log = self.head.log
        marker = log.log_end_offset
        end_transaction(log, producer_id, is_abort=is_abort, epoch=self.epoch, replicated=False)
        self.transactions[producer_id] = (self.transactions[producer_id][0], marker)
        self._remember(marker, NOW_MS)

    def _open_transactions(self) -> list[int]:
        return [pid for pid, (_, marker) in self.transactions.items() if marker is None]

    def _remember(self, first: Offset, timestamp: int) -> None:
        records = self.head.log.read(first, 1, at_least_one=True).records
        assert records is not None
        self.batches[first] = (bytes(records.read()), timestamp)

    @rule(index=nodes)
    def roll(self, index: int) -> None:
        self.cluster.nodes[index].log.roll(self.cluster.clock.now_ms)

    @rule(segments=st.integers(1, 3), batches=st.integers(1, 2))
    def fill(self, segments: int, batches: int) -> None:
        """Write complete segments and replicate them to all replicas that know the leader."""
        for _ in range(segments):
            for _ in range(batches):
                self.write(2, False, False)
            self.head.log.roll(self.cluster.clock.now_ms)
        for index in sorted(self.notified):
            self.catch_up(index)

    # -- replication

    @rule(index=nodes)
    def catch_up(self, index: int) -> None:
        """Notify the node of the leader and replicate the leader's log; the node is in sync afterwards."""
        if index != self.leader:
            node, head = self.cluster.nodes[index], self.head
            if index not in self.notified:
                self._notify(index)
            if node.log.log_end_offset < head.log.local_log_start_offset:
                self._restart_from_remote(node)
            replicate(head.log, node.log)
            start = min(head.log.log_start_offset, node.log.high_watermark)
            node.log.advance_log_start_offset(start)
            self.in_sync.add(index)
        self._commit()

    def _commit(self) -> None:
        logs = self.cluster.nodes
        self.head.log.advance_high_watermark(min(logs[i].log.log_end_offset for i in self.in_sync))

    def _notify(self, index: int) -> None:
        node, log = self.cluster.nodes[index], self.head.log
        node.follow(self.epoch)
        self.notified.add(index)
        end = _common_end(log, node.log)
        if end < node.log.log_end_offset:
            node.log.truncate_to(end, NOW_MS, below_high_watermark=True)

    def _restart_from_remote(self, node: TierNode) -> None:
        log = self.head.log
        node.log.restart_from_remote(
            RemoteState(
                log_start_offset=log.log_start_offset,
                local_log_start_offset=log.local_log_start_offset,
                leader_epochs=log.leader_epochs.entries_in_range(-1, log.local_log_start_offset),
                producer_snapshot=None,
            ),
            NOW_MS,
        )

    @rule(index=nodes)
    def drop_out(self, index: int) -> None:
        if index != self.leader:
            self.in_sync.discard(index)
            self._commit()

    @rule(pick=picks)
    def elect(self, pick: int) -> None:
        """Elect an in-sync replica; other replicas are not notified, and the former leader continues."""
        self._elect(pick_one(sorted(self.in_sync), pick))

    def _elect(self, index: int) -> None:
        self.epoch += 1
        self.leader = index
        self.notified, self.in_sync = {index}, {index}
        self.head.lead(self.epoch)
        log = self.head.log
        log.epoch_file.note(self.epoch, log.log_end_offset)
        self.batches = {first: kept for first, kept in self.batches.items() if first < log.log_end_offset}
        self.transactions = {
            pid: (first, None if marker is None or marker >= log.log_end_offset else marker)
            for pid, (first, marker) in self.transactions.items()
            if first < log.log_end_offset
        }

    @rule(index=nodes)
    def crash(self, index: int) -> None:
        """Restart the node with its durable state; a restarted leader leads in another epoch."""
        for kind in KINDS:
            run = self.runs.pop((index, kind), None)
            if run is not None:
                run.close()
        node = self.cluster.nodes[index]
        node.restart()
        if index == self.leader:
            self._elect(index)
        elif index in self.notified:
            node.follow(self.epoch)
        else:
            self._notify(index)

    # -- tasks

    @rule(index=nodes, kind=st.sampled_from(KINDS), steps=st.integers(0, 8))
    def start(self, index: int, kind: str, steps: int) -> None:
        task = getattr(self.cluster.nodes[index], kind)
        if task is not None and (index, kind) not in self.runs:
            self.runs[index, kind] = task.run()
            self._step((index, kind), steps)

    @rule(kind=st.sampled_from(["copy", "expiration"]))
    def work(self, kind: str) -> None:
        """Run the leader's task until it ends or fails."""
        key = (self.leader, kind)
        if key not in self.runs:
            self.start(self.leader, kind, 0)
        while key in self.runs:
            self._step(key, 100)

    @precondition(lambda self: len(self.runs) > 0)
    @rule(pick=picks)
    def elect_during_tasks(self, pick: int) -> None:
        """Replace the leader by a replica with all records while its tasks run."""
        for index in sorted(self.notified):
            self.catch_up(index)
        self._elect(pick_one(sorted(self.in_sync - {self.leader}) or [self.leader], pick))
        self.head.log.roll(self.cluster.clock.now_ms)

    @precondition(lambda self: self.runs)
    @rule(pick=picks, steps=st.integers(1, 8))
    def step(self, pick: int, steps: int) -> None:
        self._step(pick_one(sorted(self.runs), pick), steps)

    def _step(self, key: tuple[int, str], steps: int) -> None:
        run = self.runs[key]
        for _ in range(steps):
            try:
                run.send(None)
            except (StopIteration, RemoteStorageError, RemoteMetadataError):
                del self.runs[key]
                return
            self._check_floor(self.cluster.nodes[key[0]])

    @rule(
        store=st.sampled_from(["tier", "metadata"]),
        kind=st.sampled_from(FAULTS),
    )
    def fail_next(self, store: str, kind: str) -> None:
        faults = self.cluster.tier.faults if store == "tier" else self.cluster.metadata_faults
        setattr(faults, kind, getattr(faults, kind) + 1)

    # -- time and retention

    @rule(index=nodes)
    def apply_local_retention(self, index: int) -> None:
        node = self.cluster.nodes[index]
        node.log.retention.apply(self.cluster.clock.now_ms + 1)
        self._check_floor(node)

    @rule(duration_ms=st.integers(1, 500))
    def pass_time(self, duration_ms: int) -> None:
        self.cluster.clock.now_ms += duration_ms

    @rule(
        retention_ms=st.sampled_from([-1, -1, 300]),
        retention_bytes=st.sampled_from([-1, -1, 1000, 3000]),
        local_retention_ms=st.sampled_from([0, -2, 300]),
    )
    def configure(self, retention_ms: int, retention_bytes: int, local_retention_ms: int) -> None:
        self.cluster.configure(
            replace(
                TIERED,
                retention_ms=retention_ms,
                retention_bytes=retention_bytes,
                local_retention_ms=local_retention_ms,
            )
        )

    @rule(pick=picks)
    def delete_records(self, pick: int) -> None:
        log = self.head.log
        boundaries = [first for first in self.batches if log.log_start_offset <= first < log.high_watermark]
        offset = pick_one([*boundaries, log.high_watermark], pick)
        log.advance_log_start_offset(offset)
        self.floor = max(self.floor, offset)

    # -- invariants

    @invariant()
    def offsets_are_in_order(self) -> None:
        for node in self.cluster.nodes:
            log = node.log
            assert log.log_start_offset <= log.local_log_start_offset <= log.log_end_offset
            assert log.log_start_offset <= log.last_stable_offset <= log.log_end_offset
            assert log.highest_offset_in_remote_storage < log.log_end_offset
        log = self.head.log
        assert log.highest_offset_in_remote_storage < max(log.last_stable_offset, log.log_end_offset)
        committed = max(node.log.high_watermark for node in self.cluster.nodes)
        for segment in self.cluster.segments():
            assert segment.end_offset < max(committed, self.floor, 1), "remote records are committed"

    @invariant()
    def what_is_not_local_is_remote(self) -> None:
        log = self.head.log
        self._check_remote(self.head, max(log.log_start_offset, self.floor), log.local_log_start_offset)

    def _check_remote(self, node: TierNode, start: Offset, end: Offset) -> None:
        """Check that every offset of [start, end) is in one complete segment with the right bytes."""
        offset = start
        while offset < end:
            epoch = node.log.leader_epochs.epoch_for_offset(offset)
            assert epoch is not None
            segment = node.metadata.remote_log_segment_metadata(PARTITION, epoch, offset)
            assert segment is not None, (offset, epoch, self.cluster.ranges())
            assert segment.state is FINISHED
            assert segment.start_offset <= offset <= segment.end_offset
            copy = self.cluster.tier.copies.get(segment.remote_log_segment_id.id)
            assert copy is not None and copy.is_whole, (offset, segment)
            following = node.log.leader_epochs.end_offset_for(epoch, node.log.log_end_offset).end_offset
            offset = min(segment.end_offset + 1, following)

    def _check_contents(self) -> None:
        for copy in self.cluster.tier.copies.values():
            for first, data in batches_of(copy.log):
                assert self.batches[first][0] == data

    def _check_floor(self, node: TierNode) -> None:
        """Check that a log start moved only as far as retention allows."""
        log = node.log
        start = log.log_start_offset
        if start <= self.floor:
            return
        config = log.config
        kept = sum(len(data) for first, (data, _) in self.batches.items() if start <= first)
        dropped = [timestamp for first, (_, timestamp) in self.batches.items() if self.floor <= first < start]
        is_old = config.retention_ms >= 0 and all(
            timestamp <= self.cluster.clock.now_ms + 1 - config.retention_ms for timestamp in dropped
        )
        own_tail = log.readable_bytes(log.high_watermark, log.log_end_offset)
        is_large = config.retention_bytes >= 0 and kept + own_tail >= config.retention_bytes
        assert is_old or is_large, (self.floor, start, kept, config.retention_bytes)
        self.floor = start

    # -- the end, without faults

    def teardown(self) -> None:
        cluster = self.cluster
        cluster.tier.faults.clear()
        cluster.metadata_faults.clear()
        for index in range(REPLICAS):
            if index not in self.notified:
                self._notify(index)
        for key in sorted(self.runs):
            while key in self.runs:
                self._step(key, 100)
        cluster.configure(TIERED)
        for producer_id in self._open_transactions():
            self._end(producer_id, is_abort=True)
        self.write(1, False, True)
        self.head.log.roll(cluster.clock.now_ms)
        for index in range(REPLICAS):
            self.catch_up(index)
        for _ in range(3):
            self.head.run_copy()
            self.head.run_expiration()
            for node in cluster.nodes:
                run_to_end(delete_undeleted_copies(node.context))
        cluster.assert_nothing_dangles()
        log = self.head.log
        assert log.highest_offset_in_remote_storage == log.log_end_offset - 1
        self._check_remote(self.head, max(log.log_start_offset, self.floor), log.log_end_offset)
        self._check_contents()
        log.retention.apply(cluster.clock.now_ms + 1)
        assert log.local_log_start_offset == log.log_end_offset
        assert self.head.context.in_progress == set()
        self.offsets_are_in_order()


def _common_end(leader: PartitionLog, follower: PartitionLog) -> Offset:
    """Return the offset at which a follower's log diverges from the leader's (KIP-279)."""
    end = follower.log_end_offset
    epoch = follower.leader_epochs.latest_epoch
    while epoch is not None:
        leader_end = leader.leader_epochs.end_offset_for(epoch, leader.log_end_offset)
        if leader_end.epoch == epoch:
            return min(end, leader_end.end_offset)
        if leader_end.epoch < 0 or leader_end.epoch > epoch:
            return min(end, leader.log_start_offset)
        own = follower.leader_epochs.end_offset_for(leader_end.epoch, follower.log_end_offset)
        if own.epoch == leader_end.epoch:
            return min(end, leader_end.end_offset, own.end_offset)
        end = min(end, own.end_offset)
        epoch = own.epoch if 0 <= own.epoch < epoch else follower.leader_epochs.previous_epoch(epoch)
    return min(end, leader.log_end_offset)


TestTieredPartition = TieredPartition.TestCase
TestTieredPartition.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


class Walk:
    """A long history from one seed, with more relevant steps than Hypothesis would choose."""

    def __init__(self, seed: int) -> None:
        self.machine = TieredPartition()
        self._random = random.Random(seed)
        # Each walk has its own frequencies of faults, elections and retention.
        self._fault_weight = self._random.choice([0, 1, 4])
        self._election_weight = self._random.choice([0, 2, 6])
        self._retention_weight = self._random.choice([0, 2, 5])

    def run(self, steps: int) -> None:
        machine = self.machine
        machine.begin()
        moves = self._moves()
        for _ in range(steps):
            (move,) = self._random.choices([move for move, _ in moves], [weight for _, weight in moves])
            move()
            machine.offsets_are_in_order()
            machine.what_is_not_local_is_remote()
        machine.teardown()

    def _moves(self) -> list[tuple[Callable[[], None], int]]:
        m, below = self.machine, self._random.randrange

        def random_bool() -> bool:
            return below(2) == 1

        return [
            (lambda: m.fill(1 + below(3), 1 + below(2)), 6),
            (lambda: m.write(1 + below(4), random_bool(), random_bool()), 4),
            (lambda: m.end_transaction(below(99), random_bool()) if m._open_transactions() else None, 4),
            (lambda: m.roll(below(REPLICAS)), 2),
            (lambda: m.catch_up(below(REPLICAS)), 8),
            (lambda: m.drop_out(below(REPLICAS)), 1),
            (lambda: m.start(m.leader, KINDS[below(2)], below(8)), 6),
            (lambda: m.start(below(REPLICAS), KINDS[below(3)], below(8)), 4),
            (lambda: m.step(below(99), 1 + below(8)) if m.runs else None, 10),
            (lambda: m.work(KINDS[below(2)]), 6),
            (lambda: m.apply_local_retention(below(REPLICAS)), 4),
            (lambda: m.pass_time(1 + below(400)), 3),
            (lambda: m.elect(below(99)), self._election_weight),
            (lambda: m.elect_during_tasks(below(99)) if m.runs else None, self._election_weight),
            (lambda: m.crash(below(REPLICAS)), self._election_weight),
            (lambda: m.fail_next(("tier", "metadata")[below(2)], FAULTS[below(4)]), self._fault_weight),
            (lambda: m.delete_records(below(99)), min(1, self._retention_weight)),
            (self._configure, self._retention_weight),
        ]

    def _configure(self) -> None:
        choose = self._random.choice
        self.machine.configure(choose([-1, -1, 300]), choose([-1, 1000, 3000]), choose([0, 0, -2, 300]))


@pytest.mark.parametrize("seed", range(60))
def test_a_random_history_loses_no_record_and_leaves_no_object(seed: int) -> None:
    Walk(seed).run(120)
