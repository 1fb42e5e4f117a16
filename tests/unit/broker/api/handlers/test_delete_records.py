"""DeleteRecords waits for the log start of every follower."""

from __future__ import annotations

import asyncio

from tests.support.replicas.handled_cluster import SECOND, THIRD, HandledCluster, context
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.broker.api.handlers.delete_records import DeleteRecordsHandler
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.steps import run_steps


def delete(
    cluster: HandledCluster, offset: int
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    request_partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name="t", partitions=(request_partition,)),), timeout_ms=1_000
    )
    return run_steps(
        DeleteRecordsHandler(
            cluster.replicas.manager,
            cluster.deletions,
            Slices(cluster.replicas.clock),
            authorizer=ALLOW_EVERYTHING,
        ).handle(context(2), request)
    )


def outcome(response: DeleteRecordsResponse) -> tuple[int, int]:
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.low_watermark


async def test_delete_records_waits_for_the_log_start_of_every_live_follower() -> None:
    cluster = HandledCluster(isr=(1, 2))
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    waiting = delete(cluster, 1)
    assert isinstance(waiting, asyncio.Future)
    cluster.partition.record_follower_fetch(SECOND, 2, 1, 102)
    assert not waiting.done()
    cluster.partition.record_follower_fetch(THIRD, 2, 1, 103)
    assert outcome(await waiting) == (0, 1)


async def test_delete_records_of_a_repeated_partition_waits_and_responds_once() -> None:
    cluster = HandledCluster(isr=(1, 2))
    cluster.append("a", "b", "c")
    cluster.fetch(3, broker=SECOND)
    requested_partitions = tuple(
        DeleteRecordsPartition(partition_index=0, offset=1 + number % 2) for number in range(1_000)
    )
    topics = tuple(
        DeleteRecordsTopic(name="t", partitions=part)
        for part in (requested_partitions[:500], requested_partitions[500:-1])
    )
    handler = DeleteRecordsHandler(
        cluster.replicas.manager,
        cluster.deletions,
        Slices(cluster.replicas.clock),
        authorizer=ALLOW_EVERYTHING,
    )
    waiting = run_steps(handler.handle(context(2), DeleteRecordsRequest(topics=topics, timeout_ms=1_000)))
    assert (cluster.deletions.delayed_count, cluster.deletions.watched_count) == (1, 1)
    assert cluster.partition.log.log_start_offset == 1, "the last entry counts"
    assert isinstance(waiting, asyncio.Future)
    cluster.pass_ms(1_001)
    (topic,) = (await waiting).topics
    assert [each.error_code for each in topic.partitions] == [ErrorCode.REQUEST_TIMED_OUT]


async def test_delete_records_ends_when_the_client_disconnects() -> None:
    cluster = HandledCluster(isr=(1, 2))
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    waiting = delete(cluster, 1)
    assert isinstance(waiting, asyncio.Future)
    assert cluster.deletions.delayed_count == 1
    waiting.cancel()
    await asyncio.sleep(0)
    assert (cluster.deletions.delayed_count, cluster.deletions.watched_count, len(cluster.timers)) == (
        0,
        0,
        0,
    )


async def test_delete_records_ends_at_its_timeout_or_with_the_leadership() -> None:
    cluster = HandledCluster(isr=(1, 2))
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    late = delete(cluster, 1)
    assert isinstance(late, asyncio.Future)
    cluster.pass_ms(1_001)
    assert outcome(await late) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    lost = delete(cluster, 2)
    assert isinstance(lost, asyncio.Future)
    cluster.change(leader=SECOND)
    assert outcome(await lost) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
