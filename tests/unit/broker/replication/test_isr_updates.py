"""AlterPartition requests of a leader: batching, one in flight, retries."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from tests.support.clocks.manual_clock import ManualClock
from tests.support.waiting import eventually
from tidelog.broker.replication.isr_updates import IsrUpdates
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrMember, IsrProposal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

TOPIC_ID = UUID(int=77)


class FakePartition:
    """Records the responses to its proposals; an UNKNOWN_SERVER_ERROR is retried."""

    def __init__(self, index: int) -> None:
        self.topic_id = TOPIC_ID
        self.topic_partition = TopicPartition("t", index)
        self.pending_isr: IsrProposal | None = None
        self.outcomes: list[CommittedIsr | ErrorCode] = []

    def propose(self, updates: IsrUpdates, *isr: int, epoch: int = 10) -> IsrProposal:
        self.pending_isr = IsrProposal(
            members=tuple(IsrMember(broker, 100 + broker) for broker in isr),
            added=isr[-1],
            removed=frozenset(),
            leader_epoch=5,
            partition_epoch=epoch,
        )
        updates.propose(self, self.pending_isr)
        return self.pending_isr

    def on_isr_response(self, proposal: IsrProposal, response: CommittedIsr | ErrorCode) -> bool:
        self.outcomes.append(response)
        if response is ErrorCode.UNKNOWN_SERVER_ERROR:
            return True
        if proposal is self.pending_isr:
            self.pending_isr = None
        return False


class FakeChannel:
    """Responds to each request when the test completes its future."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.futures: list[asyncio.Future[AlterPartitionResponse]] = []

    async def request(self, message: Any, response: type[Any], *, deadline: int) -> Any:
        self.requests.append(message)
        self.futures.append(asyncio.get_running_loop().create_future())
        return await self.futures[-1]

    def indexes(self, request: int) -> list[int]:
        return [p.partition_index for topic in self.requests[request].topics for p in topic.partitions]

    def commit(self, request: int, *, code: ErrorCode = ErrorCode.NONE, without: int | None = None) -> None:
        """Respond as a controller that makes the change, or that refuses each partition with `code`."""
        message = self.requests[request]
        self.futures[request].set_result(
            AlterPartitionResponse(
                topics=tuple(
                    ResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            ResponsePartitionData(
                                partition_index=p.partition_index,
                                error_code=code,
                                leader_id=1,
                                leader_epoch=p.leader_epoch,
                                isr=tuple(member.broker_id for member in p.new_isr_with_epochs),
                                partition_epoch=p.partition_epoch + 1,
                            )
                            for p in topic.partitions
                            if p.partition_index != without
                        ),
                    )
                    for topic in message.topics
                )
            )
        )


def isr_updates() -> tuple[IsrUpdates, FakeChannel]:
    channel = FakeChannel()
    return IsrUpdates(channel, 1, lambda: 101, ManualClock()), channel


async def test_proposals_of_one_iteration_share_a_request_with_broker_epochs() -> None:
    updates, channel = isr_updates()
    first, second = FakePartition(0), FakePartition(1)
    first.propose(updates, 1, 2)
    second.propose(updates, 1, 3)
    await eventually(lambda: channel.requests)
    request = channel.requests[0]
    assert (request.broker_id, request.broker_epoch) == (1, 101)
    assert channel.indexes(0) == [0, 1]
    sent = request.topics[0].partitions[0]
    assert (sent.leader_epoch, sent.partition_epoch) == (5, 10)
    assert [(m.broker_id, m.broker_epoch) for m in sent.new_isr_with_epochs] == [(1, 101), (2, 102)]
    channel.commit(0)
    await eventually(lambda: second.outcomes)
    assert first.outcomes == [CommittedIsr(leader_epoch=5, partition_epoch=11, isr=(1, 2))]
    await updates.close()


async def test_one_request_is_in_flight_and_the_next_has_all_pending_proposals() -> None:
    updates, channel = isr_updates()
    partitions = [FakePartition(index) for index in range(4)]
    partitions[0].propose(updates, 1, 2)
    await eventually(lambda: len(channel.requests) == 1)
    for partition in partitions[1:]:
        partition.propose(updates, 1, 2)
    await asyncio.sleep(0)
    assert len(channel.requests) == 1
    channel.commit(0)
    await eventually(lambda: len(channel.requests) == 2)
    assert channel.indexes(1) == [1, 2, 3]
    await updates.close()


