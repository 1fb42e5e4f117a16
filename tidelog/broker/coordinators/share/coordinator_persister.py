"""Reads and writes the states of share partitions at the share coordinators of the cluster.

The coordinator of a state is the leader of one partition of `__share_group_state`, which the first call
creates. The states of a call are sent in one request for each coordinator and group. A state whose
coordinator moves, loads or does not respond is sent again, until `RETRY_TIMEOUT_MS` have passed. A write that
is sent again is applied twice, which has the same result as once.

Bounds: a request has at most `STATES_PER_REQUEST` states. Requests with more than `STATES_AT_ONCE` states
together are sent one after the other, because this node may be the coordinator of all of them.
Source: PersisterStateManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    StateRead,
    StateResult,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.broker.coordinators.share.state_messages import (
    DELETE,
    INITIALIZE,
    READ,
    READ_SUMMARY,
    WRITE,
    ItemT,
    ResultT,
    StateMessages,
)
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.cluster.topic_names import SHARE_GROUP_STATE_TOPIC
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps

STATES_PER_REQUEST: Final = 1000
STATES_AT_ONCE: Final = 250
"""The states of the requests that are sent at the same time; a coordinator needs about 20 us for each."""
RETRY_TIMEOUT_MS: Final = 15_000
"""The time after which a call returns the last error: an election and the load of a partition take less."""
FIRST_RETRY_MS: Final = 50
LAST_RETRY_MS: Final = 1000

_RETRIABLE_CODES: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class Brokers(Protocol):
    """Sends requests to brokers; implemented by `BrokerChannel`."""

    async def request(
        self, broker_id: BrokerId, message: ApiMessage, response: type[ApiMessage], /
    ) -> ApiMessage:
        """Send the request once and return the response. Raise KafkaError without one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PersisterPorts:
    """The functions of the node that the persister calls.

    `partition_for` returns the partition of `__share_group_state` for a state, and `create_topic` starts the
    creation of that topic.
    """

    brokers: Brokers
    image: Callable[[], MetadataImage]
    partition_for: Callable[[SharePartitionKey], int]
    create_topic: Callable[[], None]
    clock: Clock
    slices: Slices


class _Part(NamedTuple):
    """The items of one request, as their numbers in the list of all items."""

    coordinator: BrokerId
    numbers: list[int]


class CoordinatorPersister:
    """Implements `SharePersister` over requests to the share coordinators."""

    def __init__(self, ports: PersisterPorts) -> None:
        self._ports = ports

    async def initialize(self, states: Sequence[InitialState]) -> list[StateResult]:
        """Create the states, or replace those with a lower state epoch."""
        return await self._perform(INITIALIZE, states)

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState]:
        """Return the states, and fence the leaders of earlier leader epochs."""
        return await self._perform(READ, reads)

    async def write(self, writes: Sequence[StateWrite]) -> list[StateResult]:
        """Change the states."""
        return await self._perform(WRITE, writes)

    async def delete(self, share_partitions: Sequence[SharePartitionKey]) -> list[StateResult]:
        """Delete the states."""
        return await self._perform(DELETE, share_partitions)

    async def read_summary(self, reads: Sequence[StateRead]) -> list[StateSummary]:
        """Return the states without their batches."""
        return await self._perform(READ_SUMMARY, reads)

    async def _perform(
        self, messages: StateMessages[ItemT, ResultT], items: Sequence[ItemT]
    ) -> list[ResultT]:
        """Send `items` until each has a result that is not retriable, or there is no time left."""
        clock = self._ports.clock
        deadline_ms = clock.monotonic_ms() + RETRY_TIMEOUT_MS
        results = await self._send_all(messages, items)
        pause_ms = FIRST_RETRY_MS
        while unfinished := [
            number for number, result in enumerate(results) if result.error_code in _RETRIABLE_CODES
        ]:
            if clock.monotonic_ms() + pause_ms > deadline_ms:
                break
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, LAST_RETRY_MS)
            again = await self._send_all(messages, [items[number] for number in unfinished])
            for number, result in zip(unfinished, again, strict=True):
                results[number] = result
        return results

    async def _send_all(
        self, messages: StateMessages[ItemT, ResultT], items: Sequence[ItemT]
    ) -> list[ResultT]:
        """Send each item once. Return the results in the order of the items."""
        results: list[ResultT] = [messages.failure("not sent")] * len(items)
        for parts in await self._ports.slices.complete(self._parts(messages, items)):
            sent = await bounded_gather(
                self._send(messages, part.coordinator, [items[number] for number in part.numbers])
                for part in parts
            )
            for part, part_results in zip(parts, sent, strict=True):
                for number, result in zip(part.numbers, part_results, strict=True):
                    results[number] = result
        return results

    def _parts(self, messages: StateMessages[ItemT, Any], items: Sequence[ItemT]) -> Steps[list[list[_Part]]]:
        """Divide `items` into requests, and these into lists of requests that are sent at the same time."""
        by_request: defaultdict[tuple[BrokerId, str], list[int]] = defaultdict(list)
        for number, item in enumerate(items):
            share_partition = messages.share_partition(item)
            by_request[self._coordinator(share_partition), share_partition.group_id].append(number)
            yield None
        groups: list[list[_Part]] = []
        free_count = 0
        for (coordinator, _), numbers in by_request.items():
            for start in range(0, len(numbers), STATES_PER_REQUEST):
                part = _Part(coordinator, numbers[start : start + STATES_PER_REQUEST])
                if len(part.numbers) > free_count:
                    groups.append([])
                    free_count = STATES_AT_ONCE
                groups[-1].append(part)
                free_count -= len(part.numbers)
                yield None
        return groups

    async def _send(
        self, messages: StateMessages[ItemT, ResultT], coordinator: BrokerId, items: Sequence[ItemT]
    ) -> list[ResultT]:
        """Return the results of one request, or its error for each item."""
        if coordinator == NO_LEADER:
            text = f"{SHARE_GROUP_STATE_TOPIC} has no leader for the state"
            return [messages.failure(text, ErrorCode.COORDINATOR_NOT_AVAILABLE)] * len(items)
        request = messages.create_request(messages.share_partition(items[0]).group_id, items)
        try:
            response = await self._ports.brokers.request(coordinator, request, messages.response)
        except KafkaError as error:
            return [messages.failure(str(error), error.code)] * len(items)
        return messages.results(items, response)

    def _coordinator(self, share_partition: SharePartitionKey) -> BrokerId:
        """Return the coordinator of a state; NO_LEADER if none is available."""
        image = self._ports.image()
        topic = image.topics_by_name.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            self._ports.create_topic()
            return NO_LEADER
        partition = topic.partitions.get(self._ports.partition_for(share_partition))
        broker = None if partition is None else image.brokers.get(partition.leader)
        return NO_LEADER if partition is None or broker is None or broker.fenced else partition.leader
