"""One replica under test: the test sends its events and collects its effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar
from uuid import UUID

from tests.sim.quorum.memory_log import MemoryLog
from tests.sim.quorum.safeguards import Safeguard, rules_without
from tests.support.configs import quorum_settings
from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.control import data_batch
from tidelog.cluster.quorum.effects import Effect, Persist, Respond, Send
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
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_set import KRAFT_VERSION_DYNAMIC, Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.control_batch import control_batch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import begin_quorum_epoch, fetch, vote
from tidelog.protocol.schema import ApiMessage

CLUSTER_ID = "the-cluster"
METADATA = UUID(int=1)
Kind = TypeVar("Kind")


def directory(number: int, disk: int = 1) -> UUID:
    """Return the id of the `disk`-th directory of a node."""
    return UUID(int=1000 * disk + number)


def endpoints(number: int) -> tuple[Endpoint, ...]:
    """Return the endpoints of a node."""
    return (Endpoint("CONTROLLER", f"host-{number}", 9093),)


def voter(number: int, *, disk: int | None = 1) -> Voter:
    """Return a voter that supports both versions; without `disk` its directory id is unknown."""
    key = ReplicaKey(number, None if disk is None else directory(number, disk))
    return Voter(key=key, endpoints=endpoints(number), kraft_version_max=KRAFT_VERSION_DYNAMIC)


def static(*numbers: int) -> VoterSet:
    """Return voters as in `controller.quorum.voters`."""
    return VoterSet.of(voter(number, disk=None) for number in numbers)


def dynamic(*numbers: int) -> VoterSet:
    """Return voters as in the log."""
    return VoterSet.of(voter(number) for number in numbers)


def log_with(*epochs: int) -> MemoryLog:
    """Return a log with one record per given epoch."""
    log = MemoryLog()
    for epoch in epochs:
        log.append(record_of(epoch, log.end_offset), epoch)
    return log


def record_of(epoch: int, offset: int, value: bytes = b"a record") -> bytes:
    """Return a batch of one record."""
    return bytes(data_batch([value], base_offset=offset, epoch=epoch, timestamp=0))


def control_of(epoch: int, offset: int, *records: Any) -> bytes:
    """Return a batch of control records."""
    return bytes(control_batch(records, timestamp=0, base_offset=offset, leader_epoch=epoch))


class ReplicaFixture:
    """A replica whose effects are performed; writes complete at once unless `slow_disk`."""

    def __init__(
        self,
        node_id: int = 1,
        voters: VoterSet | None = None,
        *,
        log: MemoryLog | None = None,
        record: QuorumRecord | None = None,
        disabled: Iterable[Safeguard] = (),
        slow_disk: bool = False,
        bootstrap: tuple[Endpoint, ...] = (),
        own_endpoints: tuple[Endpoint, ...] = (),
        **settings: Any,
    ) -> None:
        self.now = 10_000
        self.log = log or MemoryLog()
        self.slow_disk = slow_disk
        self.record = record
        self.effects: list[Effect] = []
        self.unwritten: list[Persist] = []
        config = ReplicaConfig(
            key=ReplicaKey(node_id, directory(node_id)),
            cluster_id=CLUSTER_ID,
            settings=quorum_settings(**settings),
            random_below=lambda bound: 0,
            wall_ms=lambda: 1_700_000_000_000 + self.now,
            static_voters=static(1, 2, 3) if voters is None else voters,
            endpoints=own_endpoints,
            bootstrap_servers=bootstrap,
            rules=rules_without(disabled),
        )
        self.quorum = Quorum(config, self.log, record, self.now)
        self.step(Tick())

    @property
    def state(self) -> State:
        """Return the state of the replica."""
        return self.quorum.state

    @property
    def epoch(self) -> int:
        """Return the epoch of the replica."""
        return self.quorum.epoch

    def step(self, event: Event) -> list[Effect]:
        """Process an event and return its effects, which `effects` keeps until the next step."""
        self.effects = self.quorum.step(event, self.now)
        for effect in self.effects:
            if isinstance(effect, Persist):
                self.unwritten.append(effect)
        if not self.slow_disk:
            self.write()
        return self.effects

    def write(self) -> list[Effect]:
        """Complete all pending writes."""
        written, self.unwritten = self.unwritten, []
        for effect in written:
            if effect.record is not None:
                self.record = effect.record
        for effect in written:
            self.effects += self.quorum.step(PersistCompleted(effect.ticket), self.now)
        return self.effects

    def wait(self, ms: int) -> list[Effect]:
        """Advance the time."""
        self.now += ms
        return self.step(Tick())

    def wait_until(self, state: State) -> list[Effect]:
        """Advance the time, without responses, until the replica is in `state`."""
        for _ in range(1000):
            if self.state is state:
                return self.effects
            assert self.quorum.deadline_ms is not None
            self.now = max(self.now, self.quorum.deadline_ms)
            self.step(Tick())
        raise AssertionError(f"replica state: {self.state}; expected {state}")

    def send_request(self, message: ApiMessage, **fields: Any) -> Any:
        """Process a request of another node and return the response, or None if the request waits."""
        source = object()
        self.step(RequestReceived(source, message, **fields))
        return self.response_to(source)

    def response_to(self, source: object) -> Any:
        """Return the response to the request from `source` in the last effects."""
        responses = [each.message for each in self.all_of(Respond) if each.source is source]
        assert len(responses) <= 1
        return responses[0] if responses else None

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        """Return the last effects of one kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def requests_of(self, kind: type[ApiMessage]) -> list[Send]:
        """Return the requests of one kind in the last effects."""
        return [each for each in self.all_of(Send) if isinstance(each.message, kind)]

    def respond(self, send: Send, message: ApiMessage | None) -> list[Effect]:
        """Process a response of another node."""
        return self.step(ResponseReceived(send.request_id, message))

    def append(self, *values: bytes) -> list[Effect]:
        """Append records of this node."""
        return self.step(Append(list(values), self.epoch, "context"))

    # Shortcuts to states

    def lead(self) -> ReplicaFixture:
        """Become leader with one vote of another node."""
        for _ in range(10):
            if self.state is State.LEADER:
                return self
            if not self.requests_of(vote.VoteRequest):
                self.wait_until(State.PROSPECTIVE)
            self.respond(self.requests_of(vote.VoteRequest)[0], vote_response(self.epoch))
        raise AssertionError(f"replica state: {self.state}; expected LEADER")

    def follow(self, leader_id: int = 2, epoch: int = 1) -> ReplicaFixture:
        """Follow a leader that announced itself."""
        self.send_request(begin(leader_id, epoch))
        assert self.state is State.FOLLOWER
        return self

    def fetch_as(self, number: int, offset: int, last_epoch: int, *, disk: int = 1, **fields: Any) -> Any:
        """Fetch as a follower from `offset` and return the partition of the response; None if it waits."""
        request = fetch_of(number, offset, last_epoch, self.epoch, disk=disk, **fields)
        response = self.send_request(request)
        return None if response is None else partition_data(response)

    def respond_to_fetch(self, *records: bytes, high_watermark: int = -1) -> list[Effect]:
        """Respond to the last fetch as the leader."""
        send = self.requests_of(fetch.FetchRequest)[-1]
        leader_id = self.quorum.leader_id
        assert leader_id is not None
        message = fetch_response(
            leader_id, self.epoch, records=b"".join(records), high_watermark=high_watermark
        )
        return self.respond(send, message)


