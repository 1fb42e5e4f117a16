"""Sends changes of ISRs to the controller, in one AlterPartition request at a time.

    unsent -> in flight -> the partition applies the response
       ^----------'  no response, or an error of the whole request: sent again after a pause

A proposal is not sent if newer metadata has superseded it. A newer proposal for the same partition replaces
one that was not sent yet, and follows one that is in flight.

Bounds: one unsent proposal per partition, `PARTITIONS_MAX` in one request.
I/O: one task on the event loop while there are proposals.
Source: KIP-497, KIP-903, kafka.server.AlterPartitionManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_requests import ControllerRequests
from tidelog.broker.partitions.leadership import LeaderPartition
from tidelog.clients.transport.failures import failure, known_code
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

logger = logging.getLogger(__name__)

RETRY_PAUSE_MS: Final = 50
REQUEST_TIMEOUT_MS: Final = 30_000
PARTITIONS_MAX: Final = 10_000

_Key: TypeAlias = tuple[UUID, int]


class _PendingUpdate(NamedTuple):
    """A proposal of the leader of `partition`."""

    partition: LeaderPartition
    proposal: IsrProposal

    @property
    def is_pending(self) -> bool:
        """Whether no newer metadata or proposal has superseded the proposal."""
        return self.partition.pending_isr is self.proposal


class IsrUpdates:
    """The pending ISR proposals of all partitions of this node."""

    def __init__(
        self, channel: ControllerRequests, broker_id: BrokerId, broker_epoch: Callable[[], int], clock: Clock
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._unsent: dict[_Key, _PendingUpdate] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def propose(self, partition: LeaderPartition, proposal: IsrProposal) -> None:
        """Send `proposal` with the next request."""
        if self._is_closed:
            return
        self._unsent[partition.topic_id, partition.topic_partition.partition] = _PendingUpdate(
            partition, proposal
        )
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all(), name="isr updates")

    async def close(self) -> None:
        """Stop sending."""
        self._is_closed = True
        self._unsent.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            while self._unsent:
                if not await self._send_some():
                    await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        finally:
            self._task = None

    async def _send_some(self) -> bool:
        """Send one request; return False if the next one must wait for the retry pause."""
        keys = list(islice(self._unsent, PARTITIONS_MAX))
        sent = {key: one for key in keys if (one := self._unsent.pop(key)).is_pending}
        if not sent:
            return True
        try:
            response = await self._channel.request(
                self._request(sent),
                AlterPartitionResponse,
                deadline=self._clock.monotonic_ms() + REQUEST_TIMEOUT_MS,
            )
            if response.error_code:
                raise failure(response.error_code, "AlterPartition failed")
        except (KafkaError, OSError) as error:
            logger.info("Cannot update the ISRs of %d partitions: %s; retrying", len(sent), error)
            self._send_again(sent)
            return False
        except Exception:
            # The proposals must be sent again; otherwise these ISRs could never change.
            logger.exception("Cannot update the ISRs of %d partitions; retrying", len(sent))
            self._send_again(sent)
            return False
        return self._on_response(sent, response)

    def _request(self, sent: dict[_Key, _PendingUpdate]) -> AlterPartitionRequest:
        by_topic: dict[UUID, list[RequestPartitionData]] = {}
        for (topic_id, index), (_, proposal) in sent.items():
            by_topic.setdefault(topic_id, []).append(
                RequestPartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=tuple(
                        BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
                        for member in proposal.members
                    ),
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            topics=tuple(
                RequestTopicData(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in by_topic.items()
            ),
        )

    def _on_response(self, sent: dict[_Key, _PendingUpdate], response: AlterPartitionResponse) -> bool:
        """Pass the results to their partitions; return False if a proposal must be sent again."""
        results = {
            (topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        to_repeat: dict[_Key, _PendingUpdate] = {}
        for key, one in sent.items():
            result = results.get(key)
            if result is None:
                name = one.partition.topic_partition
                logger.warning("AlterPartition response does not contain partition %s; retrying", name)
                to_repeat[key] = one
            elif self._apply_response(one, _outcome(result)):
                to_repeat[key] = one
        self._send_again(to_repeat)
        return not to_repeat

    @staticmethod
    def _apply_response(one: _PendingUpdate, outcome: CommittedIsr | ErrorCode) -> bool:
        """Pass the response to the partition; return whether the proposal must be sent again."""
        try:
            return one.partition.on_isr_response(one.proposal, outcome)
        except Exception:
            # The other partitions must get their responses.
            name = one.partition.topic_partition
            logger.exception("Cannot apply the AlterPartition response to partition %s", name)
            return one.is_pending

    def _send_again(self, sent: dict[_Key, _PendingUpdate]) -> None:
        for key, one in sent.items():
            # If there is a newer proposal, this one has been superseded.
            if key not in self._unsent and one.is_pending and not self._is_closed:
                self._unsent[key] = one


def _outcome(partition: ResponsePartitionData) -> CommittedIsr | ErrorCode:
    if partition.error_code:
        return known_code(partition.error_code)
    return CommittedIsr(
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=partition.isr,
    )
