"""What a leader does by itself: appends, tells the voters, resigns; and what voters hear of that.

Source: KIP-595 (BeginQuorumEpoch, EndQuorumEpoch), KAFKA-15489 (check quorum).
"""

from __future__ import annotations

from typing import Any

from tidelog.cluster.quorum import serving, voter_changes
from tidelog.cluster.quorum.control import data_batch
from tidelog.cluster.quorum.effects import AppendRejected, RecordsAppended
from tidelog.cluster.quorum.events import Append, RequestReceived
from tidelog.cluster.quorum.leader_news import contradicts, is_our_cluster, learn, observe_answer
from tidelog.cluster.quorum.leading import Leading
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.requests import begin_epoch_request, end_epoch_request
from tidelog.cluster.quorum.responses import begin_epoch_response, end_epoch_response, top_level_error
from tidelog.cluster.quorum.states import Following, Resigned, State
from tidelog.cluster.quorum.topic import only_partition
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey
from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from tidelog.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from tidelog.protocol.schema import ApiMessage


def append(replica: Replica, event: Append, now_ms: int) -> None:
    """Write records to the log, all or none, and let those hear of it that wait."""
    leading = replica.role
    reason = _refusal(replica, event)
    if reason is not None or not isinstance(leading, Leading):
        replica.outbox.add(AppendRejected(event.context, reason or "not the leader"))
        return
    log = replica.log
    base_offset = log.end_offset
    batch = data_batch(
        event.records, base_offset=base_offset, epoch=replica.epoch, timestamp=replica.wall_ms()
    )
    replica.append(batch, replica.epoch)
    replica.outbox.add(RecordsAppended(event.context, base_offset, log.end_offset - 1, replica.epoch))
    # Others write it to their disks while this one does to its own.
    serving.answer_parked(replica, now_ms)
    replica.flush_as_leader()


def _refusal(replica: Replica, event: Append) -> str | None:
    if replica.state is not State.LEADER or event.epoch != replica.epoch:
        return f"epoch {event.epoch} is not led here, which is {replica.state.value} in {replica.epoch}"
    if not event.records:
        return "there are no records"
    # What a record needs besides its value is at most some 20 bytes.
    size = BATCH_OVERHEAD + sum(len(record) + 24 for record in event.records)
    if size > replica.settings.append_max_bytes:
        return f"{size} bytes are more than the {replica.settings.append_max_bytes} of a batch"
    return None


def persisted(replica: Replica, ticket: int, now_ms: int) -> None:
    """The leader's own log is durable so far."""
    leading = replica.role
    if not isinstance(leading, Leading):
        return
    flushed_to = leading.flushing.pop(ticket, None)
    if flushed_to is not None and flushed_to >= leading.flushed_to:
        leading.flushed_to = flushed_to
        serving.advance(replica, leading, now_ms)


def poll_leader(replica: Replica, leading: Leading, now_ms: int) -> int:
    """Resign without a majority, tell voters that may not know; when to come back."""
    if leading.heard_needed == 0:
        # A voter that is added has as long as any other to be heard for the first time.
        leading.check_quorum_at_ms = now_ms + replica.check_quorum_ms
    quorum_deadline_ms = replica.rules.quorum_deadline_ms(leading)
    if quorum_deadline_ms is not None and now_ms >= quorum_deadline_ms:
        replica.resign(now_ms)
        return now_ms
    if now_ms >= leading.begin_epoch_at_ms:
        _begin_epoch(replica, leading, now_ms)
    due_ms = [
        leading.begin_epoch_at_ms,
        serving.answer_parked(replica, now_ms),
        voter_changes.poll(replica, leading, now_ms),
        quorum_deadline_ms,
    ]
    return min(each for each in due_ms if each is not None)


