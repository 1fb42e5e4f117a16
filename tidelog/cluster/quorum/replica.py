"""One replica of the metadata log: what it is, the state it is in, and the moves from state to state.

The rules that decide on a move stand in `elections`, `leadership`, `fetching` and their like; they
share this object. Whatever changes the epoch, the vote or the leader goes through here, and has
the quorum record made durable before anybody hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tidelog.cluster.quorum.connections import Connections
from tidelog.cluster.quorum.control import kraft_version_record, leader_change, voters_record
from tidelog.cluster.quorum.effects import LeaderChanged
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leading import AddingVoter, Leading, Position, VoterChange
from tidelog.cluster.quorum.log import RaftLog
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.responses import Leadership, fetch_response
from tidelog.cluster.quorum.rules import QuorumRules
from tidelog.cluster.quorum.settings import QuorumSettings
from tidelog.cluster.quorum.states import TRANSITIONS, Following, Nominee, Resigned, Role, State, Unattached
from tidelog.cluster.quorum.voter_history import VoterHistory
from tidelog.cluster.quorum.voter_set import (
    KRAFT_VERSION_DYNAMIC,
    KRAFT_VERSION_STATIC,
    Endpoint,
    ReplicaKey,
    Voter,
    VoterSet,
)
from tidelog.protocol.control_batch import ControlMessage, ControlRecordType, control_batch
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterResponse
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse


class Replica:
    """Invariant: `record` is what the last `Persist` of a record says; `state` and `role` belong together."""

    def __init__(
        self,
        *,
        key: ReplicaKey,
        cluster_id: str,
        static_voters: VoterSet,
        endpoints: tuple[Endpoint, ...],
        bootstrap: tuple[Endpoint, ...],
        log: RaftLog,
        record: QuorumRecord | None,
        settings: QuorumSettings,
        rules: QuorumRules,
        random_below: Callable[[int], int],
        wall_ms: Callable[[], int],
        now_ms: int,
    ) -> None:
        self.key = key
        self.cluster_id = cluster_id
        self.bootstrap = bootstrap
        self.log = log
        self.settings = settings
        self.rules = rules
        self.random_below = random_below
        self.wall_ms = wall_ms
        self.history = VoterHistory(static_voters)
        self.history.load(log)
        self.outbox = Outbox()
        self.connections = Connections(
            self.outbox,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self.has_unflushed = True
        """Whether a fetch must first have the log flushed: what it held at the start may not be durable."""
        self._endpoints = endpoints
        self._announced: tuple[LeaderEpoch, BrokerId | None] = (-1, None)
        if record is None or record.leader_epoch < log.last_epoch:
            record = QuorumRecord(leader_epoch=log.last_epoch)
            self.outbox.persist(record=record)
        self.record = record
        self.state, self.role = self._first_state(now_ms)
        self._announce()

    # ---- what it is

    @property
    def id(self) -> BrokerId:
        """The node."""
        return self.key.id

    @property
    def epoch(self) -> LeaderEpoch:
        """The highest that this replica has heard of."""
        return self.record.leader_epoch

    @property
    def leader_id(self) -> BrokerId | None:
        """Who leads the epoch, as far as that is known and still so."""
        leader_id = self.record.leader_id
        # It led this epoch and resigned, or restarted.
        return None if leader_id == self.id and self.state is not State.LEADER else leader_id

    @property
    def voters(self) -> VoterSet:
        """The last voter set in the log, or the static one."""
        return self.history.last

    @property
    def is_voter(self) -> bool:
        """Whether this replica, with its directory, votes."""
        return self.matches_voter(self.key)

    @property
    def may_stand(self) -> bool:
        """Whether this replica stands for election: as a voter, or as one that was until a change of which
        it does not know that it is committed. Without its log nobody may be able to commit that change
        (Ongaro's dissertation, 4.2.2); its own vote does not count then."""
        if self.is_voter:
            return True
        offset = self.history.last_offset
        if offset is None or offset < self.log.high_watermark:
            return False
        voter = self.history.before_last.by_id.get(self.id)
        return voter is not None and self.is_same(voter.key, self.key)

    @property
    def is_only_voter(self) -> bool:
        """Whether it decides alone."""
        return len(self.voters) == 1 and self.is_voter

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where this node is reached."""
        if self._endpoints:
            return self._endpoints
        return self.endpoints_of(self.id)

    @property
    def own_voter(self) -> Voter:
        """This replica as it would stand in a voter set."""
        return Voter(
            key=self.key,
            endpoints=self.endpoints,
            kraft_version_min=KRAFT_VERSION_STATIC,
            kraft_version_max=KRAFT_VERSION_DYNAMIC,
        )

    def endpoints_of(self, node_id: BrokerId) -> tuple[Endpoint, ...]:
        """Where a voter is reached, or one that was until the last change; empty for any other node."""
        voter = self.voters.by_id.get(node_id) or self.history.before_last.by_id.get(node_id)
        return () if voter is None else voter.endpoints

    def is_same(self, known: ReplicaKey, other: ReplicaKey) -> bool:
        """Whether `other` is the replica that is known as `known`, perhaps without its directory."""
        return known.id == other.id and self.rules.is_same_directory(known.directory_id, other.directory_id)

    def matches_voter(self, replica: ReplicaKey) -> bool:
        """Whether the replica is in the voter set."""
        voter = self.voters.by_id.get(replica.id)
        return voter is not None and self.is_same(voter.key, replica)

    def leadership(self) -> Leadership:
        """What answers say of the leader."""
        leader_id = self.leader_id
        if leader_id is None:
            endpoints: tuple[Endpoint, ...] = ()
        elif isinstance(self.role, Following):
            endpoints = self.role.endpoints
        elif leader_id == self.id:
            endpoints = self.endpoints
        else:
            endpoints = self.endpoints_of(leader_id)
        return Leadership(self.epoch, leader_id, endpoints)

    def leader_endpoint(self, request: RequestReceived) -> Endpoint | None:
        """The leader's address for the answer to `request`."""
        return self.leadership().endpoint_for(request, self.settings.listener_name)

    # ---- moves

    def become_unattached(self, epoch: LeaderEpoch, now_ms: int, *, fresh: bool = False) -> None:
        """No leader is known; whoever waits already for an election goes on waiting unless `fresh`."""
        role = self.role
        if fresh or isinstance(role, Leading | Resigned):
            deadline_ms = self.election_deadline(now_ms)
        else:
            deadline_ms = max(role.deadline_ms, now_ms)
        if epoch > self.epoch:
            self._set_record(QuorumRecord(leader_epoch=epoch))
        state = State.UNATTACHED if self.record.voted_id is None else State.VOTED
        self._transition(state, Unattached(deadline_ms))

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """The vote of this epoch is given away."""
        self._set_record(
            replace(self.record, voted_id=candidate.id, voted_directory_id=candidate.directory_id)
        )
        self._transition(State.VOTED, Unattached(self.election_deadline(now_ms)))

    def become_prospective(self, now_ms: int) -> None:
        """Ask whether an election would be won."""
        self._transition(State.PROSPECTIVE, self._nominee(now_ms))

    def become_candidate(self, now_ms: int) -> None:
        """Stand for election in the next epoch."""
        self._set_record(
            QuorumRecord(
                leader_epoch=self.epoch + 1, voted_id=self.id, voted_directory_id=self.key.directory_id
            )
        )
        self._transition(State.CANDIDATE, self._nominee(now_ms))

    def _nominee(self, now_ms: int) -> Nominee:
        own_vote = {self.id} if self.is_voter else set()
        return Nominee(self.voters, self.election_deadline(now_ms), granted=own_vote)

    def become_leader(self, now_ms: int) -> None:
        """Elected: fence the epochs before with a record of this one."""
        role = self.role
        assert isinstance(role, Nominee) and role.is_elected
        granting = sorted(role.granted)
        self._set_record(replace(self.record, leader_id=self.id))
        leading = Leading(
            own=self.key,
            epoch_start_offset=self.log.end_offset,
            check_quorum_at_ms=now_ms + self.check_quorum_ms,
            begin_epoch_at_ms=now_ms,
            voters={voter.id: Position(voter.key) for voter in self.voters},
        )
        if self.id in leading.voters:
            leading.voters[self.id].acknowledged = True
        self._transition(State.LEADER, leading)
        self.has_unflushed = False
        try:
            self.append_control([leader_change(self.id, self.voters.ids, granting), *self._voters_to_write()])
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or self.is_only_voter:
                raise
            # There is no room for it here; others may have some.
            self.resign(now_ms)

    def follow(
        self, epoch: LeaderEpoch, leader_id: BrokerId, endpoints: tuple[Endpoint, ...], now_ms: int
    ) -> None:
        """The leader of the epoch is known."""
        assert leader_id != self.id
        if epoch > self.epoch:
            self._set_record(QuorumRecord(leader_epoch=epoch, leader_id=leader_id))
        elif self.record.leader_id != leader_id:
            assert self.record.leader_id is None, f"{leader_id} leads the epoch of {self.record}"
            self._set_record(replace(self.record, leader_id=leader_id))
        following = Following(
            leader_id,
            endpoints,
            deadline_ms=now_ms + self.settings.fetch_timeout_ms,
            update_voter_at_ms=now_ms + self.settings.update_voter_interval_ms,
        )
        self._transition(State.FOLLOWER, following)

    def resign(self, now_ms: int) -> None:
        """Lead no more; the epoch stays until the others have elected."""
        leading = self.role
        assert isinstance(leading, Leading)
        successors = leading.successors
        resigned = Resigned({each.id for each in successors}, successors, self.election_deadline(now_ms))
        self._transition(State.RESIGNED, resigned)

    def election_deadline(self, now_ms: int) -> int:
        """Some time between one and two election timeouts from now, so that not all stand at once."""
        timeout_ms = self.settings.election_timeout_ms
        return now_ms + timeout_ms + self.random_below(timeout_ms)

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader goes on without a majority that fetches (1.5 fetch timeouts, as Kafka)."""
        return self.settings.fetch_timeout_ms * 3 // 2

    # ---- the log

    def append(self, batches: bytes | bytearray | memoryview, epoch: LeaderEpoch) -> None:
        """Batches come into the log, and with them perhaps another voter set."""
        base_offset = self.log.end_offset
        self.log.append(batches, epoch)
        if self.history.read(batches, base_offset) and isinstance(self.role, Leading):
            self.role.update_voters(self.voters)

    def has_appended(self, batches: bytes | bytearray | memoryview, epoch: LeaderEpoch) -> bool:
        """As `append`; False when the disk has no room for them, and the log is as before."""
        try:
            self.append(batches, epoch)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            return False
        return True

    def append_control(self, records: Iterable[tuple[ControlRecordType, ControlMessage]]) -> Offset:
        """A batch of control records from this leader; the offset of its last one."""
        batch = control_batch(
            records, timestamp=self.wall_ms(), base_offset=self.log.end_offset, leader_epoch=self.epoch
        )
        self.append(batch, self.epoch)
        self.flush_as_leader()
        return self.log.end_offset - 1

    def flush_as_leader(self) -> None:
        """Have the leader's own log made durable; it counts for the high watermark when it is."""
        leading = self.role
        assert isinstance(leading, Leading)
        end_offset = self.log.end_offset
        leading.flushing[self.rules.persist_log(self.outbox, end_offset)] = end_offset

    def truncate(self, offset: Offset) -> None:
        """Drop what the leader does not have, and the voter sets in it."""
        try:
            self.log.truncate_to(offset)
        except KafkaError:
            # Interrupted: the rest follows, and what goes with it does not count any more.
            self.history.truncate(offset)
            raise
        self.history.truncate(self.log.end_offset)

    # ---- inside

    def _first_state(self, now_ms: int) -> tuple[State, Role]:
        """Where a process begins, with what it remembers."""
        record = self.record
        if self.is_only_voter:
            return State.UNATTACHED, Unattached(now_ms)
        if record.leader_id == self.id and self.may_stand:
            # It may have lost what it did not flush, so it does not lead this epoch again.
            others = tuple(voter.key for voter in self.voters if voter.id != self.id)
            return State.RESIGNED, Resigned(
                {each.id for each in others}, others, self.election_deadline(now_ms)
            )
        if record.leader_id is not None and record.leader_id != self.id:
            endpoints = self.endpoints_of(record.leader_id)
            if endpoints:
                settings = self.settings
                return State.FOLLOWER, Following(
                    record.leader_id,
                    endpoints,
                    deadline_ms=now_ms + settings.fetch_timeout_ms,
                    update_voter_at_ms=now_ms + settings.update_voter_interval_ms,
                )
        state = State.UNATTACHED if record.voted_id is None else State.VOTED
        return state, Unattached(self.election_deadline(now_ms))

    def _voters_to_write(self) -> list[tuple[ControlRecordType, ControlMessage]]:
        """The voters, when the log does not say them yet or says something else of this leader."""
        if self.history.kraft_version == KRAFT_VERSION_STATIC:
            return []
        voters = self.voters
        updated = voters.with_voter(self.own_voter) if self.endpoints and self.is_voter else voters
        offset = self.history.last_offset
        if offset is not None and offset >= 0 and updated == voters:
            return []
        return [kraft_version_record(self.history.kraft_version), voters_record(updated)]

    def _set_record(self, record: QuorumRecord) -> None:
        self.record = record
        self.rules.persist_vote(self.outbox, record)

    def _transition(self, state: State, role: Role) -> None:
        """The only place where the state changes."""
        assert state in TRANSITIONS[self.state], f"{self.state} does not become {state}"
        before = self.role
        self.state, self.role = state, role
        self.connections.reset()
        self._announce()
        if isinstance(before, Leading):
            self._refuse_waiting(before)

    def _announce(self) -> None:
        """Tell of another epoch or leader."""
        present = (self.epoch, self.leader_id)
        if present != self._announced:
            self._announced = present
            self.outbox.add(LeaderChanged(*present))

    def _refuse_waiting(self, leading: Leading) -> None:
        """Whoever waits for a leader looks for another one."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for parked in leading.parked:
            endpoint = self.leader_endpoint(parked.request)
            self.outbox.respond(parked.request, fetch_response(self.leadership(), endpoint, error=error))
        if leading.change is not None:
            self.end_change(leading.change, error, "the leader has changed; the voter may yet be changed")

    def end_change(self, change: VoterChange, error: ErrorCode, message: str | None = None) -> None:
        """Answer whoever asked for a voter to be added or removed."""
        if isinstance(change, AddingVoter):
            self.outbox.respond(change.request, AddRaftVoterResponse(error_code=error, error_message=message))
        else:
            self.outbox.respond(
                change.request, RemoveRaftVoterResponse(error_code=error, error_message=message)
            )
