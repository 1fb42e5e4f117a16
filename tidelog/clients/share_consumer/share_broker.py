"""The requests of a share consumer to one broker, one at a time (shell)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.clients.consumer.fetched_data import FetchedData
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.share_consumer.acquired_records import (
    Acknowledgement,
    AcquiredOffsets,
    AcquiredRange,
    acquired_ranges,
    merged,
)
from tidelog.clients.share_consumer.share_session import Acknowledgements, PartitionId, ShareSession
from tidelog.clients.transport.failures import STALE_METADATA, failure, known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from tidelog.protocol.messages.share_fetch import PartitionData, ShareFetchResponse
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType

_log = logging.getLogger("tidelog.clients.consumer")
_LATER: Final = frozenset(
    {
        *STALE_METADATA,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
_FIRST_VERSION_WITH_RENEWAL: Final = 2

AcknowledgementResults = dict[TopicPartition, KafkaError | None]


class ShareBroker:
    """One broker with partitions of the consumer.

    `on_change` is called when records or an error have arrived, and `on_acknowledged` with the results of
    acknowledgements. Bounds: no fetch is sent while records of an earlier one are buffered.
    """

    def __init__(
        self,
        node_id: BrokerId,
        member_id: str,
        client: ClusterClient,
        config: ShareConsumerConfig,
        on_change: Callable[[], None],
        on_acknowledged: Callable[[AcknowledgementResults], None],
    ) -> None:
        self._node_id = node_id
        self._client = client
        self._config = config
        self._on_change = on_change
        self._on_acknowledged = on_acknowledged
        self._session = ShareSession(member_id, config)
        self._turn = asyncio.Lock()
        self._fetching: asyncio.Task[None] | None = None
        self._acknowledging: asyncio.Task[None] | None = None
        self._fetched: dict[TopicPartition, list[AcquiredRange]] = {}
        self._decided: dict[PartitionId, list[Acknowledgement]] = {}
        self._error: KafkaError | None = None

    def raise_error(self) -> None:
        """Raise the error of a fetch, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def take(self) -> dict[TopicPartition, list[AcquiredRange]]:
        """Remove and return the fetched records."""
        fetched, self._fetched = self._fetched, {}
        return fetched

    def decide(self, topic_partition: TopicPartition, ranges: Collection[AcquiredRange]) -> None:
        """Send the acknowledgements of these records with the next request."""
        partition = self._id_of(topic_partition)
        self._decided.setdefault(partition, []).extend(one.acknowledgement() for one in ranges)

    # --- fetching -------------------------------------------------------------------------

    def fetch(self, partitions: Collection[TopicPartition]) -> None:
        """Begin a fetch, unless one is in flight or its records were not taken."""
        if self._fetching is not None or self._fetched or (not partitions and not self._decided):
            return
        wanted = [self._id_of(one) for one in partitions]
        self._fetching = asyncio.create_task(self._fetch(wanted), name=f"tidelog-share-fetch-{self._node_id}")
        self._fetching.add_done_callback(self._on_fetched)

    def _on_fetched(self, task: asyncio.Task[None]) -> None:
        self._fetching = None
        self._keep_error(task)
        self._on_change()

    def _keep_error(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("A request of a share consumer ended by an internal error", exc_info=error)
            self._error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"share request ended: {error!r}")

    async def _fetch(self, wanted: list[PartitionId]) -> None:
        async with self._turn:
            acknowledged = self._take_decided()
            try:
                connection = await self._client.network.connection(self._node_id)
                timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
                request = self._session.fetch_request(wanted, acknowledged)
                response = await connection.request(request, ShareFetchResponse, timeout_ms=timeout_ms)
            except (KafkaError, OSError) as error:
                self._on_failure("ShareFetch", error, acknowledged)
                await self._back_off()
                return
            code = known_code(response.error_code)
            is_lost = self._session.on_response(code)
            if code is not ErrorCode.NONE:
                refused = failure(code, f"ShareFetch at broker {self._node_id}", response.error_message)
                self._report(dict.fromkeys(acknowledged, refused))
                if not is_lost:
                    self._error = refused
                elif code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                    await self._back_off()
                return
            self._apply(response, acknowledged)

    def _apply(self, response: ShareFetchResponse, acknowledged: Acknowledgements) -> None:
        """Keep the acquired records of a response, and report the results of its acknowledgements."""
        results: dict[PartitionId, KafkaError | None] = dict.fromkeys(acknowledged)
        for topic in response.responses:
            name = self._client.metadata.topic_name(topic.topic_id)
            for received in topic.partitions:
                partition = (topic.topic_id, received.partition_index)
                if partition in results and received.acknowledge_error_code:
                    text = f"acknowledgement of {name}-{received.partition_index}"
                    code, message = received.acknowledge_error_code, received.acknowledge_error_message
                    results[partition] = failure(code, text, message)
                if name is not None:
                    self._apply_partition(TopicPartition(name, received.partition_index), received)
        self._report(results)

    def _apply_partition(self, topic_partition: TopicPartition, received: PartitionData) -> None:
        code = known_code(received.error_code)
        if code in STALE_METADATA:
            self._client.updater.request_update()
        if code is not ErrorCode.NONE:
            error = failure(code, f"share fetch of {topic_partition}", received.error_message)
            if code in _LATER:
                _log.info("%s; retrying", error)
            else:
                self._error = error
            return
        if not received.acquired_records:
            return
        acquired = [
            AcquiredOffsets(one.first_offset, one.last_offset, one.delivery_count)
            for one in received.acquired_records
        ]
        try:
            ranges = acquired_ranges(acquired, self._batches(topic_partition, received, acquired[0]))
        except KafkaError as error:
            # Another member may receive undamaged bytes from another replica.
            self._error = error
            self._decided.setdefault(self._id_of(topic_partition), []).extend(
                Acknowledgement(first, last, (AcknowledgeType.RELEASE,)) for first, last, _ in acquired
            )
            return
        self._fetched.setdefault(topic_partition, []).extend(ranges)

    def _batches(
        self, topic_partition: TopicPartition, received: PartitionData, first: AcquiredOffsets
    ) -> Iterator[list[ConsumerRecord]]:
        data = FetchedData(
            topic_partition,
            received.records or b"",
            first.first_offset,
            -1,
            aborted=None,
            check_crcs=self._config.check_crcs,
            max_decompressed_bytes=self._config.max_decompressed_bytes,
        )
        while not data.is_drained:
            records = data.take(self._config.max_poll_records)
            if records:
                yield records

    # --- acknowledging --------------------------------------------------------------------

    def send_decided(self) -> None:
        """Begin to send the acknowledgements, if there are any: the next fetch may begin much later."""
        if self._decided and self._fetching is None and self._acknowledging is None:
            name = f"tidelog-share-acknowledge-{self._node_id}"
            self._acknowledging = asyncio.create_task(self.acknowledge(), name=name)
            self._acknowledging.add_done_callback(self._on_sent)

    def _on_sent(self, task: asyncio.Task[None]) -> None:
        self._acknowledging = None
        self._keep_error(task)

    async def acknowledge(
        self,
        renewed: Mapping[TopicPartition, list[AcquiredRange]] | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        """Send the acknowledgements now. `renewed` are records whose locks begin again.

        They are returned by the next `take`. The session ends if the request `is_last`.
        """
        async with self._turn:
            acknowledged = self._take_decided()
            if not self._session.is_open or (not acknowledged and not is_last):
                return
            try:
                connection = await self._client.network.connection(self._node_id)
                request = self._session.acknowledge_request(
                    acknowledged, is_renewal=bool(renewed), is_last=is_last
                )
                if renewed and connection.version_of(request.api_key) < _FIRST_VERSION_WITH_RENEWAL:
                    text = f"broker {self._node_id} does not support the renewal of acquisition locks"
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
                response = await connection.request(request, ShareAcknowledgeResponse)
            except (KafkaError, OSError) as error:
                self._on_failure("ShareAcknowledge", error, acknowledged)
                return
            code = known_code(response.error_code)
            self._session.on_response(code)
            results = self._results(response, acknowledged)
            self._report(results)
            for topic_partition, ranges in (renewed or {}).items():
                # The others may be delivered to another member: their locks have expired, for example.
                if results.get(self._id_of(topic_partition)) is None:
                    self._fetched.setdefault(topic_partition, []).extend(ranges)
            if self._fetched:
                self._on_change()

    def _results(
        self, response: ShareAcknowledgeResponse, acknowledged: Acknowledgements
    ) -> dict[PartitionId, KafkaError | None]:
        if response.error_code:
            text = f"ShareAcknowledge at broker {self._node_id}"
            return dict.fromkeys(acknowledged, failure(response.error_code, text, response.error_message))
        results: dict[PartitionId, KafkaError | None] = dict.fromkeys(acknowledged)
        for topic in response.responses:
            for received in topic.partitions:
                if received.error_code:
                    text = f"acknowledgement of partition {received.partition_index} of {topic.topic_id}"
                    error = failure(received.error_code, text, received.error_message)
                    results[topic.topic_id, received.partition_index] = error
        return results

    async def close(self) -> None:
        """Stop fetching, acknowledge, and end the session."""
        if self._fetching is not None:
            await asyncio.wait([self._fetching])
        await self.acknowledge(is_last=True)

    def cancel(self) -> None:
        """Stop the requests in flight."""
        for task in (self._fetching, self._acknowledging):
            if task is not None:
                task.cancel()

    # --- inside ---------------------------------------------------------------------------

    def _take_decided(self) -> Acknowledgements:
        """Remove and return the acknowledgements; without a session they can only fail."""
        decided, self._decided = self._decided, {}
        if decided and not self._session.is_open:
            text = f"the share session at broker {self._node_id} was lost"
            self._report(dict.fromkeys(decided, KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, text)))
            return {}
        return {partition: merged(ranges) for partition, ranges in decided.items()}

    def _on_failure(self, api: str, error: Exception, acknowledged: Acknowledgements) -> None:
        """Open another session with the next request after a failure of the connection."""
        _log.info("%s at broker %d failed: %s", api, self._node_id, error)
        self._session.on_lost()
        self._client.updater.request_update()
        if not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{api} at broker {self._node_id}: {error}")
        self._report(dict.fromkeys(acknowledged, error))

    async def _back_off(self) -> None:
        await asyncio.sleep(self._client.backoff.delay_ms(0, self._client.environment.rng) / 1000)

    def _report(self, results: Mapping[PartitionId, KafkaError | None]) -> None:
        if results:
            name = self._client.metadata.topic_name
            self._on_acknowledged(
                {
                    TopicPartition(name(topic) or str(topic), index): error
                    for (topic, index), error in results.items()
                }
            )

    def _id_of(self, topic_partition: TopicPartition) -> PartitionId:
        return self._client.metadata.topic_id(topic_partition.topic), topic_partition.partition
