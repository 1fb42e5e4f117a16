"""One node: its disk, and a process that performs the effects of a `Quorum`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from tests.sim.quorum.invariants import an_epoch_is_led_in_one_life
from tests.sim.quorum.memory_log import MemoryLog, StoredBatch
from tests.sim.quorum.network import Request
from tidelog.cluster.quorum.effects import (
    AppendRejected,
    Effect,
    HighWatermark,
    LeaderChanged,
    Persist,
    RecordsAppended,
    Respond,
    Send,
    SnapshotLoaded,
)
from tidelog.cluster.quorum.events import (
    Append,
    Event,
    PersistCompleted,
    RequestReceived,
    ResponseReceived,
    Tick,
)
from tidelog.cluster.quorum.quorum import Quorum
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.schema import ApiMessage

SLOW_REQUESTS = (AddRaftVoterRequest, RemoveRaftVoterRequest)

if TYPE_CHECKING:
    from tests.sim.quorum.cluster import SimulatedCluster


class _EpochEffect(NamedTuple):
    """An effect and its epoch: for a message, the epoch that it contains or of its step."""

    effect: Effect
    epoch: LeaderEpoch


def _with_epochs(
    effects: Sequence[Effect], before: LeaderEpoch, after: LeaderEpoch
) -> Iterator[_EpochEffect]:
    """Yield the effects of a step that began in epoch `before` and ended in epoch `after`.

    Messages before the new epoch is on disk may contain only the old epoch, so it is read from them.
    """
    is_durable = before == after
    for effect in effects:
        if not is_durable and isinstance(effect, Send | Respond):
            yield _EpochEffect(effect, epoch_in(effect.message))
        else:
            yield _EpochEffect(effect, after)
        is_durable = is_durable or (isinstance(effect, Persist) and effect.record is not None)


_EPOCH_FIELDS = frozenset({"leader_epoch", "current_leader_epoch", "replica_epoch"})


def epoch_in(message: object) -> LeaderEpoch:
    """Return the highest epoch of the sender in a message; -1 for none."""
    if isinstance(message, tuple):
        return max(map(epoch_in, message), default=NO_LEADER_EPOCH)
    if not is_dataclass(message) or isinstance(message, type):
        return NO_LEADER_EPOCH
    values = [(each.name, getattr(message, each.name)) for each in fields(message)]
    return max(
        (value if name in _EPOCH_FIELDS else epoch_in(value) for name, value in values),
        default=NO_LEADER_EPOCH,
    )


@dataclass(eq=False)
class Disk:
    """The contents of a log directory, and the highest epoch that a process with this disk has sent."""

    node_id: int
    directory_id: UUID
    log: MemoryLog = field(default_factory=MemoryLog)
    record: QuorumRecord | None = None
    is_replacement: bool = False
    """Whether it replaces a lost disk of the node."""
    sent_epoch: int = 0
    """The highest epoch of a process with this disk when it sent a message."""


class SimNode:
    """A node with its current disk; `quorum` is None while no process runs."""

    def __init__(self, cluster: SimulatedCluster, node_id: int, disk: Disk) -> None:
        self.cluster = cluster
        self.id = node_id
        self.disk = disk
        self.quorum: Quorum | None = None
        self.life = 0
        self.is_paused = False
        self.clock_ahead = cluster.random.randrange(100_000)
        """The clocks of nodes differ by a constant."""
        self.pending_request_ids: set[int] = set()
        self.epoch = 0
        self.ran_since = 0
        """The time of the last start or resumption of the process."""
        self.high_watermark = 0
        self.checked_to = 0
        self.snapshot_at = 0
        self.appended_batches: list[StoredBatch] = []
        self.truncated_batches: list[StoredBatch] = []
        self.open_requests: dict[Request, int] = {}
        """Requests without a response, except changes of voters, which may take longer."""
        self.unacknowledged_appends: deque[tuple[int, int, bytes]] = deque()
        self._inbox: deque[Event] = deque()
        self._pending_writes: list[Persist] | None = None
        self._delayed_effects: Sequence[_EpochEffect] = ()
        self._tickets: list[int] = []
        self._tick_at: int | None = None

    # Start and stop

    def start(self) -> None:
        """Start a process with the contents of the disk."""
        assert self.quorum is None
        self.life += 1
        self.is_paused = False
        log = self.disk.log
        self.ran_since = self.cluster.now
        self.epoch, self.high_watermark = 0, 0
        self.checked_to = log.start_offset
        self.snapshot_at = log.start_offset
        log.on_append = self.appended_batches.append
        log.on_truncate = self._note_truncation
        self.quorum = self.cluster.new_quorum(self)
        self._after_step([], None)
        self._schedule_tick()

    def stop(self, *, power_lost: bool, worst: bool = False) -> None:
        """Kill the process or cut its power, which loses part of the unsynced data, with `worst` all."""
        random, disk = self.cluster.random, self.disk
        if worst:
            disk.log.lose_power(0)
        elif self._pending_writes is not None and random.random() < 0.5:
            self._write_record(self._pending_writes)
        if power_lost:
            disk.log.lose_power(random.randrange(disk.log.unsynced_changes + 1))
        disk.log.reopen()
        self.quorum = None
        self.life += 1
        self.pending_request_ids.clear()
        self.open_requests.clear()
        self.unacknowledged_appends.clear()
        self._inbox.clear()
        self._pending_writes = None
        self._delayed_effects = ()
        self._tickets.clear()
        self._tick_at = None

    def pause(self) -> None:
        """Pause as by SIGSTOP: the clock continues, and messages wait in the sockets."""
        self.is_paused = True

    def resume(self) -> None:
        """Resume as by SIGCONT."""
        if not self.is_paused:
            return
        self.is_paused = False
        self.ran_since = self.cluster.now
        self._tick_at = None
        self._drain()
        self._schedule_tick()

    # Events

    def receive(self, request: Request) -> None:
        """Receive a request."""
        self._handle(RequestReceived(request, request.message))

    def receive_response(self, life: int, request_id: int, message: ApiMessage | None) -> None:
        """Receive a response or a timeout; late and repeated ones are ignored."""
        if life == self.life and request_id in self.pending_request_ids:
            self.pending_request_ids.discard(request_id)
            self._handle(ResponseReceived(request_id, message))

    def append(self, values: list[bytes]) -> None:
        """Append records of a client if this node is the leader."""
        assert self.quorum is not None
        self._handle(Append(values, self.quorum.epoch, values))

    def handle(self, event: Event) -> None:
        """Process any other event."""
        self._handle(event)

    def _tick(self, life: int, tick_at: int) -> None:
        if life != self.life or tick_at != self._tick_at:
            return
        self._tick_at = None
        if not self.is_paused:
            self._handle(Tick())

    def _handle(self, event: Event) -> None:
        if self.quorum is None:
            return
        self._inbox.append(event)
        if not self.is_paused:
            self._drain()

    def _drain(self) -> None:
        """Process waiting events until a `Persist` delays the rest."""
        while self._inbox and self._pending_writes is None and self.quorum is not None:
            count = len(self._inbox) if self.cluster.swarm.join_steps else 1
            epoch_effects: list[_EpochEffect] = []
            for _ in range(count):
                before = self.quorum.epoch
                effects = self._step(self._inbox.popleft())
                epoch_effects += _with_epochs(effects, before, self.quorum.epoch)
            self._perform(epoch_effects)
        self._schedule_tick()

    def _step(self, event: Event) -> list[Effect]:
        assert self.quorum is not None
        if isinstance(event, RequestReceived) and not isinstance(event.message, SLOW_REQUESTS):
            assert isinstance(event.source, Request)
            self.open_requests[event.source] = self.cluster.now
        effects = self.quorum.step(event, self.clock())
        self._after_step(effects, event)
        return effects

    def _after_step(self, effects: list[Effect], event: Event | None) -> None:
        self.cluster.on_step(self, event, effects)
        self.appended_batches.clear()
        self.truncated_batches.clear()

    # Effects

    def _perform(self, epoch_effects: Sequence[_EpochEffect]) -> None:
        """Perform the effects in order up to a `Persist`; report appended records after the last one."""
        for number, (effect, epoch) in enumerate(epoch_effects):
            if isinstance(effect, Persist):
                rest = epoch_effects[number + 1 :]
                self._pending_writes = [effect]
                if self.cluster.swarm.join_steps:
                    self._pending_writes += [each for each, _ in rest if isinstance(each, Persist)]
                    rest = [each for each in rest if not isinstance(each.effect, Persist)]
                self._delayed_effects = rest
                self.cluster.schedule(
                    self.cluster.now + self.cluster.persist_delay(), self._complete_writes, self.life
                )
                return
            self._perform_one(effect, epoch)
        if self._tickets:
            self._inbox.extendleft(PersistCompleted(ticket) for ticket in reversed(self._tickets))
            self._tickets.clear()

    def _complete_writes(self, life: int) -> None:
        """Complete a `Persist`."""
        if life != self.life or self._pending_writes is None:
            return
        if self.is_paused:
            self.cluster.schedule(self.cluster.now + 10, self._complete_writes, life)
            return
        writes, delayed_effects = self._pending_writes, self._delayed_effects
        self._write_record(writes)
        flush_to = max((each.flush_to for each in writes if each.flush_to is not None), default=None)
        if flush_to is not None:
            self.disk.log.sync(flush_to)
        self._tickets += [each.ticket for each in writes]
        self._pending_writes, self._delayed_effects = None, ()
        self._perform(delayed_effects)
        self._drain()

    def _write_record(self, writes: list[Persist]) -> None:
        for each in writes:
            if each.record is not None:
                self.disk.record = each.record

    def _perform_one(self, effect: Effect, epoch: LeaderEpoch) -> None:
        match effect:
            case Send():
                self._note_sent_epoch(epoch)
                self.cluster.on_request(self, effect)
                self.cluster.network.send(self, effect)
            case Respond():
                self._note_sent_epoch(epoch)
                assert isinstance(effect.source, Request)
                self.open_requests.pop(effect.source, None)
                self.cluster.on_response(self, effect)
            case RecordsAppended():
                self.unacknowledged_appends.append(
                    (effect.last_offset, effect.epoch, cast(bytes, effect.context))
                )
            case HighWatermark():
                self._on_high_watermark(effect.offset)
            case LeaderChanged():
                self.unacknowledged_appends.clear()
                if effect.leader_id == self.id:
                    an_epoch_is_led_in_one_life(self.cluster, self, effect.epoch)
            case SnapshotLoaded():
                self.snapshot_at = effect.snapshot_id.end_offset
                self.cluster.ledger.check_snapshot(self, effect.snapshot_id)
            case AppendRejected():
                pass

    def _note_sent_epoch(self, epoch: LeaderEpoch) -> None:
        self.disk.sent_epoch = max(self.disk.sent_epoch, epoch)

    def _on_high_watermark(self, offset: int) -> None:
        while self.unacknowledged_appends and self.unacknowledged_appends[0][0] < offset:
            last_offset, epoch, values = self.unacknowledged_appends.popleft()
            self.cluster.ledger.acknowledge(self, last_offset, epoch, values)
        every = self.cluster.swarm.snapshot_records
        if every and offset - self.snapshot_at >= every and offset > self.disk.log.start_offset:
            self.snapshot_at = offset
            self.cluster.make_snapshot(self, offset)

    def _note_truncation(self, offset: int, removed: list[StoredBatch]) -> None:
        self.truncated_batches += removed

    def clock(self) -> int:
        """Return the time on the node's clock."""
        return self.cluster.now + self.clock_ahead

    def _schedule_tick(self) -> None:
        if self.quorum is None or self.is_paused or self._pending_writes is not None:
            return
        deadline = self.quorum.deadline_ms
        if deadline is None:
            return
        cluster = self.cluster
        deadline = max(deadline - self.clock_ahead, cluster.now)
        if self._tick_at is not None and self._tick_at <= deadline:
            return
        self._tick_at = deadline
        late = int(cluster.random.random() * cluster.swarm.tick_late_max)
        cluster.schedule(deadline + 1 + late, self._tick, self.life, deadline)
