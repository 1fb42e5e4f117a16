"""One node: its disk, and a process that drives a `Quorum` by its effects."""

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

MAY_TAKE_LONG = (AddRaftVoterRequest, RemoveRaftVoterRequest)

if TYPE_CHECKING:
    from tests.sim.quorum.cluster import SimulatedCluster


class _Made(NamedTuple):
    """An effect, and the epoch in it if it is a message."""

    effect: Effect
    epoch: LeaderEpoch


def _made(effects: Sequence[Effect], before: LeaderEpoch, after: LeaderEpoch) -> Iterator[_Made]:
    """The effects of a step that led from one epoch to another.

    What it says before the new epoch is on disk may only be of the old one: there the messages are read.
    """
    is_durable = before == after
    for effect in effects:
        if not is_durable and isinstance(effect, Send | Respond):
            yield _Made(effect, epoch_told(effect.message))
        else:
            yield _Made(effect, after)
        is_durable = is_durable or (isinstance(effect, Persist) and effect.record is not None)


_EPOCH_FIELDS = frozenset({"leader_epoch", "current_leader_epoch", "replica_epoch"})


def epoch_told(message: object) -> LeaderEpoch:
    """Return the highest epoch of the sender in a message; -1 for none."""
    if isinstance(message, tuple):
        return max(map(epoch_told, message), default=NO_LEADER_EPOCH)
    if not is_dataclass(message) or isinstance(message, type):
        return NO_LEADER_EPOCH
    values = [(each.name, getattr(message, each.name)) for each in fields(message)]
    return max(
        (value if name in _EPOCH_FIELDS else epoch_told(value) for name, value in values),
        default=NO_LEADER_EPOCH,
    )


@dataclass(eq=False)
class Disk:
    """The contents of a directory, and what other nodes know of it."""

    node_id: int
    directory_id: UUID
    log: MemoryLog = field(default_factory=MemoryLog)
    record: QuorumRecord | None = None
    is_replacement: bool = False
    """It came after another one of the node was lost."""
    told_epoch: int = 0
    """The highest epoch that a process on this disk was in when it said something to others."""


