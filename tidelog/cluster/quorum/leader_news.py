"""What requests and answers of every kind have in common: they tell of epochs and leaders.

Source: KIP-595; KafkaRaftClient of Apache Kafka for which error means what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch


def is_our_cluster(replica: Replica, cluster_id: str | None) -> bool:
    """Whether a request is for this cluster; it need not say."""
    return cluster_id is None or cluster_id == replica.cluster_id


def leader_refusal(replica: Replica, epoch: LeaderEpoch) -> ErrorCode:
    """Why a request to the leader of `epoch` cannot be taken, if so."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if replica.state is not State.LEADER:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def leader_endpoints(
    replica: Replica, leader_id: BrokerId, node_endpoints: Sequence[Any]
) -> tuple[Endpoint, ...]:
    """Where the leader is reached: as an answer says, or the voter set."""
    told = tuple(
        Endpoint(replica.settings.listener_name, node.host, node.port)
        for node in node_endpoints
        if node.node_id == leader_id
    )
    return told or replica.endpoints_of(leader_id)


def learn(
    replica: Replica,
    epoch: LeaderEpoch,
    leader_id: BrokerId,
    endpoints: tuple[Endpoint, ...],
    now_ms: int,
    *,
    from_leader: bool = False,
) -> bool:
    """Take in who leads which epoch (`leader_id` -1: nobody known); whether that changed the state.

    What contradicts what is known of the present epoch is not believed.
    """
    endpoints = endpoints or replica.endpoints_of(leader_id)
    is_known = leader_id >= 0 and leader_id != replica.id and bool(endpoints)
    if epoch > replica.epoch:
        if is_known:
            replica.follow(epoch, leader_id, endpoints, now_ms)
        else:
            replica.become_unattached(epoch, now_ms)
        return True
    if epoch < replica.epoch or not is_known or replica.state in (State.LEADER, State.RESIGNED):
        return False
    if replica.record.leader_id is not None and replica.record.leader_id != leader_id:
        return False
    if replica.state is State.FOLLOWER:
        return False
    if replica.state is State.PROSPECTIVE and replica.record.leader_id == leader_id and not from_leader:
        # Others may still take it for the leader that this replica has given up.
        return False
    replica.follow(epoch, leader_id, endpoints, now_ms)
    return True


def contradicts(replica: Replica, epoch: LeaderEpoch, leader_id: BrokerId) -> bool:
    """Whether a claim to lead the present epoch cannot be true, from all that is known here."""
    if epoch != replica.epoch:
        return False
    if leader_id == replica.id:
        return True
    return replica.record.leader_id is not None and replica.record.leader_id != leader_id


def observe_answer(
    replica: Replica, error: int, leader: Any, node_endpoints: Sequence[Any], now_ms: int
) -> bool | None:
    """`observe` for an answer whose part `leader` has `leader_id` and `leader_epoch`."""
    endpoints = leader_endpoints(replica, leader.leader_id, node_endpoints)
    return observe(replica, error, leader.leader_id, leader.leader_epoch, endpoints, now_ms)


def observe(
    replica: Replica,
    error: int,
    leader_id: BrokerId,
    epoch: LeaderEpoch,
    endpoints: tuple[Endpoint, ...],
    now_ms: int,
) -> bool | None:
    """What an answer says besides: True when that is all and the next request may follow at once,
    False when a pause should come before; None when the answer itself is to be looked at."""
    if epoch < replica.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return False
    if epoch > replica.epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        return learn(replica, epoch, leader_id, endpoints, now_ms)
    if learn(replica, epoch, leader_id, endpoints, now_ms):
        return None if error == ErrorCode.NONE else True
    if error in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST):
        return False
    return None