async def test_a_failed_or_lost_request_is_sent_again() -> None:
    updates, channel = isr_updates()
    partition = FakePartition(0)
    partition.propose(updates, 1, 2)
    await eventually(lambda: len(channel.requests) == 1)
    channel.futures[0].set_result(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    await eventually(lambda: len(channel.requests) == 2)
    channel.futures[1].set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller"))
    await eventually(lambda: len(channel.requests) == 3)
    assert partition.outcomes == []
    channel.commit(2)
    await eventually(lambda: partition.outcomes)
    await updates.close()


async def test_a_partition_with_a_retriable_error_or_without_result_is_sent_again() -> None:
    updates, channel = isr_updates()
    asks, missing = FakePartition(0), FakePartition(1)
    asks.propose(updates, 1, 2)
    missing.propose(updates, 1, 2)
    await eventually(lambda: len(channel.requests) == 1)
    channel.commit(0, code=ErrorCode.UNKNOWN_SERVER_ERROR, without=1)
    await eventually(lambda: len(channel.requests) == 2)
    assert channel.indexes(1) == [0, 1]
    assert asks.outcomes == [ErrorCode.UNKNOWN_SERVER_ERROR]
    await updates.close()


async def test_proposals_older_than_the_metadata_are_not_sent() -> None:
    updates, channel = isr_updates()
    partition, other = FakePartition(0), FakePartition(1)
    partition.propose(updates, 1, 2)
    other.propose(updates, 1, 2)
    other.pending_isr = None
    await eventually(lambda: len(channel.requests) == 1)
    assert channel.indexes(0) == [0]
    partition.propose(updates, 1, 3, epoch=11)
    channel.futures[0].set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller"))
    await eventually(lambda: len(channel.requests) == 2)
    assert channel.requests[1].topics[0].partitions[0].partition_epoch == 11
    channel.commit(1)
    await eventually(lambda: partition.outcomes)
    await updates.close()


async def test_nothing_is_sent_after_stop() -> None:
    updates, channel = isr_updates()
    partition = FakePartition(0)
    partition.propose(updates, 1, 2)
    await eventually(lambda: channel.requests)
    await updates.close()
    partition.propose(updates, 1, 2)
    await asyncio.sleep(0)
    assert len(channel.requests) == 1
    assert channel.futures[0].cancelled()


async def test_an_unexpected_error_loses_no_proposal() -> None:
    updates, channel = isr_updates()
    partition = FakePartition(0)
    partition.propose(updates, 1, 2)
    await eventually(lambda: len(channel.requests) == 1)
    channel.futures[0].set_exception(RuntimeError("a bug"))
    await eventually(lambda: len(channel.requests) == 2)
    channel.commit(1)
    await eventually(lambda: partition.outcomes)
    await updates.close()


async def test_unknown_error_codes_are_handled() -> None:
    updates, channel = isr_updates()
    partition = FakePartition(0)
    partition.propose(updates, 1, 2)
    await eventually(lambda: len(channel.requests) == 1)
    channel.futures[0].set_result(AlterPartitionResponse(error_code=9_999))
    await eventually(lambda: len(channel.requests) == 2)
    sent = ResponsePartitionData(partition_index=0, error_code=9_999)
    topic = ResponseTopicData(topic_id=TOPIC_ID, partitions=(sent,))
    channel.futures[1].set_result(AlterPartitionResponse(topics=(topic,)))
    await eventually(lambda: len(channel.requests) == 3)
    assert partition.outcomes == [ErrorCode.UNKNOWN_SERVER_ERROR]
    await updates.close()


async def test_an_error_in_handling_a_result_does_not_affect_others() -> None:
    class FailingPartition(FakePartition):
        def on_isr_response(self, proposal: IsrProposal, response: CommittedIsr | ErrorCode) -> bool:
            self.pending_isr = None
            raise RuntimeError("a bug")

    updates, channel = isr_updates()
    FailingPartition(0).propose(updates, 1, 2)
    other = FakePartition(1)
    other.propose(updates, 1, 2)
    await eventually(lambda: len(channel.requests) == 1)
    channel.commit(0)
    await eventually(lambda: other.outcomes)
    await updates.close()
