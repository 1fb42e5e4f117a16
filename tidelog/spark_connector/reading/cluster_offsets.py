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
from tidelog.spark_connector.reading.loop_thread import LoopThread
from tidelog.spark_connector.reading.tls import tls_values

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
        self, *, all_must_exist: bool, known: Collection[TopicPartition] = ()
    ) -> frozenset[TopicPartition]:
        """Return the partitions that the query reads; request them again if one of `known` is missing.

        Errors: OptionError if a named topic or partition does not exist and `all_must_exist`.
        """
        topics = self._options.topics
        chosen = [one for one in known if topics.chooses(one)]
        counts = self._counts_with(chosen, topics.named_topics)
        found = topics.partitions(counts)
        if all_must_exist and (missing := topics.missing(counts)):
            raise OptionError(f"topics or partitions do not exist: {', '.join(missing)}")
        return found

    def existing(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of `partitions` that exist, chosen or not; request a missing one again first."""
        if not partitions:
            return frozenset()
        counts = self._counts_with(partitions, sorted({one.topic for one in partitions}))
        return frozenset(one for one in partitions if one.partition < counts.get(one.topic, 0))

    def resolve(self, spec: OffsetSpec, partitions: Collection[TopicPartition], *, is_start: bool) -> Offsets:
        """Return the offsets of an option; an end timestamp without a later record means the latest offset.

        Errors: OptionError if the option names other partitions, or a start timestamp has no later record.
        """
        lookups = required_lookups(spec, partitions)
        # Request the ends first: records that arrive between the two requests are then after the ends.
        ends = self._listed(dict.fromkeys(lookups.timestamps, LATEST))
        found = self._listed({**lookups.bounds, **lookups.timestamps})
        unmatched = [one for one in lookups.timestamps if found[one] == _NO_MATCH]
        if is_start and not self._options.begins_latest_without_match:
            require_match(lookups, unmatched)
        return {**lookups.known, **found, **{one: ends[one] for one in unmatched}}

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the log start offsets of those of `partitions` that exist."""
        return self._listed(dict.fromkeys(partitions, EARLIEST), gone_is_error=False)

    def latest(self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]) -> Offsets:
        """Return the end offsets; one below `known` is requested again before it is accepted."""
        retries = self._options.fetch_offset_retries
        while True:
            ends = self._listed(dict.fromkeys(partitions, LATEST), gone_is_error=False)
            if retries == 0 or all(end >= known.get(one, 0) for one, end in ends.items()):
                return ends
            retries -= 1
            self._ask(self._pause)

    def last_tiered(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the last offset in the tier of each of `partitions`, -1 if there is none.

        The result is empty if the brokers do not support the request (before KIP-1005).
        """

        async def ask(admin: Admin) -> Offsets:
            specs = dict.fromkeys(partitions, int(AdminOffsetSpec.LATEST_TIERED))
            answers = (await admin.list_offsets(specs)).items()
            return {one: listed.offset for one, listed in answers if not isinstance(listed, KafkaError)}

        try:
            return self._ask(ask) if partitions else {}
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return {}

    def topic_ids(self, topics: Collection[str]) -> dict[str, UUID]:
        """Return the ids of those of `topics` that exist; none if the brokers do not support topic ids."""

        async def ask(admin: Admin) -> dict[str, UUID]:
            described = (await admin.describe_topics(topics)).items()
            ids = {name: topic.topic_id for name, topic in described if not isinstance(topic, KafkaError)}
            return {name: topic_id for name, topic_id in ids.items() if topic_id != ZERO_UUID}

        return self._ask(ask)

    def tiers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
        """Return the remote segments of the partitions. Metadata that was read before is not read again."""

        async def ask(admin: Admin) -> dict[TopicPartition, PartitionTier]:
            if self._tier is None:
                client = self._options.client
                self._tier = MetadataTier(admin, {**client.values, **tls_values(client)})
            return await self._tier.tiers(partitions)

        return self._ask(ask) if partitions else {}

    def aborted_across(self, topic_partition: TopicPartition, offset: Offset) -> list[AbortedRange]:
        """Return the aborted transactions that start before `offset` and end at it or after it.

        The leader lists them with the first batch from `offset`, or with the batch before it if that one is
        not stable yet.
        """

        async def ask(admin: Admin) -> list[AbortedRange]:
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
            found: list[AbortedRange] = []
            async with reader:
                async for fetched in reader.fetched_ranges():
                    for producer_id, first_offset in fetched.aborted or ():
                        if first_offset < offset:
                            found.append(AbortedRange(producer_id, first_offset, ENDLESS))
            return found

        return self._ask(ask)

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

    def _listed(self, specs: Mapping[TopicPartition, int], *, gone_is_error: bool = True) -> Offsets:
        if not specs:
            return {}

        async def ask(admin: Admin) -> Offsets:
            committed = self._options.client.read_committed
            found: Offsets = {}
            for one, answer in (await admin.list_offsets(specs, read_committed=committed)).items():
                if not isinstance(answer, KafkaError):
                    found[one] = answer.offset
                elif gone_is_error or answer.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise answer
            return found

        return self._ask(ask)

    def _counts_with(
        self, known: Collection[TopicPartition], topics: Collection[str] | None
    ) -> dict[str, int]:
        """Return the partition counts of `topics` (None: all); retry while one of `known` is missing."""
        retries = self._options.fetch_offset_retries
        while True:
            counts = self._ask(lambda admin: self._partition_counts(admin, topics))
            # A broker that has just started has incomplete metadata for a moment.
            if retries == 0 or all(one.partition < counts.get(one.topic, 0) for one in known):
                return counts
            retries -= 1
            self._ask(self._pause)

    async def _partition_counts(self, admin: Admin, named: Collection[str] | None) -> dict[str, int]:
        if named is None:
            return {name: topic.partition_count for name, topic in (await admin.list_topics()).items()}
        counts = {}
        for name, topic in (await admin.describe_topics(named)).items():
            if not isinstance(topic, KafkaError):
                counts[name] = len(topic.partitions)
            elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic
        return counts

    async def _pause(self, _admin: Admin) -> None:
        await asyncio.sleep(self._options.fetch_offset_retry_interval_ms / 1000)

    def _ask(self, question: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
        if self._loop is None:
            self._loop = LoopThread("tidelog-spark-driver")
        return self._loop.run(self._retrying(question))

    async def _retrying(self, question: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
        retries = self._options.fetch_offset_retries
        while True:
            try:
                return await question(await self._connected())
            except (KafkaError, OSError) as error:
                if retries == 0 or not _may_pass(error):
                    raise
                _log.warning("request for offsets failed, retrying: %s", error)
                retries -= 1
            await asyncio.sleep(self._options.fetch_offset_retry_interval_ms / 1000)

    async def _connected(self) -> Admin:
        if self._admin is None:
            admin = Admin(**self._admin_values())
            await admin.start()
            self._admin = admin
        return self._admin

    def _admin_values(self) -> dict[str, Any]:
        client = self._options.client
        return {**client.admin_values(), **tls_values(client)}


def _may_pass(error: KafkaError | OSError) -> bool:
    if isinstance(error, KafkaError):
        if error.code is ErrorCode.REQUEST_TIMED_OUT:
            # The clients have retried until their timeout: do not multiply it.
            return False
        if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            # Brokers return this when remote storage fails during a search by timestamp.
            return True
    return is_retriable(error)


def _offset_or_raise(listed: ListedOffset | KafkaError) -> Offset:
    if isinstance(listed, KafkaError):
        raise listed
    return listed.offset
