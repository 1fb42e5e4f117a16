"""AddOffsetsToTxn (key 25), versions 0-4: add the offsets of a group to a transaction.

- 2: PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH (KIP-588)
- 4: TRANSACTION_ABORTABLE (KIP-890)

The partition of `__consumer_offsets` that stores the group is added to the transaction. Producers with
transaction.version 2 do not send this request: TxnOffsetCommit adds the partition. Unlike in Kafka, the
partition must be in this broker's metadata: otherwise it would be treated as deleted at the end, and get no
marker.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.api.handlers.fencing import fencing_error
from tidelog.broker.api.handlers.find_coordinator import InternalTopics
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

PRODUCER_FENCED_FROM_VERSION = 2
_CLIENT_TRANSACTION_VERSION = 0


class AddOffsetsToTxnHandler:
    """Adds the partition of a group; `partition_of_group` returns its number in `__consumer_offsets`."""

    def __init__(
        self,
        transactions: TransactionService,
        partition_of_group: Callable[[str], int],
        image: Callable[[], MetadataImage],
        internal_topics: InternalTopics,
    ) -> None:
        self._transactions = transactions
        self._partition_of_group = partition_of_group
        self._image = image
        self._internal_topics = internal_topics

    async def handle(
        self, context: RequestContext, request: AddOffsetsToTxnRequest
    ) -> AddOffsetsToTxnResponse:
        """Add the partition. The error is COORDINATOR_NOT_AVAILABLE until the partition exists."""
        partition = TopicPartition(GROUP_METADATA_TOPIC, self._partition_of_group(request.group_id))
        topic = self._image().topics_by_name.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            self._internal_topics.ensure(partition.topic)
            return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            await self._transactions.add_partitions(
                request.transactional_id,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                (partition,),
                _CLIENT_TRANSACTION_VERSION,
            )
        except KafkaError as error:
            version = context.header.api_version
            code = fencing_error(error.code, version, PRODUCER_FENCED_FROM_VERSION)
            return AddOffsetsToTxnResponse(error_code=code)
        return AddOffsetsToTxnResponse()
