"""Changes of the voter set: one voter at a time, committed before the next change.

A leader that has not committed a record of its own epoch accepts no change: a change of an earlier leader
may still be uncommitted at other replicas. Majorities of two sets that differ by one voter overlap.

Source: KIP-853.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tidelog.cluster.quorum.control import kraft_version_record, voters_record
from tidelog.cluster.quorum.effects import AppendRejected, RecordsAppended
from tidelog.cluster.quorum.events import RequestReceived, UpgradeVoters
from tidelog.cluster.quorum.leader_log import LeaderLog
from tidelog.cluster.quorum.leader_state import AddingVoter, LeaderState, RemovingVoter
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.responses import update_voter_response
from tidelog.cluster.quorum.voter_set import (
    KRAFT_VERSION_DYNAMIC,
    KRAFT_VERSION_STATIC,
    Endpoint,
    ReplicaKey,
    Voter,
    VoterSet,
)
from tidelog.protocol.errors import ErrorCode, shortened
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

KRAFT_VERSION_FEATURE: Final = "kraft.version"
_HOUR_MS: Final = 3_600_000
_ENDPOINTS_MAX_BYTES: Final = 900
_ENDPOINT_OVERHEAD_BYTES: Final = 8

_Rejection = tuple[ErrorCode, str]


class VoterChanges:
    """Handles AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter and the upgrade to dynamic voters."""

    def __init__(self, replica: Replica, leader_log: LeaderLog) -> None:
        self._replica = replica
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._membership = replica.membership
        self._history = replica.history
        self._connections = replica.connections
        self._outbox = replica.outbox
        self._leader_log = leader_log

    # ---- AddRaftVoter

    def handle_add(self, received: RequestReceived, now_ms: int) -> None:
        """Request the versions that the new voter supports; `handle_versions` then appends the voter set."""
        request = received.message
        assert isinstance(request, AddRaftVoterRequest)
        rejection = self._add_rejection(request, now_ms)
        if rejection is not None:
            error, message = rejection
            response = AddRaftVoterResponse(error_code=error, error_message=message)
            self._outbox.respond(received, response)
            return
        endpoints = _endpoints(request.listeners)
        timeout_ms = self._config.settings.voter_change_timeout_ms
        if request.timeout_ms > 0:
            timeout_ms = min(timeout_ms, request.timeout_ms)
        change = AddingVoter(
            received,
            Voter(key=ReplicaKey.of(request.voter_id, request.voter_directory_id), endpoints=endpoints),
            now_ms + timeout_ms,
            request.ack_when_committed,
        )
        self._quorum_state.leader_state.start_change(change)
        versions_request = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
        self._connections.send(request.voter_id, endpoints, versions_request, now_ms)

    def _add_rejection(self, request: AddRaftVoterRequest, now_ms: int) -> _Rejection | None:
        rejection = self._request_rejection(request.cluster_id)
        if rejection is not None:
            return rejection
        key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
        if key.id < 0 or key.directory_id is None:
            return ErrorCode.INVALID_REQUEST, f"a new voter must have an id and a directory id: {key}"
        endpoints = _endpoints(request.listeners)
        if not self._has_default_listener(endpoints):
            name = self._config.settings.listener_name
            return (
                ErrorCode.INVALID_REQUEST,
                f"the listeners of the voter do not contain a listener for {name}",
            )
        if not _are_within_bound(endpoints):
            return (
                ErrorCode.INVALID_REQUEST,
                f"the {len(endpoints)} endpoints of the voter exceed {_ENDPOINTS_MAX_BYTES} bytes",
            )
        rejection = self._change_rejection()
        if rejection is not None:
            return rejection
        voters = self._membership.voters
        if key.id in voters.by_id:
            return (
                ErrorCode.DUPLICATE_VOTER,
                f"The voter id for {key.id} is already part of the set of voters {voters.ids}",
            )
        if len(voters) >= self._config.settings.voters_max:
            return (
                ErrorCode.INVALID_REQUEST,
                f"the set of voters {voters.ids} has the maximum size {len(voters)}",
            )
        if not self._connections.is_ready(key.id, now_ms):
            return ErrorCode.REQUEST_TIMED_OUT, f"new voter {key.id} is not ready to receive requests"
        return None

    def handle_versions(self, voter_id: BrokerId, response: object, now_ms: int) -> None:
        """Append the voter set with a new voter if its ApiVersions response allows this; else end the change.

        `response` is None if the new voter did not respond.
        """
        leader = self._quorum_state.role
        if not isinstance(leader, LeaderState):
            return
        change = leader.change
        if not isinstance(change, AddingVoter) or change.offset is not None or change.voter.id != voter_id:
            return
        rejection = self._versions_rejection(leader, change, response, now_ms)
        if rejection is not None:
            self._quorum_state.end_voter_change(*rejection)
            return
        minimum, maximum = _supported_versions(response)
        voter = replace(change.voter, kraft_version_min=minimum, kraft_version_max=maximum)
        offset = self._leader_log.append_control([voters_record(self._membership.voters.with_voter(voter))])
        leader.start_change(replace(change, offset=offset))
        if not change.ack_when_committed:
            self._quorum_state.end_voter_change(ErrorCode.NONE)

    def _versions_rejection(
        self, leader: LeaderState, change: AddingVoter, response: object, now_ms: int
    ) -> _Rejection | None:
        if not isinstance(response, ApiVersionsResponse) or response.error_code != ErrorCode.NONE:
            message = (
                f"Aborted add voter operation for {change.voter.id}: it did not report its supported versions"
            )
            return ErrorCode.REQUEST_TIMED_OUT, message
        minimum, maximum = _supported_versions(response)
        version = self._history.kraft_version
        if not minimum <= version <= maximum:
            message = (
                f"Aborted add voter operation for {change.voter.id} since the {KRAFT_VERSION_FEATURE} range "
                f"{minimum} to {maximum} doesn't support the finalized version {version}"
            )
            return ErrorCode.INVALID_REQUEST, message
        position = leader.positions.observers.get(change.voter.key)
        if (
            position is None
            or position.last_fetch_ms is None
            or position.last_caught_up_ms is None
            or position.last_fetch_ms <= now_ms - _HOUR_MS
        ):
            return (
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for {change.voter.key} since it is lagging behind",
            )
        return None

    # ---- RemoveRaftVoter

    def handle_remove(self, received: RequestReceived, now_ms: int) -> None:
        """Append the voter set without a voter; respond when the remaining voters have committed it."""
        request = received.message
        assert isinstance(request, RemoveRaftVoterRequest)
        key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
        rejection = self._remove_rejection(request, key)
        if rejection is not None:
            error, message = rejection
            response = RemoveRaftVoterResponse(error_code=error, error_message=message)
            self._outbox.respond(received, response)
            return
        offset = self._leader_log.append_control([voters_record(self._membership.voters.without(key.id))])
        deadline_ms = now_ms + self._config.settings.voter_change_timeout_ms
        self._quorum_state.leader_state.start_change(RemovingVoter(received, deadline_ms, offset))

    def _remove_rejection(self, request: RemoveRaftVoterRequest, key: ReplicaKey) -> _Rejection | None:
        rejection = self._request_rejection(request.cluster_id)
        if rejection is not None:
            return rejection
        if key.id < 0 or key.directory_id is None:
            return ErrorCode.INVALID_REQUEST, f"a voter must have an id and a directory id: {key}"
        rejection = self._change_rejection()
        if rejection is not None:
            return rejection
        voters = self._membership.voters
        voter = voters.by_id.get(key.id)
        if voter is None or not self._config.is_same_replica(voter.key, key):
            return ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {key} from the set of voters {voters.ids}"
        if len(voters) == 1:
            return ErrorCode.INVALID_REQUEST, f"Cannot remove voter {key}, which is the last voter"
        return None

    # ---- UpdateRaftVoter

    def handle_update(self, received: RequestReceived) -> None:
        """Append or store new endpoints or versions of a voter; respond at once."""
        request = received.message
        assert isinstance(request, UpdateRaftVoterRequest)
        error = self._update_error(request)
        if error is ErrorCode.NONE:
            feature = request.k_raft_version_feature
            voter = Voter(
                key=ReplicaKey.of(request.voter_id, request.voter_directory_id),
                endpoints=_endpoints(request.listeners),
                kraft_version_min=feature.min_supported_version,
                kraft_version_max=feature.max_supported_version,
            )
            self._update(voter)
        response = update_voter_response(self._quorum_state.current_leader(received), error)
        self._outbox.respond(received, response)

    def _update(self, voter: Voter) -> None:
        voters = self._membership.voters
        if self._history.kraft_version == KRAFT_VERSION_STATIC:
            self._quorum_state.leader_state.positions.voters[voter.id].set_reported_voter(voter)
        elif voters.by_id[voter.id] != voter:
            self._leader_log.append_control([voters_record(voters.with_voter(voter))])

    def _update_error(self, request: UpdateRaftVoterRequest) -> ErrorCode:
        if not self._config.accepts_cluster_id(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        error = self._quorum_state.leader_error(request.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return error
        key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
        endpoints, feature = _endpoints(request.listeners), request.k_raft_version_feature
        if (
            key.id < 0
            or key.directory_id is None
            or not self._has_default_listener(endpoints)
            or not _are_within_bound(endpoints)
            or not 0 <= feature.min_supported_version <= feature.max_supported_version
        ):
            return ErrorCode.INVALID_REQUEST
        version = self._history.kraft_version
        rejection = None if version == KRAFT_VERSION_STATIC else self._change_rejection()
        if rejection is not None:
            return rejection[0]
        if not feature.min_supported_version <= version <= feature.max_supported_version:
            return ErrorCode.INVALID_REQUEST
        voter = self._membership.voters.by_id.get(key.id)
        if voter is None or voter.key.directory_id not in (None, key.directory_id):
            return ErrorCode.VOTER_NOT_FOUND
        return ErrorCode.NONE

    # ---- the upgrade from static to dynamic voters

    def upgrade(self, event: UpgradeVoters) -> None:
        """Write the static voters to the log; from then on their directory ids are checked."""
        rejection = self.upgrade_rejection(event.epoch)
        if rejection is not None:
            self._outbox.add(AppendRejected(event.context, rejection))
            return
        voters = VoterSet.of(self._dynamic_voters(self._quorum_state.leader_state))
        base_offset = self._replica.log.end_offset
        last_offset = self._leader_log.append_control(
            [kraft_version_record(KRAFT_VERSION_DYNAMIC), voters_record(voters)]
        )
        epoch = self._quorum_state.epoch
        self._outbox.add(RecordsAppended(event.context, base_offset, last_offset, epoch))

    def upgrade_rejection(self, epoch: LeaderEpoch) -> str | None:
        """Return why the voters cannot become dynamic in `epoch` now; None if they can."""
        state = self._quorum_state
        leader = state.role
        if not isinstance(leader, LeaderState) or epoch != state.epoch:
            return f"not the leader of epoch {epoch}: {state.state.value} in epoch {state.epoch}"
        if self._history.kraft_version != KRAFT_VERSION_STATIC:
            return f"{KRAFT_VERSION_FEATURE} is already {self._history.kraft_version}"
        if leader.high_watermark is None:
            return "the leader has not committed a record of its epoch"
        voters = self._dynamic_voters(leader)
        missing = [voter.id for voter in voters if voter.key.directory_id is None]
        if missing:
            return f"voters {missing} have not reported their directory ids"
        too_old = [voter.id for voter in voters if voter.kraft_version_max < KRAFT_VERSION_DYNAMIC]
        if too_old:
            return f"voters {too_old} do not support {KRAFT_VERSION_FEATURE} {KRAFT_VERSION_DYNAMIC}"
        return None

    def _dynamic_voters(self, leader: LeaderState) -> list[Voter]:
        return [self._as_dynamic(leader, voter) for voter in self._membership.voters]

    def _as_dynamic(self, leader: LeaderState, voter: Voter) -> Voter:
        """Return the entry that a static voter reported, else one with the directory id of its fetches."""
        if voter.id == self._config.id:
            return self._membership.own_voter
        position = leader.positions.voters[voter.id]
        if position.reported_voter is not None:
            return position.reported_voter
        key = ReplicaKey(voter.id, position.directory_id)
        return replace(voter, key=key, kraft_version_max=KRAFT_VERSION_DYNAMIC)

    # ---- the end of a change

    def on_high_watermark(self, leader: LeaderState, high_watermark: Offset, now_ms: int) -> None:
        """End a committed change; a leader that is no longer a voter then resigns."""
        change = leader.change
        if change is not None and change.offset is not None and change.offset < high_watermark:
            self._quorum_state.end_voter_change(ErrorCode.NONE)
        offset = self._history.last_offset
        if offset is not None and offset < high_watermark and not self._membership.is_voter:
            self._quorum_state.resign(now_ms)

    def poll(self, leader: LeaderState, now_ms: int) -> int | None:
        """End a change that has timed out; return the deadline of the pending change, if any."""
        change = leader.change
        if change is None:
            return None
        if now_ms < change.deadline_ms:
            return change.deadline_ms
        message = "the change was not committed in time"
        self._quorum_state.end_voter_change(ErrorCode.REQUEST_TIMED_OUT, message)
        return None

    # ---- common checks

    def _request_rejection(self, cluster_id: str | None) -> _Rejection | None:
        if not self._config.accepts_cluster_id(cluster_id):
            message = shortened(
                f"Expected cluster ID {self._config.cluster_id!r}, but got cluster ID {cluster_id!r}"
            )
            return ErrorCode.INCONSISTENT_CLUSTER_ID, message
        error = self._quorum_state.leader_error(self._quorum_state.epoch)
        return None if error is ErrorCode.NONE else (error, error.text)

    def _change_rejection(self) -> _Rejection | None:
        """Return why this leader cannot change the voter set now; None if it can."""
        leader, rules = self._quorum_state.leader_state, self._config.rules
        if self._history.kraft_version == KRAFT_VERSION_STATIC:
            message = (
                f"Cluster doesn't support changes of voters because the {KRAFT_VERSION_FEATURE} feature is "
                f"{KRAFT_VERSION_STATIC}"
            )
            return ErrorCode.UNSUPPORTED_VERSION, message
        if rules.is_change_pending(leader.change):
            return ErrorCode.REQUEST_TIMED_OUT, "another change of the voter set is pending"
        if leader.high_watermark is None:
            return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch"
        offset = self._history.last_offset
        if not rules.is_last_change_committed(offset, leader.high_watermark):
            message = f"the last voter set, at {offset}, is not committed at {leader.high_watermark}"
            return ErrorCode.REQUEST_TIMED_OUT, message
        return None

    def _has_default_listener(self, endpoints: tuple[Endpoint, ...]) -> bool:
        return any(each.listener_name == self._config.settings.listener_name for each in endpoints)


def _supported_versions(response: object) -> tuple[int, int]:
    """Return the minimum and maximum kraft.version in an ApiVersions response."""
    assert isinstance(response, ApiVersionsResponse)
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION_FEATURE:
            return feature.min_version, feature.max_version
    return KRAFT_VERSION_STATIC, KRAFT_VERSION_STATIC


def _endpoints(listeners: Sequence[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


def _are_within_bound(endpoints: tuple[Endpoint, ...]) -> bool:
    """Return whether the header of a snapshot can contain `voters_max` voters with such endpoints."""
    size_bytes = sum(len(name.encode()) + len(host.encode()) for name, host, _ in endpoints)
    return size_bytes + _ENDPOINT_OVERHEAD_BYTES * len(endpoints) <= _ENDPOINTS_MAX_BYTES
