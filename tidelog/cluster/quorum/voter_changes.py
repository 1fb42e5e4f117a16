"""Changing the voter set: one voter at a time, and committed before the next change.

A leader that has not committed a record of its own epoch takes no change: one of an earlier leader
may still be uncommitted elsewhere. Majorities of two sets that differ by one voter have one in common.

Source: KIP-853.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tidelog.cluster.quorum.control import kraft_version_record, voters_record
from tidelog.cluster.quorum.effects import AppendRejected, RecordsAppended
from tidelog.cluster.quorum.events import RequestReceived, UpgradeVoters
from tidelog.cluster.quorum.leader_news import is_our_cluster, leader_refusal
from tidelog.cluster.quorum.leading import AddingVoter, Leading, RemovingVoter
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
from tidelog.protocol.ids import BrokerId, LeaderEpoch
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

KRAFT_VERSION_FEATURE: Final = "kraft.version"
_HOUR_MS: Final = 3_600_000
_ENDPOINTS_MAX_BYTES: Final = 900
_ENDPOINT_OVERHEAD_BYTES: Final = 8

_Refusal = tuple[ErrorCode, str]


def handle_add(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """AddRaftVoter: the new voter is asked what it supports, then its record is appended."""
    request = received.message
    assert isinstance(request, AddRaftVoterRequest)
    refusal = _refuse_add(replica, request, now_ms)
    if refusal is not None:
        error, message = refusal
        replica.outbox.respond(received, AddRaftVoterResponse(error_code=error, error_message=message))
        return
    leading = replica.role
    assert isinstance(leading, Leading)
    endpoints = _endpoints(request.listeners)
    timeout_ms = replica.settings.voter_change_timeout_ms
    if request.timeout_ms > 0:
        timeout_ms = min(timeout_ms, request.timeout_ms)
    leading.change = AddingVoter(
        received,
        Voter(key=ReplicaKey.of(request.voter_id, request.voter_directory_id), endpoints=endpoints),
        now_ms + timeout_ms,
        request.ack_when_committed,
    )
    question = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
    replica.connections.send(request.voter_id, endpoints, question, now_ms)


def _refuse_add(replica: Replica, request: AddRaftVoterRequest, now_ms: int) -> _Refusal | None:
    refusal = _refuse_request(replica, request.cluster_id)
    if refusal is not None:
        return refusal
    key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
    if key.id < 0 or key.directory_id is None:
        return ErrorCode.INVALID_REQUEST, "a new voter has an id and a directory id"
    endpoints = _endpoints(request.listeners)
    if not _has_default_listener(replica, endpoints):
        name = replica.settings.listener_name
        return ErrorCode.INVALID_REQUEST, f"no endpoint for the default listener {name}"
    if not _are_few(endpoints):
        return ErrorCode.INVALID_REQUEST, f"{len(endpoints)} endpoints are too many for one voter"
    refusal = _refuse_change(replica)
    if refusal is not None:
        return refusal
    if key.id in replica.voters.by_id:
        return ErrorCode.DUPLICATE_VOTER, f"{key.id} is among the voters {replica.voters.ids} already"
    if len(replica.voters) >= replica.settings.voters_max:
        return ErrorCode.INVALID_REQUEST, f"there are {len(replica.voters)} voters already"
    if not replica.connections.is_ready(key.id, now_ms):
        return ErrorCode.REQUEST_TIMED_OUT, f"new voter {key.id} is not ready to receive requests"
    return None


def handle_remove(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """RemoveRaftVoter: answered when the record is committed by those that remain."""
    request = received.message
    assert isinstance(request, RemoveRaftVoterRequest)
    refusal = _refuse_request(replica, request.cluster_id)
    key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
    if refusal is None and (key.id < 0 or key.directory_id is None):
        refusal = ErrorCode.INVALID_REQUEST, "a voter has an id and a directory id"
    if refusal is None:
        refusal = _refuse_change(replica)
    voter = replica.voters.by_id.get(key.id)
    if refusal is None and (voter is None or not replica.is_same(voter.key, key)):
        refusal = ErrorCode.VOTER_NOT_FOUND, f"{key} is not among the voters {replica.voters.ids}"
    if refusal is None and len(replica.voters) == 1:
        refusal = ErrorCode.INVALID_REQUEST, "the last voter cannot be removed"
    if refusal is not None:
        error, message = refusal
        replica.outbox.respond(received, RemoveRaftVoterResponse(error_code=error, error_message=message))
        return
    offset = replica.append_control([voters_record(replica.voters.without(key.id))])
    leading = replica.role
    assert isinstance(leading, Leading)
    leading.change = RemovingVoter(received, now_ms + replica.settings.voter_change_timeout_ms, offset)


def handle_update(replica: Replica, received: RequestReceived) -> None:
    """UpdateRaftVoter: a voter has other endpoints or versions; answered at once."""
    request = received.message
    assert isinstance(request, UpdateRaftVoterRequest)
    error = _refuse_update(replica, request)
    if error is ErrorCode.NONE:
        feature = request.k_raft_version_feature
        voter = Voter(
            key=ReplicaKey.of(request.voter_id, request.voter_directory_id),
            endpoints=_endpoints(request.listeners),
            kraft_version_min=feature.min_supported_version,
            kraft_version_max=feature.max_supported_version,
        )
        leading = replica.role
        assert isinstance(leading, Leading)
        if replica.history.kraft_version == KRAFT_VERSION_STATIC:
            leading.voters[voter.id].told = voter
        elif replica.voters.by_id[voter.id] != voter:
            replica.append_control([voters_record(replica.voters.with_voter(voter))])
    endpoint = replica.leader_endpoint(received)
    replica.outbox.respond(received, update_voter_response(replica.leadership(), endpoint, error))


def _refuse_update(replica: Replica, request: UpdateRaftVoterRequest) -> ErrorCode:
    if not is_our_cluster(replica, request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    error = leader_refusal(replica, request.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return error
    key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
    endpoints, feature = _endpoints(request.listeners), request.k_raft_version_feature
    if (
        key.id < 0
        or key.directory_id is None
        or not _has_default_listener(replica, endpoints)
        or not _are_few(endpoints)
        or not 0 <= feature.min_supported_version <= feature.max_supported_version
    ):
        return ErrorCode.INVALID_REQUEST
    version = replica.history.kraft_version
    refusal = None if version == KRAFT_VERSION_STATIC else _refuse_change(replica)
    if refusal is not None:
        return refusal[0]
    if not feature.min_supported_version <= version <= feature.max_supported_version:
        return ErrorCode.INVALID_REQUEST
    voter = replica.voters.by_id.get(key.id)
    if voter is None or voter.key.directory_id not in (None, key.directory_id):
        return ErrorCode.VOTER_NOT_FOUND
    return ErrorCode.NONE


def handle_versions(replica: Replica, voter_id: BrokerId, answer: object, now_ms: int) -> None:
    """What a new voter supports, or that it did not say: its record is appended, or the change ends."""
    leading = replica.role
    if not isinstance(leading, Leading):
        return
    change = leading.change
    if not isinstance(change, AddingVoter) or change.offset is not None or change.voter.id != voter_id:
        return
    refusal = _refuse_versions(replica, leading, change, answer, now_ms)
    if refusal is not None:
        leading.change = None
        replica.end_change(change, *refusal)
        return
    minimum, maximum = _supported(answer)
    voter = Voter(
        key=change.voter.key,
        endpoints=change.voter.endpoints,
        kraft_version_min=minimum,
        kraft_version_max=maximum,
    )
    change.offset = replica.append_control([voters_record(replica.voters.with_voter(voter))])
    if not change.ack_when_committed:
        leading.change = None
        replica.end_change(change, ErrorCode.NONE)


def _refuse_versions(
    replica: Replica, leading: Leading, change: AddingVoter, answer: object, now_ms: int
) -> _Refusal | None:
    if not isinstance(answer, ApiVersionsResponse) or answer.error_code != ErrorCode.NONE:
        return ErrorCode.REQUEST_TIMED_OUT, f"new voter {change.voter.id} does not say what it supports"
    minimum, maximum = _supported(answer)
    version = replica.history.kraft_version
    if not minimum <= version <= maximum:
        return (
            ErrorCode.INVALID_REQUEST,
            f"voter {change.voter.id} supports {KRAFT_VERSION_FEATURE} {minimum} to {maximum}, not {version}",
        )
    position = leading.observers.get(change.voter.key)
    if (
        position is None
        or position.last_fetch_ms is None
        or position.last_caught_up_ms is None
        or position.last_fetch_ms <= now_ms - _HOUR_MS
    ):
        return ErrorCode.REQUEST_TIMED_OUT, f"new voter {change.voter.key} is lagging behind"
    return None


def _supported(answer: object) -> tuple[int, int]:
    assert isinstance(answer, ApiVersionsResponse)
    for feature in answer.supported_features:
        if feature.name == KRAFT_VERSION_FEATURE:
            return feature.min_version, feature.max_version
    return KRAFT_VERSION_STATIC, KRAFT_VERSION_STATIC


def committed(replica: Replica, leading: Leading, high_watermark: int, now_ms: int) -> None:
    """The high watermark rose: a change may be done, and the leader perhaps no voter any more."""
    change = leading.change
    if change is not None and change.offset is not None and change.offset < high_watermark:
        leading.change = None
        replica.end_change(change, ErrorCode.NONE)
    offset = replica.history.last_offset
    if offset is not None and offset < high_watermark and not replica.is_voter:
        replica.resign(now_ms)


def upgrade(replica: Replica, event: UpgradeVoters) -> None:
    """From static to dynamic voters, who are known by their directories from then on."""
    refusal = upgrade_refusal(replica, event.epoch)
    if refusal is not None:
        replica.outbox.add(AppendRejected(event.context, refusal))
        return
    base_offset = replica.log.end_offset
    last_offset = replica.append_control(
        [kraft_version_record(KRAFT_VERSION_DYNAMIC), voters_record(VoterSet.of(_dynamic_voters(replica)))]
    )
    replica.outbox.add(RecordsAppended(event.context, base_offset, last_offset, replica.epoch))


def upgrade_refusal(replica: Replica, epoch: LeaderEpoch) -> str | None:
    """Why the voters cannot become dynamic now; None when they can."""
    leading = replica.role
    if not isinstance(leading, Leading) or epoch != replica.epoch:
        return f"epoch {epoch} is not led here, which is {replica.state.value} in {replica.epoch}"
    if replica.history.kraft_version != KRAFT_VERSION_STATIC:
        return f"{KRAFT_VERSION_FEATURE} is {replica.history.kraft_version} already"
    if leading.high_watermark is None:
        return "the leader has not committed anything in its epoch"
    voters = _dynamic_voters(replica)
    missing = [voter.id for voter in voters if voter.key.directory_id is None]
    if missing:
        return f"voters {missing} have not told their directory ids"
    too_old = [voter.id for voter in voters if voter.kraft_version_max < KRAFT_VERSION_DYNAMIC]
    return f"voters {too_old} do not support it" if too_old else None


def _dynamic_voters(replica: Replica) -> list[Voter]:
    leading = replica.role
    assert isinstance(leading, Leading)
    return [_as_dynamic(replica, leading, voter) for voter in replica.voters]


def _as_dynamic(replica: Replica, leading: Leading, voter: Voter) -> Voter:
    """A static voter as it said that it is, or as it fetched; without directory id when it did neither."""
    if voter.id == replica.id:
        return replica.own_voter
    position = leading.voters[voter.id]
    if position.told is not None:
        return position.told
    key = ReplicaKey(voter.id, position.directory_id)
    return replace(voter, key=key, kraft_version_max=KRAFT_VERSION_DYNAMIC)


def poll(replica: Replica, leading: Leading, now_ms: int) -> int | None:
    """End a change whose time is over; when to come back."""
    change = leading.change
    if change is None:
        return None
    if now_ms < change.deadline_ms:
        return change.deadline_ms
    leading.change = None
    replica.end_change(change, ErrorCode.REQUEST_TIMED_OUT, "the change was not committed in time")
    return None


def _refuse_request(replica: Replica, cluster_id: str | None) -> _Refusal | None:
    if not is_our_cluster(replica, cluster_id):
        message = shortened(f"{cluster_id!r} is not the cluster id {replica.cluster_id!r}")
        return ErrorCode.INCONSISTENT_CLUSTER_ID, message
    error = leader_refusal(replica, replica.epoch)
    return None if error is ErrorCode.NONE else (error, error.text)


def _refuse_change(replica: Replica) -> _Refusal | None:
    """Why the voter set cannot be changed now."""
    leading = replica.role
    assert isinstance(leading, Leading)
    if replica.history.kraft_version == KRAFT_VERSION_STATIC:
        message = f"{KRAFT_VERSION_FEATURE} is {KRAFT_VERSION_STATIC}: voters are static"
        return ErrorCode.UNSUPPORTED_VERSION, message
    if replica.rules.is_change_pending(leading):
        return ErrorCode.REQUEST_TIMED_OUT, "another change of voters is under way"
    if leading.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed anything in its epoch"
    offset = replica.history.last_offset
    if not replica.rules.is_last_change_committed(leading, offset):
        message = f"the last change of voters at {offset} is not committed at {leading.high_watermark}"
        return ErrorCode.REQUEST_TIMED_OUT, message
    return None


def _endpoints(listeners: Sequence[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


def _are_few(endpoints: tuple[Endpoint, ...]) -> bool:
    """Whether those of `voters_max` such voters fit the head of a snapshot, whatever somebody sends."""
    size_bytes = sum(len(name.encode()) + len(host.encode()) for name, host, _ in endpoints)
    return size_bytes + _ENDPOINT_OVERHEAD_BYTES * len(endpoints) <= _ENDPOINTS_MAX_BYTES


def _has_default_listener(replica: Replica, endpoints: tuple[Endpoint, ...]) -> bool:
    return any(each.listener_name == replica.settings.listener_name for each in endpoints)
