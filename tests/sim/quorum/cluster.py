"""A cluster on virtual time: nodes, network, disks, one event queue, one source of randomness.

Every event is an entry of `_queue`, ordered by time and then by the order of insertion. A run therefore
depends only on its seed and the code. `trace` is a checksum of all events, to compare two runs.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any
from uuid import UUID
from zlib import crc32

from tests.sim.quorum.identity import CLUSTER_ID, endpoints_of
from tests.sim.quorum.invariants import (
    AFTER_EVERY_STEP,
    History,
    leaders_load_no_snapshot,
    votes_are_given_once,
)
from tests.sim.quorum.ledger import Ledger
from tests.sim.quorum.memory_log import MemoryLog
from tests.sim.quorum.network import Network, Request
from tests.sim.quorum.node import Disk, SimNode
from tests.sim.quorum.records import snapshot_bytes, voters_in
from tests.sim.quorum.safeguards import Safeguard, rules_without
from tests.sim.quorum.swarm import Swarm, Voters
from tests.sim.quorum.violation import Violation
from tests.support.configs import quorum_settings
from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.effects import Effect, Respond, Send
from tidelog.cluster.quorum.events import Event, RequestReceived
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.quorum import Quorum
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_set import ReplicaKey, Voter, VoterSet
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse


class SimulatedCluster:
    """The state of one run."""

    def __init__(
        self,
        seed: int,
        swarm: Swarm,
        disabled: frozenset[Safeguard] = frozenset(),
        ignored_invariants: frozenset[str] = frozenset(),
    ) -> None:
        """Create the nodes; `disabled` and `ignored_invariants` are for tests of the simulator."""
        self.seed = seed
        self.swarm = swarm
        self.random = Random(seed)
        self.now = 1_000
        self.steps = 0
        self.disabled = disabled
        self.ignored_invariants = ignored_invariants
        self.invariants = [each for each in AFTER_EVERY_STEP if each.__name__ not in ignored_invariants]
        self.trace = 0
        self.log: list[str] | None = None
        self.network = Network(self)
        self.ledger = Ledger()
        self.history = History()
        self.elections: dict[int, tuple[int, int]] = {}
        self.disks: dict[tuple[int, UUID], Disk] = {}
        self.proposed_voter_sets: list[VoterSet] = []
        self.on_client_response: Callable[[Request, Any], None] = lambda request, message: None
        self.settings = quorum_settings(
            election_timeout_ms=swarm.election_timeout,
            election_backoff_max_ms=swarm.election_timeout,
            fetch_timeout_ms=swarm.fetch_timeout,
            fetch_max_wait_ms=swarm.fetch_max_wait,
            request_timeout_ms=swarm.fetch_timeout,
            fetch_max_bytes=swarm.fetch_max_bytes,
            snapshot_chunk_max_bytes=swarm.snapshot_chunk,
            auto_join=swarm.auto_join,
        )
        self.drop_log_at_snapshots = False
        self.request_timeout = swarm.fetch_timeout
        self.quiet_max = 2 * swarm.fetch_timeout + 2_500
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self.nodes: dict[int, SimNode] = {}
        count = swarm.voters + swarm.observers
        for node_id in range(count):
            disk = self.new_disk(node_id)
            self.nodes[node_id] = SimNode(self, node_id, disk)
        self.first_voters = VoterSet.of(self.voter(self.nodes[each].disk) for each in range(swarm.voters))
        self.bootstrap = tuple(endpoints_of(each)[0] for each in range(count))
        if swarm.mode is Voters.DYNAMIC:
            self.ledger.voter_sets.append((-1, self.first_voters))
            for node in self.nodes.values():
                if node.id < swarm.voters:
                    self.format(node.disk)

    # Time.

    def schedule(self, time: int, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an event at `time`."""
        self._sequence += 1
        heappush(self._queue, (time, self._sequence, action, arguments))

    def run_until(self, time: int, done: Callable[[], bool] | None = None) -> bool:
        """Process all events up to `time`, or until `done()` is true, which is checked after each event."""
        queue = self._queue
        while queue and queue[0][0] <= time:
            self.now, _, action, arguments = heappop(queue)
            action(*arguments)
            if done is not None and done():
                return True
        self.now = max(self.now, time)
        return False

    def start(self) -> None:
        """Start all nodes at slightly different times."""
        for node in self.nodes.values():
            self.schedule(self.now + self.random.randrange(50), self._start_if_down, node)

    def _start_if_down(self, node: SimNode) -> None:
        if node.quorum is None:
            node.start()

    # Nodes and disks.

    def new_disk(self, node_id: int) -> Disk:
        """Return an empty directory with its own id."""
        disk = Disk(node_id, UUID(int=self.random.getrandbits(127) | 1 << 100))
        disk.log.refuses_to_truncate_committed = Safeguard.NEVER_TRUNCATE_COMMITTED not in self.disabled
        self.disks[node_id, disk.directory_id] = disk
        return disk

    def format(self, disk: Disk) -> None:
        """Write to `disk` what `tidelog storage format --initial-controllers` writes."""
        disk.log.snapshots[SnapshotId(0, 0)] = snapshot_bytes(self.first_voters, 0)

    def voter(self, disk: Disk) -> Voter:
        """Return the node with that disk as a voter."""
        return Voter(
            key=ReplicaKey(disk.node_id, disk.directory_id if self.is_dynamic else None),
            endpoints=endpoints_of(disk.node_id),
            kraft_version_max=1,
        )

    @property
    def is_dynamic(self) -> bool:
        """Return whether the voters are in the log permanently."""
        return self.swarm.mode is Voters.DYNAMIC or bool(self.ledger.voter_sets)

    def new_quorum(self, node: SimNode) -> Quorum:
        """Return the state machine of a process that starts with the node's disk."""
        static = self.swarm.mode is not Voters.DYNAMIC and not node.disk.is_replacement
        config = ReplicaConfig(
            key=ReplicaKey(node.id, node.disk.directory_id),
            cluster_id=CLUSTER_ID,
            settings=self.settings,
            random_below=self.random.randrange,
            static_voters=self.first_voters if static else VoterSet(),
            endpoints=endpoints_of(node.id),
            bootstrap_servers=() if static else self.bootstrap,
            rules=rules_without(self.disabled),
        )
        return Quorum(config, node.disk.log, node.disk.record, node.clock())

    def leaders(self) -> list[SimNode]:
        """Return the nodes in the leader state, ordered by id; some may have an old epoch."""
        return [
            node
            for node in self.nodes.values()
            if node.quorum is not None and node.quorum.state is State.LEADER
        ]

    def make_snapshot(self, node: SimNode, offset: int) -> None:
        """Write a snapshot of the committed state at the node, and sometimes delete the older log."""
        ledger, log = self.ledger, node.disk.log
        snapshot_id = SnapshotId(offset, ledger.epoch_before(offset))
        if snapshot_id in log.snapshots:
            return
        voters = ledger.voters_before(offset)
        log.add_snapshot(snapshot_id, snapshot_bytes(voters, ledger.digest_before(offset)))
        if self.drop_log_at_snapshots or self.random.random() < 0.7:
            later_snapshots = [each for each in log.snapshots if each.end_offset > log.start_offset]
            log.delete_before(self.random.choice(later_snapshots))

    def persist_delay(self) -> int:
        """Return the duration of a disk write."""
        random, swarm = self.random.random, self.swarm
        if swarm.slow_persist and random() < swarm.slow_persist:
            return int(random() * 1_000)
        return int(random() * (swarm.persist_max + 1))

    def voter_sets_in(self, log: MemoryLog) -> list[tuple[int, VoterSet]]:
        """Return the voter sets of a log with their offsets, starting with its snapshot's."""
        sets: list[tuple[int, VoterSet]] = []
        snapshot = log.earliest_snapshot()
        if snapshot is not None and (voters := voters_in(log.snapshots[snapshot])) is not None:
            sets.append((-1, voters))
        for batch in log.batches:
            if batch.is_control and (voters := voters_in(batch.data)) is not None:
                sets.append((batch.base_offset, voters))
        return sets

    def disks_of(self, key: ReplicaKey) -> list[tuple[int, UUID]]:
        """Return the possible disks of a voter: the named one, or all of the node."""
        if key.directory_id is not None:
            return [(key.id, key.directory_id)]
        return [disk for disk in self.disks if disk[0] == key.id]

    def has_durably(self, key: ReplicaKey, log: MemoryLog, offset: int) -> bool:
        """Return whether a voter has everything in `log` below `offset` on its disk."""
        for name in self.disks_of(key):
            disk = self.disks.get(name)
            if disk is None or disk.log.durable_end_offset < offset:
                continue
            if disk.log.start_offset >= offset or disk.log.batch_at(offset - 1) == log.batch_at(offset - 1):
                return True
        return False

    # Observations

    def on_step(self, node: SimNode, event: Event | None, effects: list[Effect]) -> None:
        """Record the events of a step and check all invariants."""
        quorum = node.quorum
        assert quorum is not None
        self.steps += 1
        log = node.disk.log
        mark = (
            f"{self.now} {node.id} {type(event).__name__} {quorum.state.name} {quorum.epoch} "
            f"{quorum.leader_id} {log.start_offset} {log.high_watermark} {log.end_offset} {len(effects)}"
        )
        self.trace = crc32(mark.encode(), self.trace)
        if self.log is not None:
            self.log.append(f"{mark}\n    {event}" + "".join(f"\n    -> {effect}" for effect in effects))
        if type(event) is RequestReceived and isinstance(event.message, FetchRequest | FetchSnapshotRequest):
            assert isinstance(event.source, Request)
            self.history.fetch_times_ms.setdefault(node.id, {})[event.source.sender] = self.now
        for invariant in self.invariants:
            invariant(self, node)
        leaders_load_no_snapshot(self, node, effects)

    def on_request(self, node: SimNode, effect: Send) -> None:
        """Record a request: a candidate that requests votes has voted for itself."""
        message = effect.message
        if isinstance(message, VoteRequest):
            vote_request = message.topics[0].partitions[0]
            if not vote_request.pre_vote:
                me = ReplicaKey(node.id, node.disk.directory_id)
                votes_are_given_once(self, me, vote_request.replica_epoch, (node.id, node.disk.directory_id))

    def on_response(self, node: SimNode, effect: Respond) -> None:
        """Record votes in a response and send it."""
        request, message = effect.source, effect.message
        assert isinstance(request, Request)
        request.response_count += 1
        if request.response_count > 1:
            raise Violation("requests_get_one_response", f"node {node.id}: {request}")
        if request.sender < 0:
            self.on_client_response(request, message)
            return
        if isinstance(message, VoteResponse) and isinstance(request.message, VoteRequest) and message.topics:
            vote_request = request.message.topics[0].partitions[0]
            vote_result = message.topics[0].partitions[0]
            if vote_result.vote_granted and not vote_request.pre_vote:
                voter = ReplicaKey(node.id, node.disk.directory_id)
                candidate = (vote_request.replica_id, vote_request.replica_directory_id)
                votes_are_given_once(self, voter, vote_request.replica_epoch, candidate)
        self.network.respond(request, message)
