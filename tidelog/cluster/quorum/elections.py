"""Elections: who asks for votes, who gets one, and how a pre-vote keeps a lonely voter from disturbing.

Source: KIP-595 (Vote), KIP-996 (pre-vote), KIP-853 (voters by directory id).
"""

from __future__ import annotations

from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_news import is_our_cluster, observe_answer
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.requests import vote_request
from tidelog.cluster.quorum.responses import top_level_error, vote_response
from tidelog.cluster.quorum.states import Nominee, State
from tidelog.cluster.quorum.topic import only_partition
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.vote import RequestPartitionData, VoteRequest, VoteResponse
from tidelog.protocol.schema import ApiMessage


def stand(replica: Replica, now_ms: int) -> None:
    """A voter heard nothing for too long: would it be elected?"""
    if replica.is_only_voter:
        replica.become_candidate(now_ms)
        replica.become_leader(now_ms)
    else:
        replica.rules.begin_election(replica, now_ms)


def give_up(replica: Replica, now_ms: int) -> None:
    """Not elected: back to what it was before, or wait and ask again."""
    if replica.state is State.CANDIDATE:
        stand(replica, now_ms)
        return
    leader_id = replica.record.leader_id
    endpoints = () if leader_id is None else replica.endpoints_of(leader_id)
    if leader_id is not None and leader_id != replica.id and endpoints:
        replica.follow(replica.epoch, leader_id, endpoints, now_ms)
    else:
        replica.become_unattached(replica.epoch, now_ms, fresh=True)


def poll_nominee(replica: Replica, nominee: Nominee, now_ms: int) -> int:
    """Ask those that have not answered; when to come back."""
    if not replica.may_stand:
        replica.become_unattached(replica.epoch, now_ms)
        return now_ms
    if now_ms >= nominee.deadline_ms:
        give_up(replica, now_ms)
        return now_ms
    due_ms = nominee.deadline_ms
    if not nominee.is_rejected:
        for voter_id in nominee.unheard:
            if replica.connections.is_ready(voter_id, now_ms):
                _ask(replica, nominee, voter_id, now_ms)
            else:
                due_ms = min(due_ms, replica.connections.ready_at(voter_id) or due_ms)
    return due_ms


def _ask(replica: Replica, nominee: Nominee, voter_id: BrokerId, now_ms: int) -> None:
    voter = nominee.voters.by_id[voter_id]
    request = vote_request(
        replica.cluster_id,
        candidate=replica.key,
        epoch=replica.epoch,
        voter=voter.key,
        last_epoch=replica.log.last_epoch,
        end_offset=replica.log.end_offset,
        pre_vote=replica.state is State.PROSPECTIVE,
    )
    replica.connections.send(voter_id, voter.endpoints, request, now_ms)


def handle_request(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """Vote, or do not."""
    request = received.message
    assert isinstance(request, VoteRequest)
    partition: RequestPartitionData | None = only_partition(request.topics, "topic_name", "partition_index")
    if not is_our_cluster(replica, request.cluster_id):
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    if partition is None:
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INVALID_REQUEST))
        return
    error = _refusal(replica, partition)
    granted = False
    if error is ErrorCode.NONE:
        if partition.replica_epoch > replica.epoch:
            replica.become_unattached(partition.replica_epoch, now_ms)
        addressed = ReplicaKey.of(request.voter_id, partition.voter_directory_id)
        if request.voter_id >= 0 and not _is_me(replica, addressed):
            error = ErrorCode.INVALID_VOTER_KEY
        else:
            granted = _decide(replica, partition, now_ms)
    endpoint = replica.leader_endpoint(received)
    replica.outbox.respond(received, vote_response(replica.leadership(), endpoint, error, granted=granted))


def _refusal(replica: Replica, partition: RequestPartitionData) -> ErrorCode:
    """What is wrong with the request, if anything."""
    last_epoch_max = partition.replica_epoch if partition.pre_vote else partition.replica_epoch - 1
    if partition.last_offset < 0 or not 0 <= partition.last_offset_epoch <= last_epoch_max:
        return ErrorCode.INVALID_REQUEST
    if partition.replica_epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if partition.replica_id < 0 or partition.replica_id == replica.id:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _is_me(replica: Replica, addressed: ReplicaKey) -> bool:
    """Whether a request that names its voter means this replica and no earlier one of this node."""
    if addressed.directory_id is None:
        return addressed.id == replica.id
    return replica.is_same(addressed, replica.key)


def _decide(replica: Replica, partition: RequestPartitionData, now_ms: int) -> bool:
    """Whether the candidate gets the vote, which is then given."""
    candidate = ReplicaKey.of(partition.replica_id, partition.replica_directory_id)
    log_end = (replica.log.last_epoch, replica.log.end_offset)
    candidate_end = (partition.last_offset_epoch, partition.last_offset)
    if not replica.rules.is_log_up_to_date(candidate_end, log_end):
        return False
    if partition.pre_vote:
        return replica.rules.grants_pre_vote(replica.state, replica.role)
    record = replica.record
    if replica.state in (State.LEADER, State.FOLLOWER, State.RESIGNED) or record.leader_id is not None:
        return False
    voted = None if record.voted_id is None else ReplicaKey(record.voted_id, record.voted_directory_id)
    if voted is not None and replica.is_same(voted, candidate):
        return True
    if not replica.rules.is_vote_free(voted, replica.state):
        return False
    replica.vote_for(candidate, now_ms)
    return True


def handle_response(replica: Replica, voter_id: BrokerId, message: ApiMessage, now_ms: int) -> bool:
    """Count an answer; False when there should be a pause before that voter is asked again."""
    assert isinstance(message, VoteResponse)
    nominee = replica.role
    if message.error_code == ErrorCode.UNSUPPORTED_VERSION and replica.state is State.PROSPECTIVE:
        # Older voters know no pre-vote (KIP-996): what they would say is found out by the vote.
        assert isinstance(nominee, Nominee)
        nominee.granted.add(voter_id)
        _count(replica, nominee, now_ms)
        return True
    partition = only_partition(message.topics, "topic_name", "partition_index")
    if message.error_code != ErrorCode.NONE or partition is None:
        return False
    handled = observe_answer(replica, partition.error_code, partition, message.node_endpoints, now_ms)
    if handled is not None:
        return handled
    if partition.error_code != ErrorCode.NONE or not isinstance(nominee, Nominee):
        return False
    if replica.role is not nominee:
        return True
    (nominee.granted if partition.vote_granted else nominee.rejected).add(voter_id)
    _count(replica, nominee, now_ms)
    return True


def _count(replica: Replica, nominee: Nominee, now_ms: int) -> None:
    if nominee.is_elected:
        if replica.state is State.PROSPECTIVE:
            replica.become_candidate(now_ms)
        else:
            replica.become_leader(now_ms)
    elif nominee.is_rejected:
        if replica.state is State.PROSPECTIVE:
            give_up(replica, now_ms)
        else:
            # A while of its own, so that those who took votes from each other do not do so again.
            backoff_ms = 1 + replica.random_below(replica.settings.election_backoff_max_ms)
            nominee.deadline_ms = min(nominee.deadline_ms, now_ms + backoff_ms)