def _begin_epoch(replica: Replica, leading: Leading, now_ms: int) -> None:
    """Tell voters that have not acknowledged, or have been silent so long that they may have forgotten."""
    every_ms = max(1, replica.settings.fetch_timeout_ms // 2)
    leading.begin_epoch_at_ms = now_ms + every_ms
    for voter in replica.voters:
        position = leading.voters[voter.id]
        is_silent = position.last_fetch_ms is None or position.last_fetch_ms <= now_ms - every_ms
        if voter.id == replica.id or (position.acknowledged and not is_silent):
            continue
        if replica.connections.is_ready(voter.id, now_ms):
            request = begin_epoch_request(
                replica.cluster_id,
                leader_id=replica.id,
                epoch=replica.epoch,
                endpoints=replica.endpoints,
                voter=voter.key,
            )
            replica.connections.send(voter.id, voter.endpoints, request, now_ms)


def poll_resigned(replica: Replica, resigned: Resigned, now_ms: int) -> int:
    """Tell the voters until they have heard; leave the epoch behind when nobody was elected."""
    if now_ms >= resigned.deadline_ms:
        replica.become_unattached(replica.epoch + 1, now_ms)
        return now_ms
    due_ms = resigned.deadline_ms
    for voter in replica.voters:
        if voter.id not in resigned.unacknowledged or voter.id == replica.id:
            continue
        if replica.connections.is_ready(voter.id, now_ms):
            request = end_epoch_request(
                replica.cluster_id,
                leader_id=replica.id,
                epoch=replica.epoch,
                endpoints=replica.endpoints,
                preferred=resigned.preferred,
            )
            replica.connections.send(voter.id, voter.endpoints, request, now_ms)
        else:
            due_ms = min(due_ms, replica.connections.ready_at(voter.id) or due_ms)
    return due_ms


def handle_begin(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """BeginQuorumEpoch: somebody was elected."""
    request = received.message
    assert isinstance(request, BeginQuorumEpochRequest)
    heard = _heard_from_leader(replica, received, request, now_ms)
    if heard is None:
        return
    partition, error = heard
    if error is ErrorCode.NONE and request.voter_id >= 0:
        addressed = ReplicaKey.of(request.voter_id, partition.voter_directory_id)
        if addressed.id != replica.id or not replica.is_same(addressed, replica.key):
            error = ErrorCode.INVALID_VOTER_KEY
    endpoint = replica.leader_endpoint(received)
    replica.outbox.respond(received, begin_epoch_response(replica.leadership(), endpoint, error))


def _heard_from_leader(
    replica: Replica,
    received: RequestReceived,
    request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
    now_ms: int,
) -> tuple[Any, ErrorCode] | None:
    """The request's partition, and what is to be answered; None when it was refused as a whole."""
    partition = only_partition(request.topics, "topic_name", "partition_index")
    if not is_our_cluster(replica, request.cluster_id):
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
        return None
    if partition is None:
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INVALID_REQUEST))
        return None
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.leader_endpoints)
    return partition, _hear_leader(replica, partition.leader_id, partition.leader_epoch, endpoints, now_ms)


def _hear_leader(
    replica: Replica, leader_id: BrokerId, epoch: int, endpoints: tuple[Endpoint, ...], now_ms: int
) -> ErrorCode:
    """Somebody says that it leads, or led, an epoch."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_id < 0 or contradicts(replica, epoch, leader_id):
        return ErrorCode.INVALID_REQUEST
    learn(replica, epoch, leader_id, endpoints, now_ms, from_leader=True)
    return ErrorCode.NONE


def handle_end(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """EndQuorumEpoch: the leader resigned; the better a successor this is, the sooner it stands."""
    request = received.message
    assert isinstance(request, EndQuorumEpochRequest)
    heard = _heard_from_leader(replica, received, request, now_ms)
    if heard is None:
        return
    partition, error = heard
    following = replica.role
    if error is ErrorCode.NONE and isinstance(following, Following):
        preferred = [
            ReplicaKey.of(each.candidate_id, each.candidate_directory_id)
            for each in partition.preferred_candidates
        ] or [ReplicaKey(each) for each in partition.preferred_successors]
        position = next(
            (at for at, each in enumerate(preferred) if replica.is_same(each, replica.key)), len(preferred)
        )
        backoff_ms = successor_backoff_ms(position, len(preferred), replica.settings.election_backoff_max_ms)
        following.deadline_ms = min(following.deadline_ms, now_ms + backoff_ms)
        following.has_fetched = False
    endpoint = replica.leader_endpoint(received)
    replica.outbox.respond(received, end_epoch_response(replica.leadership(), endpoint, error))


def successor_backoff_ms(position: int, count: int, backoff_max_ms: int) -> int:
    """Nothing for the first, then longer for each; all of it for who is not among them."""
    if position == 0 and count > 0:
        return 0
    if position >= count:
        return backoff_max_ms
    return min(backoff_max_ms, (backoff_max_ms >> (count - 1)) << (position - 1))


def handle_begin_response(replica: Replica, voter_id: BrokerId, message: ApiMessage, now_ms: int) -> bool:
    """A voter knows now; False when there should be a pause before it is told again."""
    assert isinstance(message, BeginQuorumEpochResponse)
    handled = _observe(replica, message, now_ms)
    if handled is None and isinstance(replica.role, Leading):
        position = replica.role.voters.get(voter_id)
        if position is not None:
            position.acknowledged = True
        return True
    return bool(handled)


def handle_end_response(replica: Replica, voter_id: BrokerId, message: ApiMessage, now_ms: int) -> bool:
    """A voter knows now; False when there should be a pause before it is told again."""
    assert isinstance(message, EndQuorumEpochResponse)
    handled = _observe(replica, message, now_ms)
    if handled is None and isinstance(replica.role, Resigned):
        replica.role.unacknowledged.discard(voter_id)
        return True
    return bool(handled)


def _observe(
    replica: Replica, message: BeginQuorumEpochResponse | EndQuorumEpochResponse, now_ms: int
) -> bool | None:
    """Whether the answer was an error; None when the voter understood."""
    partition = only_partition(message.topics, "topic_name", "partition_index")
    if message.error_code != ErrorCode.NONE or partition is None:
        return False
    handled = observe_answer(replica, partition.error_code, partition, message.node_endpoints, now_ms)
    if handled is None and partition.error_code != ErrorCode.NONE:
        return False
    return handled
