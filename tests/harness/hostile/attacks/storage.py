"""Topics whose configs make files numerous or slow, and configs that contain host names (review)."""

from __future__ import annotations

from collections import Counter

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import produce_frame, request_frame
from tests.support.batches.forged_batches import now_ms, valid_batch
from tests.support.network.raw_client import RawClient
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

OPEN_FILES_MAX = 400
PIPELINED = 50
BROKER_RESOURCE = 4
READ_COMMITTED = 1


def _append_batches(client: RawClient, topic: str, count: int) -> None:
    frame = produce_frame(topic, bytes(valid_batch(1)))
    for _ in range(-(-count // PIPELINED)):
        client.send(frame * PIPELINED)
        for _ in range(PIPELINED):
            client.receive()


def _roll_segments_without_end(context: AttackContext) -> None:
    """Produce batches, each of which gets a new segment and so a descriptor."""
    context.target.create_topic("segmented", 1, {"segment.ms": "1", "segment.jitter.ms": "0"})
    client = context.client()
    context.begin()
    codes: Counter[str] = Counter()
    for number in range(context.size(1500, 10)):
        builder = BatchBuilder()
        builder.append(now_ms() - 1_000_000 + 10 * number, None, b"x")
        data = (PartitionProduceData(index=0, records=bytes(builder.build())),)
        topic = TopicProduceData(name="segmented", partition_data=data)
        request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=(topic,))
        response = client.send_request(request, 9, ProduceResponse).responses[0].partition_responses[0]
        codes[ErrorCode(response.error_code).name] += 1
    context.note(f"{dict(codes)}, {context.target.descriptors()} descriptors")
    context.disconnect_all()
    context.expect_topic_creation()


def _read_behind_a_sparse_index(context: AttackContext) -> None:
    """Read at the end of a segment without index entries, which scans every batch before it."""
    context.target.create_topic("sparse", 1, {"index.interval.bytes": str(2**31 - 1)})
    client = context.client()
    count = context.size(50_000, 200)
    _append_batches(client, "sparse", count)
    partition = FetchPartition(partition=0, fetch_offset=count - 1, partition_max_bytes=1)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic="sparse", partitions=(partition,)),)
    )
    search = ListOffsetsRequest(
        replica_id=-1,
        topics=(
            ListOffsetsTopic(
                name="sparse",
                partitions=(ListOffsetsPartition(partition_index=0, timestamp=now_ms() - 1),),
            ),
        ),
    )
    context.begin()
    for request, version in ((fetch, 12), (search, 7)):
        context.repeat(request_frame(request, version), client)


def _name_hosts_in_configs(context: AttackContext) -> None:
    """Set limits of connections for hosts, whose addresses the broker resolves."""
    hosts = ",".join(f"host-{number}.invalid:5" for number in range(context.size(200, 3)))
    config = AlterableConfig(name="max.connections.per.ip.overrides", config_operation=0, value=hosts)
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    client = context.client()
    context.begin()
    response = client.send_request(request, 1, IncrementalAlterConfigsResponse).responses[0]
    context.note(f"{ErrorCode(response.error_code).name}: {(response.error_message or '')[:100]}")
    context.repeat(request_frame(request, 1), client)


def _abort_many_transactions(context: AttackContext) -> None:
    """Fetch with read_committed; the response names every aborted transaction of the range."""
    context.target.create_topic("aborted", 1)
    client = context.client()
    init = InitProducerIdRequest(
        transactional_id="aborting", transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    producer = client.send_request(init, 4, InitProducerIdResponse)
    epoch = producer.producer_epoch
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="aborting",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="aborted", partitions=(0,)),),
    )
    end = EndTxnRequest(
        transactional_id="aborting",
        producer_id=producer.producer_id,
        producer_epoch=epoch,
        committed=False,
    )
    count = context.size(500, 3)
    for number in range(count):
        builder = BatchBuilder(
            producer=BatchProducer(
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                base_sequence=number,
                is_transactional=True,
            )
        )
        builder.append(-1, None, b"x")
        data = (PartitionProduceData(index=0, records=bytes(builder.build())),)
        produce = ProduceRequest(
            transactional_id="aborting",
            acks=-1,
            timeout_ms=30_000,
            topic_data=(TopicProduceData(name="aborted", partition_data=data),),
        )
        for request, version in ((add, 3), (produce, 9), (end, 3)):
            if context.exchange(client, request_frame(request, version)) is None:
                context.expect(False, f"transaction {number} ended the connection")
                return
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MEBIBYTE)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=READ_COMMITTED,
        topics=(FetchTopic(topic="aborted", partitions=(partition,)),),
    )
    context.begin()
    response = context.exchange(client, request_frame(fetch, 12))
    context.note(f"{count} transactions, {len(response or b''):,} bytes of response")
    context.repeat(request_frame(fetch, 12), client)


ATTACKS = (
    Attack(
        name="segments-without-end",
        item="review",
        actions="a topic with segment.ms=1 gets 1,500 batches, with 400 descriptors",
        run=_roll_segments_without_end,
        open_files_max=OPEN_FILES_MAX,
        descriptors_kept=OPEN_FILES_MAX,
        log_lines_max=200,
        is_short=False,
    ),
    Attack(
        name="sparse-index",
        item="review",
        actions="Fetch and ListOffsets at the end of 50,000 batches that have no index entry",
        run=_read_behind_a_sparse_index,
    ),
    Attack(
        name="host-names-in-configs",
        item="review",
        actions="IncrementalAlterConfigs with limits of connections for 200 hosts that do not exist",
        run=_name_hosts_in_configs,
    ),
    Attack(
        name="aborted-transactions",
        item="review",
        actions="read_committed Fetches over 500 aborted transactions",
        run=_abort_many_transactions,
    ),
)
