"""The checks before a partition is read: leader epoch, role of this node, and agreement of the logs."""

from __future__ import annotations

from tidelog.broker.partitions.partition import Partition
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset


def check_follower(partition: Partition, broker_id: BrokerId, current_leader_epoch: LeaderEpoch) -> None:
    """Raise if this node is not the leader, or if the fetching broker has no replica in our metadata.

    A broker with our leader epoch may have a replica that is not in our metadata yet. It retries after
    UNKNOWN_LEADER_EPOCH.
    Errors: those of `Partition.require_leader`; UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
    """
    leader = partition.require_leader(current_leader_epoch)
    if broker_id not in leader.followers:
        code = (
            ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        raise KafkaError(code, f"broker {broker_id} has no replica of {partition.topic_partition}")


def diverging_epoch(
    partition: Partition, last_fetched_epoch: LeaderEpoch, fetch_offset: Offset
) -> tuple[LeaderEpoch, Offset] | None:
    """Return the epoch and end offset where the reader's log diverges from ours.

    None means that the logs agree up to `fetch_offset`, or that the reader sends no epoch (-1).
    Errors: OFFSET_OUT_OF_RANGE. Source: KIP-595, `DivergingEpoch` of a Fetch response.
    """
    if last_fetched_epoch < 0:
        return None
    log = partition.log
    epoch, end_offset = log.leader_epochs.end_offset_for(last_fetched_epoch, log.log_end_offset)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.topic_partition}: leader epoch {last_fetched_epoch} is unknown",
        )
    if fetch_offset < log.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.topic_partition}: offset {fetch_offset} is below the log start offset "
            f"{log.log_start_offset}",
        )
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None
