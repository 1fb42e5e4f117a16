"""One replica of the metadata quorum as a state machine: events in, effects out.

`step` handles one event, and then all actions whose time has come. It returns the list of effects that the
caller must perform, in order (`tidelog.cluster.quorum.effects`). The caller calls `step` with a `Tick` at
`deadline_ms`.

Errors: AssertionError (including `follower.CommittedRecordsLost`), and DecodeError for the content of the
replica's own log, are fatal: the process ends.
Source: KIP-595, KIP-630, KIP-853, KIP-996.
"""

from __future__ import annotations

from typing import Final

from tidelog.cluster.quorum import description
from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.connections import PendingRequest
from tidelog.cluster.quorum.description import QuorumDescription
from tidelog.cluster.quorum.effects import Effect
from tidelog.cluster.quorum.elections import Elections
from tidelog.cluster.quorum.epoch_requests import EpochRequests
from tidelog.cluster.quorum.events import (
    Append,
    Event,
    PersistCompleted,
    RequestReceived,
    Resign,
    ResponseReceived,
    UpgradeVoters,
)
from tidelog.cluster.quorum.fetch_service import FetchService
from tidelog.cluster.quorum.follower import Follower
from tidelog.cluster.quorum.leader import Leader
from tidelog.cluster.quorum.leader_log import LeaderLog
from tidelog.cluster.quorum.leader_state import LeaderState
from tidelog.cluster.quorum.leader_tracker import LeaderTracker
from tidelog.cluster.quorum.log import RaftLog
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.states import FollowerState, NomineeState, ResignedState, State, UnattachedState
from tidelog.cluster.quorum.voter_changes import KRAFT_VERSION_FEATURE, VoterChanges
from tidelog.cluster.quorum.voter_set import (
    KRAFT_VERSION_DYNAMIC,
    KRAFT_VERSION_STATIC,
    Endpoint,
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

# The maximum number of transitions within one step.
_TRANSITIONS_MAX: Final = 8


class Quorum:
    """One replica of the metadata quorum. Not thread-safe; `step` never waits."""

    def __init__(self, config: ReplicaConfig, log: RaftLog, record: QuorumRecord | None, now_ms: int) -> None:
        """Start from the log and `record`, the content of `quorum-state`; None if there is none."""
        replica = self._replica = Replica(config, log, record, now_ms)
        leader_tracker = LeaderTracker(replica)
        leader_log = LeaderLog(replica)
        self._elections = Elections(replica, leader_tracker, leader_log)
        self._follower = Follower(replica, leader_tracker, self._elections)
        self._voter_changes = VoterChanges(replica, leader_log)
        self._fetch_service = FetchService(replica, self._voter_changes)
        self._epoch_requests = EpochRequests(replica, leader_tracker)
        self._leader = Leader(
            replica, leader_log, self._fetch_service, self._voter_changes, self._epoch_requests
        )
        self._deadline_ms: int | None = now_ms

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle `event` and everything that is scheduled at `now_ms`; return the effects in order."""
        match event:
            case RequestReceived():
                self._on_request(event, now_ms)
            case ResponseReceived():
                self._on_response(event.request_id, event.message, now_ms)
            case Append():
                self._leader.append(event, now_ms)
            case PersistCompleted():
                self._leader.on_persist_completed(event.ticket, now_ms)
            case UpgradeVoters():
                self._voter_changes.upgrade(event)
            case Resign() if self.state is State.LEADER:
                self._replica.quorum_state.resign(now_ms)
        for request_id in self._replica.connections.expired_requests(now_ms):
            self._on_response(request_id, None, now_ms)
        self._poll(now_ms)
        return self._replica.outbox.take()

    # ---- the known state

    @property
    def deadline_ms(self) -> int | None:
        """The time at which `step` must be called with a `Tick`; None if only another event has an effect."""
        return self._deadline_ms

    @property
    def state(self) -> State:
        """The current state."""
        return self._replica.quorum_state.state

    @property
    def epoch(self) -> LeaderEpoch:
        """The highest known epoch."""
        return self._replica.quorum_state.epoch

    @property
    def leader_id(self) -> BrokerId | None:
        """The leader of that epoch; None if it is unknown."""
        return self._replica.quorum_state.leader_id

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints of the leader; empty if they are unknown."""
        return self._replica.quorum_state.leader_and_epoch.endpoints

    @property
    def high_watermark(self) -> Offset:
        """The offset up to which the log is known to be committed."""
        return self._replica.log.high_watermark

    @property
    def record(self) -> QuorumRecord:
        """The quorum record, including a change by the last step that may not be durable yet."""
        return self._replica.epoch_and_vote.record

    @property
    def voters(self) -> VoterSet:
        """The last voter set in the log, committed or not, or the static voters."""
        return self._replica.membership.voters

    @property
    def voter_ids(self) -> tuple[BrokerId, ...]:
        """The node ids of `voters`."""
        return self._replica.membership.voters.ids

    @property
    def is_voter(self) -> bool:
        """Whether this replica is a voter."""
        return self._replica.membership.is_voter

    @property
    def kraft_version(self) -> int:
        """The kraft.version: 0 if the voters are static, 1 if the log contains them."""
        return self._replica.membership.kraft_version

    def upgrade_rejection(self, epoch: LeaderEpoch) -> str | None:
        """Return why `UpgradeVoters` would be rejected in `epoch` now; None if it would not."""
        return self._voter_changes.upgrade_rejection(epoch)

    def voters_at(self, end_offset: Offset) -> tuple[int, VoterSet | None]:
        """Return kraft.version and voters for a snapshot of all records below `end_offset`.

        The voters are None if they are static. `end_offset` is not below the end of the latest snapshot
        that existed at the start.
        """
        return self._replica.history.at(end_offset)

    def describe(self, now_ms: int) -> QuorumDescription:
        """Return the state that DescribeQuorum reports."""
        return description.describe(self._replica, now_ms)

    # ---- private

    def _on_request(self, received: RequestReceived, now_ms: int) -> None:
        match received.message:
            case VoteRequest():
                self._elections.handle_request(received, now_ms)
            case FetchRequest():
                self._fetch_service.handle_fetch(received, now_ms)
            case FetchSnapshotRequest():
                self._fetch_service.handle_fetch_snapshot(received, now_ms)
            case BeginQuorumEpochRequest():
                self._epoch_requests.handle_begin(received, now_ms)
            case EndQuorumEpochRequest():
                self._epoch_requests.handle_end(received, now_ms)
            case AddRaftVoterRequest():
                self._voter_changes.handle_add(received, now_ms)
            case RemoveRaftVoterRequest():
                self._voter_changes.handle_remove(received, now_ms)
            case UpdateRaftVoterRequest():
                self._voter_changes.handle_update(received)
            case DescribeQuorumRequest():
                description.handle_request(self._replica, received, now_ms)
            case ApiVersionsRequest():
                self._replica.outbox.respond(received, _versions_response())
            case message:
                raise AssertionError(f"the quorum does not handle {message}")

    def _on_response(self, request_id: int, message: object, now_ms: int) -> None:
        request = self._replica.connections.complete(request_id)
        if request is not None and not self._handle_response(request, message, now_ms):
            self._follower.on_request_failed(request.node_id)
            self._replica.connections.back_off(request.node_id, now_ms)

    def _handle_response(self, request: PendingRequest, message: object, now_ms: int) -> bool:
        """Handle a response; return whether the next request to that node may be sent without a pause."""
        if isinstance(request.message, ApiVersionsRequest):
            self._voter_changes.handle_versions(request.node_id, message, now_ms)
            return message is not None
        match message:
            case VoteResponse():
                return self._elections.handle_response(request.node_id, message, now_ms)
            case FetchResponse():
                return self._follower.handle_fetch_response(message, now_ms)
            case FetchSnapshotResponse():
                return self._follower.handle_snapshot_response(message, now_ms)
            case BeginQuorumEpochResponse():
                return self._epoch_requests.handle_begin_response(request.node_id, message, now_ms)
            case EndQuorumEpochResponse():
                return self._epoch_requests.handle_end_response(request.node_id, message, now_ms)
            case UpdateRaftVoterResponse():
                return self._follower.handle_update_voter_response(message, now_ms)
            case AddRaftVoterResponse() | RemoveRaftVoterResponse():
                return True
        return False

    def _poll(self, now_ms: int) -> None:
        """Perform scheduled actions, with several transitions if necessary; set the next deadline."""
        deadline_ms: int | None = now_ms
        for _ in range(_TRANSITIONS_MAX):
            deadline_ms = self._poll_role(now_ms)
            if deadline_ms is None or deadline_ms > now_ms:
                break
        else:
            deadline_ms = now_ms + 1
        expiry_ms = self._replica.connections.next_expiry_ms
        if expiry_ms is not None:
            deadline_ms = expiry_ms if deadline_ms is None else min(deadline_ms, expiry_ms)
        self._deadline_ms = deadline_ms

    def _poll_role(self, now_ms: int) -> int | None:
        match self._replica.quorum_state.role:
            case UnattachedState() as unattached:
                return self._follower.poll_unattached(unattached, now_ms)
            case NomineeState() as nominee:
                return self._elections.poll(nominee, now_ms)
            case LeaderState() as leader:
                return self._leader.poll(leader, now_ms)
            case FollowerState() as follower_state:
                return self._follower.poll_follower(follower_state, now_ms)
            case ResignedState() as resigned:
                return self._epoch_requests.poll_resigned(resigned, now_ms)


def _versions_response() -> ApiVersionsResponse:
    """Return the versions that a leader requires of a new voter; a broker's response contains them too."""
    feature = SupportedFeatureKey(
        name=KRAFT_VERSION_FEATURE, min_version=KRAFT_VERSION_STATIC, max_version=KRAFT_VERSION_DYNAMIC
    )
    return ApiVersionsResponse(supported_features=(feature,))
