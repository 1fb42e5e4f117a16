"""One partition's replicas on virtual time: events from a heap, randomness from one seed.

Events are in a heap of (time, number, event); each event may schedule others. A request and its response are
separate messages, each of which may be dropped, lost or delayed, also behind later ones. After every event
the ledger checks the invariants.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.sim.replication.broker import UNREGISTERED, SimBroker
from tests.sim.replication.controller import Rule, SimController
from tests.sim.replication.ledger import Ledger
from tests.sim.replication.tier import SimTier
from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse
from tidelog.protocol.messages.list_offsets import ListOffsetsResponse
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
)
from tidelog.protocol.schema import ApiMessage

CONTROLLER = -1
REQUEST_TIMEOUT_MS = 120
HEARTBEAT_MS = 15
SESSION_MS = 100


@dataclass(frozen=True, kw_only=True)
class Swarm:
    """The parameters of one seed: size, settings, and rates of faults."""

    replicas: int = 3
    min_insync_replicas: int = 2
    lag_time_max_ms: int = 150
    fetch_version: int = 18
    fetch_max_entries: int = 3
    unclean_elections: bool = False
    chaos_ms: int = 2_000
    faults_every_ms: int = 40
    produce_every_ms: int = 6
    loss: float = 0.01
    slow: float = 0.05
    flush_every_ms: int = 60
    metadata_lag_ms: int = 5
    tiered: bool = False
    last_tiered_offset: bool = False

    @classmethod
    def of(cls, rng: Random) -> Swarm:
        """Return one of many kinds of runs."""
        replicas = rng.choice((3, 3, 3, 4, 5))
        return cls(
            replicas=replicas,
            min_insync_replicas=rng.choice((1, 2, 2, 2, 3)),
            lag_time_max_ms=rng.choice((60, 150, 400)),
            fetch_version=rng.choice((18, 18, 18, 11)),
            fetch_max_entries=rng.choice((1, 3, 10)),
            unclean_elections=rng.random() < 0.1,
            faults_every_ms=rng.choice((15, 30, 60, 120)),
            produce_every_ms=rng.choice((3, 8, 20)),
            loss=rng.choice((0.0, 0.01, 0.1)),
            slow=rng.choice((0.0, 0.02, 0.1)),
            flush_every_ms=rng.choice((20, 60, 10_000)),
            metadata_lag_ms=rng.choice((2, 10, 80)),
        )

    @classmethod
    def with_tier(cls, rng: Random) -> Swarm:
        """Return the same parameters for a tiered topic."""
        return replace(cls.of(rng), tiered=True, last_tiered_offset=rng.random() < 0.3)


class SimulatedCluster:
    """A run; also the brokers' clock."""

    def __init__(
        self,
        rng: Random,
        swarm: Swarm,
        *,
        rules_off: frozenset[Rule] = frozenset(),
    ) -> None:
        self.rng = rng
        self.swarm = swarm
        self.now_ms = 0
        self.events = 0
        self.log: list[str] = []
        self.is_traced = False
        self.is_calm = False
        """No message is lost or slow."""
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._request_number = 0
        self.cut_links: set[tuple[int, int]] = set()
        """The (sender, receiver) pairs whose messages are dropped."""
        replicas = tuple(range(swarm.replicas))
        self.controller = SimController(
            replicas, swarm.min_insync_replicas, swarm.unclean_elections, rules_off
        )
        self.heartbeat_ms = dict.fromkeys(replicas, 0)
        self.ledger = Ledger(self)
        self.tier = SimTier(self)
        self.brokers = [SimBroker(broker_id, self) for broker_id in replicas]
        self._checked_unclean_elections = 0

    # -- clock

    def wall_ms(self) -> int:
        """Return the virtual time."""
        return self.now_ms

    def monotonic_ms(self) -> int:
        """Return the virtual time."""
        return self.now_ms

    def monotonic_ns(self) -> int:
        """Return the virtual time in ns."""
        return self.now_ms * 1_000_000

    def trace(self, text: str) -> None:
        """Record an event if tracing is enabled."""
        if self.is_traced:
            self.log.append(f"{self.now_ms:6} {text}")

    # -- events

    def schedule(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Schedule `event`."""
        self._number += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._number, event))

    def schedule_at(self, broker: SimBroker, delay_ms: int, event: Callable[[], None]) -> None:
        """Schedule an event at a broker if its process still runs then, after any pause."""
        incarnation = broker.incarnation

        def run_if_up() -> None:
            if broker.incarnation != incarnation or not broker.is_up:
                return
            if broker.paused_until_ms > self.now_ms:
                self.schedule(broker.paused_until_ms - self.now_ms, run_if_up)
                return
            event()
            self._respond_to_producers(broker)

        self.schedule(delay_ms, run_if_up)

    def run_until(self, end_ms: int, done: Callable[[], bool] | None = None) -> bool:
        """Advance the time; return whether `done` became true."""
        while self._heap and self._heap[0][0] <= end_ms:
            self.now_ms, _, event = heapq.heappop(self._heap)
            event()
            self.events += 1
            if self.controller.unclean_election_count != self._checked_unclean_elections:
                self._checked_unclean_elections = self.controller.unclean_election_count
                self.ledger.on_unclean_election()
            self.ledger.check()
            if done is not None and done():
                return True
        self.now_ms = end_ms
        return False

    # -- network

    def _transit(self, source: int, target: int) -> int | None:
        """Return the latency of a message; None if it is lost."""
        rng, swarm = self.rng, self.swarm
        if (source, target) in self.cut_links:
            return None
        if self.is_calm:
            return 1
        chance = rng.random()
        if chance < swarm.loss:
            return None
        slow = swarm.slow * (3 if CONTROLLER in (source, target) else 1)
        if chance < swarm.loss + slow:
            return rng.randint(20, 250)
        return rng.randint(1, 4)

    def fetch_soon(self, broker: SimBroker) -> None:
        """Start the fetch rounds of a new fetcher."""
        fetcher = broker.fetcher
        self.schedule_at(broker, self.rng.randint(0, 3), lambda: self._fetch_round(broker, fetcher))

    def _fetch_round(self, broker: SimBroker, fetcher: object) -> None:
        core = broker.fetcher
        if core is None or core is not fetcher:
            return
        request: ApiMessage | None = core.build_epoch_request(self.now_ms)
        request = request or core.build_offsets_request(self.now_ms)
        request = request or core.build_fetch(self.now_ms, broker.epoch)
        if request is None or broker.epoch == UNREGISTERED:
            self.schedule_at(broker, 10, lambda: self._fetch_round(broker, fetcher))
            return
        self._send_request(broker, fetcher, request)

    def _send_request(self, broker: SimBroker, fetcher: object, request: ApiMessage) -> None:
        self._request_number += 1
        number = broker.request_id = self._request_number
        leader, epoch = self.brokers[broker.leader_id], broker.epoch

        def is_awaited() -> bool:
            return broker.request_id == number and broker.fetcher is fetcher

        def time_out() -> None:
            if is_awaited():
                broker.request_id = 0
                assert broker.fetcher is not None
                if isinstance(request, FetchRequest):
                    broker.fetcher.on_fetch_failed(self.now_ms)
                else:
                    broker.fetcher.on_query_failed(self.now_ms)
                self._fetch_round(broker, fetcher)

        def respond() -> None:
            response = leader.respond(request, epoch)
            response_latency_ms = self._transit(leader.id, broker.id)
            if response_latency_ms is not None:
                self.schedule_at(broker, response_latency_ms, lambda: arrive(response))

        def arrive(response: ApiMessage) -> None:
            if is_awaited():
                broker.request_id = 0
                self._on_response(broker, response)
                self.schedule_at(broker, self.rng.randint(0, 6), lambda: self._fetch_round(broker, fetcher))

        self.schedule_at(broker, REQUEST_TIMEOUT_MS, time_out)
        request_latency_ms = self._transit(broker.id, leader.id)
        if request_latency_ms is not None and leader.is_up:
            self.schedule_at(leader, request_latency_ms, respond)

    def _on_response(self, broker: SimBroker, response: ApiMessage) -> None:
        core = broker.fetcher
        assert core is not None
        if isinstance(response, FetchResponse):
            broker.perform(core.on_fetch(response, self.now_ms))
        elif isinstance(response, OffsetForLeaderEpochResponse):
            broker.perform(core.on_epochs(response, self.now_ms))
        else:
            assert isinstance(response, ListOffsetsResponse)
            broker.perform(core.on_offsets(response, self.now_ms))

    # -- requests to the controller

    def send_proposal(self, broker: SimBroker, partition: Partition, proposal: IsrProposal) -> None:
        """Send AlterPartition until it gets a response."""
        epoch = broker.epoch

        def send() -> None:
            if broker.partition is not partition or partition.pending_isr is not proposal:
                return
            request_latency_ms = self._transit(broker.id, CONTROLLER)
            if request_latency_ms is not None:
                self.schedule(request_latency_ms, decide)
            self.schedule_at(broker, REQUEST_TIMEOUT_MS, send)

        def decide() -> None:
            result = self.controller.alter_partition(broker.id, epoch, proposal)
            text = result.isr if isinstance(result, CommittedIsr) else result.name
            self.trace(f"controller: {broker.id} requests {[m[0] for m in proposal.members]}: {text}")
            self.publish()
            response_latency_ms = self._transit(CONTROLLER, broker.id)
            if response_latency_ms is not None:
                self.schedule_at(broker, response_latency_ms, lambda: receive(result))

        def receive(result: CommittedIsr | ErrorCode) -> None:
            if broker.partition is partition:
                partition.on_isr_response(proposal, result)

        send()

    def publish(self) -> None:
        """Deliver changed metadata to the brokers, each with its own delay."""
        for broker in self.brokers:
            self.publish_to(broker)

    def publish_to(self, broker: SimBroker) -> None:
        """Deliver the missing metadata to a broker."""
        newest = len(self.controller.versions) - 1
        if broker.is_up and broker.epoch != UNREGISTERED and broker.applied_version != newest:
            lag_ms = 1 if self.is_calm else self.rng.randint(1, self.swarm.metadata_lag_ms)
            self.schedule_at(broker, lag_ms, lambda: self._apply(broker))

    def _apply(self, broker: SimBroker) -> None:
        newest = len(self.controller.versions) - 1
        if (CONTROLLER, broker.id) in self.cut_links or broker.applied_version == newest:
            return
        first = broker.applied_version + 1
        # A broker begins with the metadata that has its registration.
        while self.controller.versions[first].brokers[broker.id].epoch != broker.epoch:
            first += 1
        target = newest if self.is_calm else self.rng.choice((first, newest))
        broker.apply(target)
        self.trace(f"{broker.id}: metadata {target}: {self._describe_partition(target)}")
        if target != newest:
            self.schedule_at(broker, 2, lambda: self._apply(broker))

    def _describe_partition(self, version: int) -> str:
        partition_image = self.controller.versions[version].partition_image
        return (
            f"leader {partition_image.leader} epoch {partition_image.leader_epoch} isr {partition_image.isr} "
            f"elr {partition_image.eligible_leader_replicas}"
        )

    # -- producers

    def produce(self, value: str) -> None:
        """Send a record with acks=all to a broker in the leader state, which may have an old epoch."""
        leaders = [b for b in self.brokers if b.is_up and b.partition.leader is not None]
        if not leaders:
            return
        broker = self.rng.choice(leaders)

        def append() -> None:
            try:
                info = broker.partition.append(value, -1, self.now_ms)  # type: ignore[arg-type]
            except KafkaError:
                return
            self.ledger.on_append(broker.id, broker.log, 1)
            broker.pending_produces.append((info.last_offset + 1, value))

        self.schedule_at(broker, 1, append)

    def _respond_to_producers(self, broker: SimBroker) -> None:
        if not broker.pending_produces:
            return
        # The ledger must record the high watermark before a record is acknowledged because of it.
        self.ledger.check()
        waiting = []
        for required, value in broker.pending_produces:
            code = broker.partition.commit_outcome(required)
            if code is None:
                waiting.append((required, value))
            elif code is ErrorCode.NONE:
                self.ledger.acknowledge(value, required - 1)
        broker.pending_produces = waiting
