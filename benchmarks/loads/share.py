"""Members of a share group that read a topic from its start and accept all records.

Each member has a connection of its own with one ShareFetch in flight, which accepts the records of the
response before it. With fewer members than partitions each member reads several partitions, otherwise several
members share each. The time is that from the first fetch until all records are accepted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID, uuid4

import uvloop

from benchmarks.loads.group_members import BEGINNING, check
from benchmarks.loads.options import main
from benchmarks.processes import tree_cpu_seconds
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.ids import uuid_text
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

SETTINGS: Final = ConnectionSettings(
    client_id="share", max_response_bytes=200_000_000, request_timeout_ms=60_000, setup_timeout_ms=60_000
)
WITHIN_S: Final = 120.0
RETRY_S: Final = 0.05
GROUP_RESOURCE: Final = 32
SET: Final = 0
FINAL_EPOCH: Final = -1
ACCEPT: Final = 1
MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 50 * 1024 * 1024
MAX_RECORDS: Final = 500
"""The defaults of Kafka's share consumer."""


class Progress:
    """The number of records that members have acquired."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.acquired = 0
        self.fetches = 0

    @property
    def is_complete(self) -> bool:
        """Whether all records have been acquired."""
        return self.acquired >= self.expected


class ShareMember:
    """One member with its session."""

    def __init__(
        self, connection: BrokerConnection, group_id: str, topic_id: UUID, partitions: Sequence[int]
    ) -> None:
        self.id = uuid_text(uuid4())
        self._connection = connection
        self._group_id = group_id
        self._topic_id = topic_id
        self._partitions = partitions
        self._epoch = 0
        self._acquired: dict[int, list[tuple[int, int]]] = {}

    async def join(self, topic: str) -> None:
        """Join the group, and wait until the states of the partitions are initialized."""
        epoch = 0
        while True:
            request = ShareGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id=self.id,
                member_epoch=epoch,
                subscribed_topic_names=(topic,) if epoch == 0 else None,
            )
            response = await self._connection.request(request, ShareGroupHeartbeatResponse)
            if response.error_code not in BEGINNING:
                check(response.error_code)
                epoch = response.member_epoch
                if response.assignment is not None and response.assignment.topic_partitions:
                    return
            await asyncio.sleep(RETRY_S)

    async def read(self, progress: Progress) -> None:
        """Fetch and accept until all records are acquired, then end the session."""
        while not progress.is_complete:
            response = await self._fetch(self._epoch)
            self._epoch += 1
            progress.fetches += 1
            for topic in response.responses:
                for each in topic.partitions:
                    check(each.error_code)
                    check(each.acknowledge_error_code)
                    ranges = [(one.first_offset, one.last_offset) for one in each.acquired_records]
                    if ranges:
                        self._acquired[each.partition_index] = ranges
                        progress.acquired += sum(last - first + 1 for first, last in ranges)
        await self._fetch(FINAL_EPOCH)

    async def _fetch(self, epoch: int) -> ShareFetchResponse:
        acquired, self._acquired = self._acquired, {}
        indexes = self._partitions if epoch == 0 else tuple(acquired)
        partitions = tuple(
            FetchPartition(
                partition_index=index,
                acknowledgement_batches=tuple(
                    AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(ACCEPT,))
                    for first, last in acquired.get(index, ())
                ),
            )
            for index in indexes
        )
        request = ShareFetchRequest(
            group_id=self._group_id,
            member_id=self.id,
            share_session_epoch=epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=MAX_RECORDS,
            batch_size=MAX_RECORDS,
            topics=(FetchTopic(topic_id=self._topic_id, partitions=partitions),) if partitions else (),
        )
        response = await self._connection.request(request, ShareFetchResponse)
        check(response.error_code)
        return response


def share(
    host: str, port: int, topic: str, members: int, partitions: int, records: int, pids: Sequence[int]
) -> dict[str, Any]:
    """Read `records` with a new group of `members`."""
    return uvloop.run(_measure(BrokerAddress(-1, host, port), topic, members, partitions, records, pids))


async def _measure(
    address: BrokerAddress, topic: str, members: int, partitions: int, records: int, pids: Sequence[int]
) -> dict[str, Any]:
    group_id = f"share-{uuid4().hex[:12]}"
    environment = SystemEnvironment()
    connections = [await open_connection(environment, SETTINGS, address) for _ in range(members)]
    await _read_from_start(connections[0], group_id)
    topic_id = await _topic_id(connections[0], topic)
    readers = [
        ShareMember(connection, group_id, topic_id, _partitions_of(number, members, partitions))
        for number, connection in enumerate(connections)
    ]
    progress = Progress(records)
    async with asyncio.timeout(WITHIN_S):
        await _find_coordinator(connections[0], group_id)
        await readers[0].join(topic)
        started, cpu_before = time.perf_counter(), sum(map(tree_cpu_seconds, pids))
        await asyncio.gather(*(reader.read(progress) for reader in readers))
    elapsed_s = time.perf_counter() - started
    cpu_s = sum(map(tree_cpu_seconds, pids)) - cpu_before
    for connection in connections:
        connection.close()
    return {
        "records_per_s": progress.acquired / elapsed_s,
        "cpu_us_per_fetch": cpu_s / progress.fetches * 1e6,
        "cpu_us_per_record": cpu_s / progress.acquired * 1e6,
        "fetches": progress.fetches,
        "acquired": progress.acquired,
    }


def _partitions_of(member: int, members: int, partitions: int) -> Sequence[int]:
    if members >= partitions:
        return (member % partitions,)
    return tuple(range(member, partitions, members))


async def _read_from_start(connection: BrokerConnection, group_id: str) -> None:
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=SET, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    response = await connection.request(request, IncrementalAlterConfigsResponse)
    check(response.responses[0].error_code)


async def _find_coordinator(connection: BrokerConnection, group_id: str) -> None:
    """Wait until the coordinator is available; the first request creates its internal topic."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))
    while True:
        response = await connection.request(request, FindCoordinatorResponse, highest_version=4)
        if not response.coordinators[0].error_code:
            return
        await asyncio.sleep(RETRY_S)


async def _topic_id(connection: BrokerConnection, topic: str) -> UUID:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    response = await connection.request(request, MetadataResponse)
    return response.topics[0].topic_id


if __name__ == "__main__":
    main(share)
