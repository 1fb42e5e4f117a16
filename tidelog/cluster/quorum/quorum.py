"""The metadata quorum as one replica takes part in it: events in, effects out.

`step` lets one event happen, then does what is due by then. What is to be done about it stands in
the effects, in order (`tidelog.cluster.quorum.effects`); when `step` wants to be called again without an
event, in `deadline_ms`.

Errors: AssertionError (`fetching.CommittedRecordsLost` among them) and DecodeError of the log's own
content are final: the process ends.
Source: KIP-595, KIP-630, KIP-853, KIP-996.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from tidelog.cluster.quorum import description, elections, fetching, leadership, serving, voter_changes
from tidelog.cluster.quorum.connections import Asked
from tidelog.cluster.quorum.description import QuorumDescription
from tidelog.cluster.quorum.effects import Effect
from tidelog.cluster.quorum.events import (
    Append,
    Event,
    PersistCompleted,
    RequestReceived,
    Resign,
    ResponseReceived,
    UpgradeVoters,
)
from tidelog.cluster.quorum.leading import Leading
from tidelog.cluster.quorum.log import RaftLog
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.rules import QuorumRules
from tidelog.cluster.quorum.settings import QuorumSettings
from tidelog.cluster.quorum.states import Following, Nominee, Resigned, State, Unattached
from tidelog.cluster.quorum.voter_set import (
    KRAFT_VERSION_DYNAMIC,
    KRAFT_VERSION_STATIC,
    Endpoint,
    ReplicaKey,
    VoterSet,
)
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from tidelog.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from tidelog.protocol.messages.describe_quorum import DescribeQuorumRequest
from tidelog.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse

# From one state to the next, to the next: no chain is longer.
_MOVES_MAX: Final = 8


class Quorum:
    """See the module. Not for several threads; `step` never waits."""

    def __init__(
        self,
        *,
        node_id: BrokerId,
        directory_id: UUID,
        cluster_id: str,
        voters: VoterSet,
        log: RaftLog,
        record: QuorumRecord | None,
        settings: QuorumSettings,
        random_below: Callable[[int], int],
        now_ms: int,
        endpoints: tuple[Endpoint, ...] = (),
        bootstrap: tuple[Endpoint, ...] = (),
        wall_ms: Callable[[], int] | None = None,
        rules: QuorumRules | None = None,
    ) -> None:
        """Begin with what the log and the quorum record say.

        `voters`: static ones, which hold until the log names others; empty for a node that is told by its
        log or finds the quorum through `bootstrap`. `endpoints`: where this node's controller listeners are
        (default: what the voter set says). `random_below(n)` draws from 0 to n - 1. `wall_ms`: ms since the
        epoch, for the timestamps of records (default: 0). `rules`: simulations replace them one by one.
        """
        self._replica = Replica(
            key=ReplicaKey(node_id, directory_id),
            cluster_id=cluster_id,
            static_voters=voters,
            endpoints=endpoints,
            bootstrap=bootstrap,
            log=log,
            record=record,
            settings=settings,
            rules=rules or QuorumRules(),
            random_below=random_below,
            wall_ms=wall_ms or (lambda: 0),
            now_ms=now_ms,
        )
        self.deadline_ms: int | None = now_ms

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Let `event` happen, and all that is due at `now_ms`; what is to be done, in order."""
        replica = self._replica
        if isinstance(event, RequestReceived):
            self._received(event, now_ms)
        elif isinstance(event, ResponseReceived):
            self._answered(event.request_id, event.message, now_ms)
        elif isinstance(event, Append):
            leadership.append(replica, event, now_ms)
        elif isinstance(event, PersistCompleted):
            leadership.persisted(replica, event.ticket, now_ms)
        elif isinstance(event, UpgradeVoters):
            voter_changes.upgrade(replica, event)
        elif isinstance(event, Resign) and replica.state is State.LEADER:
            replica.resign(now_ms)
        for request_id in replica.connections.expired(now_ms):
            self._answered(request_id, None, now_ms)
        self._poll(now_ms)
        return replica.outbox.take()

    # ---- what is known

    @property
    def state(self) -> State:
        """The present state."""
        return self._replica.state

    @property
    def epoch(self) -> LeaderEpoch:
        """The highest epoch that is known."""
        return self._replica.epoch

    @property
    def leader_id(self) -> BrokerId | None:
        """Who leads that epoch, as far as it is known."""
        return self._replica.leader_id

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the leader is reached; empty when it is not known."""
        return self._replica.leadership().endpoints

    @property
    def high_watermark(self) -> Offset:
        """Up to where the log is known to be committed."""
        return self._replica.log.high_watermark

    @property
    def epoch_start_offset(self) -> Offset | None:
        """While leading: where the records of this epoch begin; what is before was decided by others."""
        role = self._replica.role
        return role.epoch_start_offset if isinstance(role, Leading) else None

    @property
    def record(self) -> QuorumRecord:
        """What must not be forgotten, with changes of the last step that may not be durable yet."""
        return self._replica.record

    @property
    def voters(self) -> VoterSet:
        """Who votes, by the last voter set in the log, committed or not."""
        return self._replica.voters

    @property
    def voter_ids(self) -> tuple[BrokerId, ...]:
        """The nodes of `voters`."""
        return self._replica.voters.ids

    @property
    def is_voter(self) -> bool:
        """Whether this replica votes."""
        return self._replica.is_voter

    @property
    def kraft_version(self) -> int:
        """0: voters are static, 1: they stand in the log."""
        return self._replica.history.kraft_version

    def upgrade_refusal(self, epoch: LeaderEpoch) -> str | None:
        """Why `UpgradeVoters` would be refused in this epoch now; None when it would not."""
        return voter_changes.upgrade_refusal(self._replica, epoch)

    def voters_at(self, end_offset: Offset) -> tuple[int, VoterSet | None]:
        """kraft.version and voters for a snapshot of everything below `end_offset`; None for static voters.

        `end_offset` is not below the end of the latest snapshot that was there at the start.
        """
        return self._replica.history.at(end_offset)

    def describe(self, now_ms: int) -> QuorumDescription:
        """What DescribeQuorum tells."""
        return description.describe(self._replica, now_ms)

    # ---- inside

    def _received(self, received: RequestReceived, now_ms: int) -> None:
        replica = self._replica
        match received.message:
            case VoteRequest():
                elections.handle_request(replica, received, now_ms)
            case FetchRequest():
                serving.handle_fetch(replica, received, now_ms)
            case FetchSnapshotRequest():
                serving.handle_fetch_snapshot(replica, received, now_ms)
            case BeginQuorumEpochRequest():
                leadership.handle_begin(replica, received, now_ms)
            case EndQuorumEpochRequest():
                leadership.handle_end(replica, received, now_ms)
            case AddRaftVoterRequest():
                voter_changes.handle_add(replica, received, now_ms)
            case RemoveRaftVoterRequest():
                voter_changes.handle_remove(replica, received, now_ms)
            case UpdateRaftVoterRequest():
                voter_changes.handle_update(replica, received)
            case DescribeQuorumRequest():
                description.handle_request(replica, received, now_ms)
            case ApiVersionsRequest():
                replica.outbox.respond(received, _versions())
            case message:
                raise AssertionError(f"the quorum does not answer {message}")

    def _answered(self, request_id: int, message: object, now_ms: int) -> None:
        replica = self._replica
        asked = replica.connections.answered(request_id)
        if asked is None:
            return
        is_productive = self._answer(asked, message, now_ms)
        if not is_productive:
            fetching.failed(replica, asked.node_id)
            replica.connections.back_off(asked.node_id, now_ms)

    def _answer(self, asked: Asked, message: object, now_ms: int) -> bool:
        """Whether the next request to that node may follow at once."""
        replica = self._replica
        if isinstance(asked.message, ApiVersionsRequest):
            voter_changes.handle_versions(replica, asked.node_id, message, now_ms)
            return message is not None
        match message:
            case VoteResponse():
                return elections.handle_response(replica, asked.node_id, message, now_ms)
            case FetchResponse():
                return fetching.handle_fetch_response(replica, message, now_ms)
            case FetchSnapshotResponse():
                return fetching.handle_snapshot_response(replica, message, now_ms)
            case BeginQuorumEpochResponse():
                return leadership.handle_begin_response(replica, asked.node_id, message, now_ms)
            case EndQuorumEpochResponse():
                return leadership.handle_end_response(replica, asked.node_id, message, now_ms)
            case UpdateRaftVoterResponse():
                return fetching.handle_update_response(replica, message, now_ms)
            case AddRaftVoterResponse() | RemoveRaftVoterResponse():
                return True
        return False

    def _poll(self, now_ms: int) -> None:
        """Do what is due, from state to state, and note when the next thing is."""
        due_ms: int | None = now_ms
        for _ in range(_MOVES_MAX):
            due_ms = self._poll_state(now_ms)
            if due_ms is None or due_ms > now_ms:
                break
        else:
            due_ms = now_ms + 1
        expiry_ms = self._replica.connections.next_expiry_ms
        if expiry_ms is not None:
            due_ms = expiry_ms if due_ms is None else min(due_ms, expiry_ms)
        self.deadline_ms = due_ms

    def _poll_state(self, now_ms: int) -> int | None:
        replica = self._replica
        role = replica.role
        if isinstance(role, Unattached):
            return fetching.poll_unattached(replica, role, now_ms)
        if isinstance(role, Nominee):
            return elections.poll_nominee(replica, role, now_ms)
        if isinstance(role, Leading):
            return leadership.poll_leader(replica, role, now_ms)
        if isinstance(role, Following):
            return fetching.poll_following(replica, role, now_ms)
        assert isinstance(role, Resigned)
        return leadership.poll_resigned(replica, role, now_ms)


def _versions() -> ApiVersionsResponse:
    """What a leader wants to know of a new voter; a broker's own answer says it too."""
    feature = SupportedFeatureKey(
        name=voter_changes.KRAFT_VERSION_FEATURE,
        min_version=KRAFT_VERSION_STATIC,
        max_version=KRAFT_VERSION_DYNAMIC,
    )
    return ApiVersionsResponse(supported_features=(feature,))