# ---- messages of other nodes


def vote_response(epoch: int, *, yes: bool = True, error: int = 0, leader_id: int = -1) -> vote.VoteResponse:
    """Return a granted vote."""
    partition = vote.ResponsePartitionData(
        vote_granted=yes, leader_epoch=epoch, leader_id=leader_id, error_code=error
    )
    return vote.VoteResponse(
        topics=(vote.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),)
    )


def vote_for(
    candidate: int,
    epoch: int,
    *,
    last: tuple[int, int] = (0, 0),
    pre_vote: bool = False,
    voter_id: int = 1,
    disk: int = 1,
    voter_disk: int | None = None,
    cluster_id: str | None = CLUSTER_ID,
) -> vote.VoteRequest:
    """Return the vote request of a candidate whose log ends with `last` = (epoch, end offset)."""
    partition = vote.RequestPartitionData(
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=directory(candidate, disk),
        voter_directory_id=UUID(int=0) if voter_disk is None else directory(voter_id, voter_disk),
        last_offset_epoch=last[0],
        last_offset=last[1],
        pre_vote=pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=(topic,))


def vote_result(response: Any) -> tuple[bool, ErrorCode]:
    """Return the result of a vote response."""
    partition = response.topics[0].partitions[0]
    return partition.vote_granted, ErrorCode(partition.error_code)


def begin(
    leader_id: int, epoch: int, *, voter_id: int = 1, disk: int | None = None
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """Return the BeginQuorumEpoch request of an elected leader."""
    partition = begin_quorum_epoch.RequestPartitionData(
        leader_id=leader_id,
        leader_epoch=epoch,
        voter_directory_id=UUID(int=0) if disk is None else directory(voter_id, disk),
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=CLUSTER_ID,
        voter_id=voter_id,
        topics=(
            begin_quorum_epoch.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),
        ),
        leader_endpoints=tuple(
            begin_quorum_epoch.LeaderEndpoint(name=name, host=host, port=port)
            for name, host, port in endpoints(leader_id)
        ),
    )


def fetch_of(
    number: int,
    offset: int,
    last_epoch: int,
    epoch: int,
    *,
    disk: int = 1,
    max_wait_ms: int = 500,
    high_watermark: int = 2**63 - 1,
    cluster_id: str | None = CLUSTER_ID,
) -> fetch.FetchRequest:
    """Return the fetch of a follower."""
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=directory(number, disk),
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=number),
        max_wait_ms=max_wait_ms,
        topics=(fetch.FetchTopic(topic_id=METADATA, partitions=(partition,)),),
    )


def partition_data(response: fetch.FetchResponse) -> fetch.PartitionData:
    """Return the partition of a fetch response."""
    return response.responses[0].partitions[0]


def fetch_response(leader_id: int, epoch: int, **fields: Any) -> fetch.FetchResponse:
    """Return the fetch response of a leader."""
    partition = fetch.PartitionData(
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch), **fields
    )
    return fetch.FetchResponse(
        responses=(fetch.FetchableTopicResponse(topic_id=METADATA, partitions=(partition,)),)
    )