class SimNode:
    """A node with its present disk; `quorum` is None while no process runs."""

    def __init__(self, world: SimulatedCluster, node_id: int, disk: Disk) -> None:
        self.world = world
        self.id = node_id
        self.disk = disk
        self.quorum: Quorum | None = None
        self.life = 0
        self.paused = False
        self.clock_ahead = world.random.randrange(100_000)
        """Clocks of nodes do not agree, they only go equally fast."""
        self.waiting: set[int] = set()
        self.epoch = 0
        self.ran_since = 0
        """Since when the process has been running without being stopped."""
        self.high_watermark = 0
        self.checked_to = 0
        self.snapshot_at = 0
        self.appended: list[StoredBatch] = []
        self.truncated: list[StoredBatch] = []
        self.loaded_snapshot = False
        self.open_requests: dict[Request, int] = {}
        """Requests that were not answered yet, but for changes of voters, which may take longer."""
        self.unacknowledged: deque[tuple[int, int, bytes]] = deque()
        self._inbox: deque[Event] = deque()
        self._writing: list[Persist] | None = None
        self._held_back: Sequence[_Made] = ()
        self._tickets: list[int] = []
        self._tick_at: int | None = None

    # Start and stop

    def start(self) -> None:
        """Start a process with the contents of the disk."""
        assert self.quorum is None
        self.life += 1
        self.paused = False
        log = self.disk.log
        self.ran_since = self.world.now
        self.epoch, self.high_watermark = 0, 0
        self.checked_to = log.start_offset
        self.snapshot_at = log.start_offset
        log.on_append = self.appended.append
        log.on_truncate = self._note_truncation
        self.quorum = self.world.new_quorum(self)
        self._after_step([], None)
        self._schedule_tick()

    def stop(self, *, power_lost: bool, worst: bool = False) -> None:
        """Kill the process or cut its power, which loses part of the unsynced data, all of it at `worst`."""
        random, disk = self.world.random, self.disk
        if worst:
            disk.log.lose_power(0)
        elif self._writing is not None and random.random() < 0.5:
            self._write_record(self._writing)
        if power_lost:
            disk.log.lose_power(random.randrange(disk.log.unsynced_changes + 1))
        disk.log.reopen()
        self.quorum = None
        self.life += 1
        self.waiting.clear()
        self.open_requests.clear()
        self.unacknowledged.clear()
        self._inbox.clear()
        self._writing = None
        self._held_back = ()
        self._tickets.clear()
        self._tick_at = None

    def pause(self) -> None:
        """Pause as by SIGSTOP: the clock continues, and messages wait in the sockets."""
        self.paused = True

    def resume(self) -> None:
        """Resume as by SIGCONT."""
        if not self.paused:
            return
        self.paused = False
        self.ran_since = self.world.now
        self._tick_at = None
        self._drain()
        self._schedule_tick()

    # Events

    def received(self, request: Request) -> None:
        """Receive a request."""
        self._handle(RequestReceived(request, request.message))

    def answered(self, life: int, request_id: int, message: ApiMessage | None) -> None:
        """Receive a response or a timeout; late and repeated ones are ignored."""
        if life == self.life and request_id in self.waiting:
            self.waiting.discard(request_id)
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
        if not self.paused:
            self._handle(Tick())

    def _handle(self, event: Event) -> None:
        if self.quorum is None:
            return
        self._inbox.append(event)
        if not self.paused:
            self._drain()

    def _drain(self) -> None:
        """Process waiting events until a `Persist` delays the rest."""
        while self._inbox and self._writing is None and self.quorum is not None:
            count = len(self._inbox) if self.world.swarm.join_steps else 1
            made: list[_Made] = []
            for _ in range(count):
                before = self.quorum.epoch
                effects = self._step(self._inbox.popleft())
                made += _made(effects, before, self.quorum.epoch)
            self._perform(made)
        self._schedule_tick()

    def _step(self, event: Event) -> list[Effect]:
        assert self.quorum is not None
        if isinstance(event, RequestReceived) and not isinstance(event.message, MAY_TAKE_LONG):
            assert isinstance(event.source, Request)
            self.open_requests[event.source] = self.world.now
        effects = self.quorum.step(event, self.clock())
        self._after_step(effects, event)
        return effects

    def _after_step(self, effects: list[Effect], event: Event | None) -> None:
        self.world.stepped(self, event, effects)
        self.appended.clear()
        self.truncated.clear()
        self.loaded_snapshot = False

    # Effects

    def _perform(self, made: Sequence[_Made]) -> None:
        """Perform the effects in order up to a `Persist`; report appended records after the last one."""
        for number, (effect, epoch) in enumerate(made):
            if isinstance(effect, Persist):
                rest = made[number + 1 :]
                self._writing = [effect]
                if self.world.swarm.join_steps:
                    self._writing += [each for each, _ in rest if isinstance(each, Persist)]
                    rest = [each for each in rest if not isinstance(each.effect, Persist)]
                self._held_back = rest
                self.world.at(self.world.now + self.world.persist_delay(), self._written, self.life)
                return
            self._do(effect, epoch)
        if self._tickets:
            self._inbox.extendleft(PersistCompleted(ticket) for ticket in reversed(self._tickets))
            self._tickets.clear()

    def _written(self, life: int) -> None:
        """Complete a `Persist`."""
        if life != self.life or self._writing is None:
            return
        if self.paused:
            self.world.at(self.world.now + 10, self._written, life)
            return
        writing, held_back = self._writing, self._held_back
        self._write_record(writing)
        flush_to = max((each.flush_to for each in writing if each.flush_to is not None), default=None)
        if flush_to is not None:
            self.disk.log.sync(flush_to)
        self._tickets += [each.ticket for each in writing]
        self._writing, self._held_back = None, ()
        self._perform(held_back)
        self._drain()

    def _write_record(self, writing: list[Persist]) -> None:
        for each in writing:
            if each.record is not None:
                self.disk.record = each.record

    def _do(self, effect: Effect, epoch: LeaderEpoch) -> None:
        match effect:
            case Send():
                self._speak(epoch)
                self.world.asked(self, effect)
                self.world.network.send(self, effect)
            case Respond():
                self._speak(epoch)
                assert isinstance(effect.source, Request)
                self.open_requests.pop(effect.source, None)
                self.world.responded(self, effect)
            case RecordsAppended():
                self.unacknowledged.append((effect.last_offset, effect.epoch, cast(bytes, effect.context)))
            case HighWatermark():
                self._committed(effect.offset)
            case LeaderChanged():
                self.unacknowledged.clear()
                if effect.leader_id == self.id:
                    an_epoch_is_led_in_one_life(self.world, self, effect.epoch)
            case SnapshotLoaded():
                self.loaded_snapshot = True
                self.snapshot_at = effect.snapshot_id.end_offset
                self.world.ledger.check_snapshot(self, effect.snapshot_id)
            case AppendRejected():
                pass

    def _speak(self, epoch: LeaderEpoch) -> None:
        self.disk.told_epoch = max(self.disk.told_epoch, epoch)

    def _committed(self, offset: int) -> None:
        while self.unacknowledged and self.unacknowledged[0][0] < offset:
            last_offset, epoch, values = self.unacknowledged.popleft()
            self.world.ledger.acknowledge(self, last_offset, epoch, values)
        every = self.world.swarm.snapshot_records
        if every and offset - self.snapshot_at >= every and offset > self.disk.log.start_offset:
            self.snapshot_at = offset
            self.world.make_snapshot(self, offset)

    def _note_truncation(self, offset: int, removed: list[StoredBatch]) -> None:
        self.truncated += removed

    def clock(self) -> int:
        """Return the time on the node's clock."""
        return self.world.now + self.clock_ahead

    def _schedule_tick(self) -> None:
        if self.quorum is None or self.paused or self._writing is not None:
            return
        deadline = self.quorum.deadline_ms
        if deadline is None:
            return
        world = self.world
        deadline = max(deadline - self.clock_ahead, world.now)
        if self._tick_at is not None and self._tick_at <= deadline:
            return
        self._tick_at = deadline
        late = int(world.random.random() * world.swarm.tick_late_max)
        world.at(deadline + 1 + late, self._tick, self.life, deadline)
