"""Responses of replicas about epochs: to consumers that fetch, and to OffsetForLeaderEpoch requests."""

from __future__ import annotations

import re
from typing import cast
from uuid import UUID

from tests.support.replicas.replica_manager import Replicas
from tests.support.replicas.replica_pair import LeaderConnection
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.record import read_records

CONSUMER_REPLICA_ID = -1
NO_EPOCH = -1
_CONSUMER = re.compile(r"of ([A-Z]) at (\d+)(?: after (\d+))?(?: in (\d+))? gets (\S+)")
_EPOCH = re.compile(r"(\d+) at ([A-Z])(?: in (\d+))? ends (\S+)")


def consumer_line(text: str) -> tuple[str, int, int, int, str]:
    """Return letter, offset, last epoch, current epoch and expected result of `of A at 2 ... gets m2`."""
    match = _CONSUMER.fullmatch(text)
    assert match is not None, "not a fetch of a consumer"
    letter, offset, last, current, expected = match.groups()
    return letter, int(offset), int(last or NO_EPOCH), int(current or NO_EPOCH), expected


def epoch_line(text: str) -> tuple[str, int, int, str]:
    """Return letter, requested epoch, current leader epoch and expected result of `0 at A in 1 ends 0:2`."""
    match = _EPOCH.fullmatch(text)
    assert match is not None, "not a query for the end of an epoch"
    epoch, letter, current, expected = match.groups()
    return letter, int(epoch), int(current or NO_EPOCH), expected


def consumer_result(
    replicas: Replicas, topic_id: UUID, partition: TopicPartition, offset: int, last: int, current: int
) -> str:
    """Return the record's value, an error's name, `epoch:offset` of a divergence, or `nothing`."""
    requested = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=current,
        fetch_offset=offset,
        last_fetched_epoch=last,
        partition_max_bytes=1,
    )
    request = FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=(FetchTopic(topic=partition.topic, topic_id=topic_id, partitions=(requested,)),),
    )
    response = cast(FetchResponse, LeaderConnection(replicas).handle(request))
    data = response.responses[0].partitions[0]
    if data.error_code != ErrorCode.NONE:
        return ErrorCode(data.error_code).name
    if data.diverging_epoch.end_offset >= 0:
        return f"{data.diverging_epoch.epoch}:{data.diverging_epoch.end_offset}"
    records = bytes(data.records or b"")
    for position, header in iterate_headers(records):
        for record in read_records(records, position, header):
            if record.offset == offset:
                return (record.value or b"").decode()
    return "nothing"


def epoch_end_result(replicas: Replicas, partition: TopicPartition, epoch: int, current: int) -> str:
    """Return the OffsetForLeaderEpoch response as `epoch:offset`, or an error's name."""
    requested = OffsetForLeaderPartition(
        partition=partition.partition, current_leader_epoch=current, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=(OffsetForLeaderTopic(topic=partition.topic, partitions=(requested,)),),
    )
    response = cast(OffsetForLeaderEpochResponse, LeaderConnection(replicas).handle(request))
    data = response.topics[0].partitions[0]
    if data.error_code != ErrorCode.NONE:
        return ErrorCode(data.error_code).name
    return f"{data.leader_epoch}:{data.end_offset}"
