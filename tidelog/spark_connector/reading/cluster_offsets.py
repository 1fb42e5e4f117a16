"""Requests partitions and offsets from brokers, on the driver (shell).

The first request opens the connections. Retriable errors are retried according to the options
`fetchOffset.numRetries` and `fetchOffset.retryIntervalMs`, in addition to the retries of the clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

from tidelog.clients.admin.admin import Admin, ListedOffset
from tidelog.clients.admin.admin import OffsetSpec as AdminOffsetSpec
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.clients.transport.failures import is_retriable
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import ENDLESS, Offset, TopicPartition
from tidelog.protocol.schema import ZERO_UUID
from tidelog.remote.direct.metadata_tier import MetadataTier
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.spark_connector.connections.loop_thread import LoopThread
from tidelog.spark_connector.connections.tls import tls_values
from tidelog.spark_connector.planning.offset_specs import (
    EARLIEST,
    LATEST,
    OffsetSpec,
    require_match,
    required_lookups,
)
from tidelog.spark_connector.planning.offsets_json import Offsets
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import AbortedRange
from tidelog.spark_connector.planning.source_options import SourceOptions

_log = logging.getLogger("tidelog.spark")
_NO_MATCH = -1
ResultT = TypeVar("ResultT")


class ClusterOffsets:
    """Requests offsets for one query; use it as a context manager, or call `close`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._loop: LoopThread | None = None
        self._admin: Admin | None = None
        self._tier: MetadataTier | None = None

    def partitions(
        self, *, all_must_exist: bool, earlier_partitions: Collection[TopicPartition] = ()
    ) -> frozenset[TopicPartition]:
        """Return the partitions that the query reads; retry while one of `earlier_partitions` is missing.

        Errors: OptionError if a named topic or partition does not exist and `all_must_exist`.
        """
        topics = self._options.topics
        selected_partitions = [
            topic_partition for topic_partition in earlier_partitions if topics.chooses(topic_partition)
        ]
        counts = self._counts_including(selected_partitions, topics.named_topics)
        partitions = topics.partitions(counts)
        if all_must_exist and (missing := topics.missing(counts)):
            raise OptionError(f"topics or partitions do not exist: {', '.join(missing)}")
        return partitions

    def existing(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of `partitions` that exist, chosen or not; request a missing one again first."""
        if not partitions:
            return frozenset()
        counts = self._counts_including(
            partitions, sorted({topic_partition.topic for topic_partition in partitions})
        )
        return frozenset(
            topic_partition
            for topic_partition in partitions
            if topic_partition.partition < counts.get(topic_partition.topic, 0)
        )

    def resolve(self, spec: OffsetSpec, partitions: Collection[TopicPartition], *, is_start: bool) -> Offsets:
        """Return the offsets of an option; an end timestamp without a later record means the latest offset.

        Errors: OptionError if the option names other partitions, or a start timestamp has no later record.
        """
        lookups = required_lookups(spec, partitions)
        # Request the ends first: records that arrive between the two requests are then after the ends.
        ends = self._list_offsets(dict.fromkeys(lookups.timestamps, LATEST))
        offsets = self._list_offsets({**lookups.bounds, **lookups.timestamps})
        unmatched = [
            topic_partition for topic_partition in lookups.timestamps if offsets[topic_partition] == _NO_MATCH
        ]
        if is_start and not self._options.begins_latest_without_match:
            require_match(lookups, unmatched)
        return {
            **lookups.explicit,
            **offsets,
            **{topic_partition: ends[topic_partition] for topic_partition in unmatched},
        }

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the log start offsets of those of `partitions` that exist."""
        return self._list_offsets(dict.fromkeys(partitions, EARLIEST), must_exist=False)

    def latest(
        self, partitions: Collection[TopicPartition], earlier_offsets: Mapping[TopicPartition, int]
    ) -> Offsets:
        """Return the end offsets; one below `earlier_offsets` is requested again before it is accepted."""
        retries = self._options.fetch_offset_retries
        while True:
            ends = self._list_offsets(dict.fromkeys(partitions, LATEST), must_exist=False)
            if retries == 0 or all(
                end >= earlier_offsets.get(topic_partition, 0) for topic_partition, end in ends.items()
            ):
                return ends
            retries -= 1
            self._run(self._pause)

    def last_tiered(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the last offset in the tier of each of `partitions`, -1 if there is none.

        The result is empty if the brokers do not support the request (before KIP-1005).
        """

        async def request(admin: Admin) -> Offsets:
            specs = dict.fromkeys(partitions, int(AdminOffsetSpec.LATEST_TIERED))
            responses = (await admin.list_offsets(specs)).items()
            return {
                topic_partition: response.offset
                for topic_partition, response in responses
                if not isinstance(response, KafkaError)
            }

        try:
            return self._run(request) if partitions else {}
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return {}

    def topic_ids(self, topics: Collection[str]) -> dict[str, UUID]:
        """Return the ids of those of `topics` that exist; none if the brokers do not support topic ids."""

        async def request(admin: Admin) -> dict[str, UUID]:
            descriptions = (await admin.describe_topics(topics)).items()
            ids = {
                name: description.topic_id
                for name, description in descriptions
                if not isinstance(description, KafkaError)
            }
            return {name: topic_id for name, topic_id in ids.items() if topic_id != ZERO_UUID}

        return self._run(request)

    def tiers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
        """Return the remote segments of the partitions. Metadata that was read before is not read again."""

        async def request(admin: Admin) -> dict[TopicPartition, PartitionTier]:
            if self._tier is None:
                client = self._options.client
                self._tier = MetadataTier(admin, {**client.values, **tls_values(client)})
            return await self._tier.tiers(partitions)

        return self._run(request) if partitions else {}

    def aborted_across(self, topic_partition: TopicPartition, offset: Offset) -> list[AbortedRange]:
        """Return the aborted transactions that start before `offset` and end at it or after it.

        The leader lists them with the first batch from `offset`, or with the batch before it if that one is
        not stable yet.
        """

        async def request(admin: Admin) -> list[AbortedRange]:
            specs = {topic_partition: LATEST}
            end = _offset_or_raise((await admin.list_offsets(specs))[topic_partition])
            if end <= offset:
                return []
            stable = _offset_or_raise((await admin.list_offsets(specs, read_committed=True))[topic_partition])
            start = max(0, min(offset, stable - 1))
            client = self._options.client
            values = {**client.values, **tls_values(client), "max_partition_fetch_bytes": 1}
            reader = PartitionReader(
                topic_partition=topic_partition, start_offset=start, end_offset=start + 1, **values
            )
            aborted: list[AbortedRange] = []
            async with reader:
                async for fetched in reader.fetched_ranges():
                    for producer_id, first_offset in fetched.aborted or ():
                        if first_offset < offset:
                            aborted.append(AbortedRange(producer_id, first_offset, ENDLESS))
            return aborted

        return self._run(request)

    def close(self) -> None:
        """Disconnect."""
        self._tier = None
        admin, loop, self._admin, self._loop = self._admin, self._loop, None, None
        if loop is None:
            return
        try:
            if admin is not None:
                loop.run(admin.close())
        finally:
            loop.close()

    def __enter__(self) -> ClusterOffsets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside ---------------------------------------------------------------------------

    def _list_offsets(self, specs: Mapping[TopicPartition, int], *, must_exist: bool = True) -> Offsets:
        if not specs:
            return {}

        async def request(admin: Admin) -> Offsets:
            committed = self._options.client.read_committed
            offsets: Offsets = {}
            for topic_partition, response in (
                await admin.list_offsets(specs, read_committed=committed)
            ).items():
                if not isinstance(response, KafkaError):
                    offsets[topic_partition] = response.offset
                elif must_exist or response.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise response
            return offsets

        return self._run(request)

    def _counts_including(
        self, expected_partitions: Collection[TopicPartition], topics: Collection[str] | None
    ) -> dict[str, int]:
        """Return the partition counts of `topics` (None: all); retry while an expected one is missing."""
        retries = self._options.fetch_offset_retries
        while True:
            counts = self._run(lambda admin: self._partition_counts(admin, topics))
            # A broker that has just started has incomplete metadata for a moment.
            if retries == 0 or all(
                topic_partition.partition < counts.get(topic_partition.topic, 0)
                for topic_partition in expected_partitions
            ):
                return counts
            retries -= 1
            self._run(self._pause)

    async def _partition_counts(self, admin: Admin, topics: Collection[str] | None) -> dict[str, int]:
        if topics is None:
            return {name: topic.partition_count for name, topic in (await admin.list_topics()).items()}
        counts = {}
        for name, topic in (await admin.describe_topics(topics)).items():
            if not isinstance(topic, KafkaError):
                counts[name] = len(topic.partitions)
            elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic
        return counts

    async def _pause(self, _admin: Admin) -> None:
        await asyncio.sleep(self._options.fetch_offset_retry_interval_ms / 1000)

    def _run(self, request: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
        if self._loop is None:
            self._loop = LoopThread("tidelog-spark-driver")
        return self._loop.run(self._run_with_retry(request))

    async def _run_with_retry(self, request: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
        retries = self._options.fetch_offset_retries
        while True:
            try:
                return await request(await self._connect())
            except (KafkaError, OSError) as error:
                if retries == 0 or not _is_transient(error):
                    raise
                _log.warning("request for offsets failed, retrying: %s", error)
                retries -= 1
            await asyncio.sleep(self._options.fetch_offset_retry_interval_ms / 1000)

    async def _connect(self) -> Admin:
        if self._admin is None:
            admin = Admin(**self._admin_values())
            await admin.start()
            self._admin = admin
        return self._admin

    def _admin_values(self) -> dict[str, Any]:
        client = self._options.client
        return {**client.admin_values(), **tls_values(client)}


def _is_transient(error: KafkaError | OSError) -> bool:
    if isinstance(error, KafkaError):
        if error.code is ErrorCode.REQUEST_TIMED_OUT:
            # The clients have retried until their timeout: do not multiply it.
            return False
        if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            # Brokers return this when remote storage fails during a search by timestamp.
            return True
    return is_retriable(error)


def _offset_or_raise(response: ListedOffset | KafkaError) -> Offset:
    if isinstance(response, KafkaError):
        raise response
    return response.offset
