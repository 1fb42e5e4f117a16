"""Connections that use more than their share: endless pipelines, unread responses, bad frames (item 22)."""

from __future__ import annotations

import selectors
import socket

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.attacks.closed_connections import join_request
from tests.harness.hostile.frames import produce_frame, request_frame
from tests.harness.hostile.target import PLAIN_TOPIC
from tests.support.batches.forged_batches import valid_batch
from tests.support.network.raw_client import decode_response
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.registry import ApiKey

CONNECTIONS = 200
RECEIVE_BYTES = 262_144
GROUP_SIZE_MAX = 10


def send_repeatedly(
    context: AttackContext, sockets: list[socket.socket], pipeline: bytes, reads: bool = True
) -> int:
    """Send `pipeline` repeatedly on all connections, read the responses, and return the bytes sent."""
    selector = selectors.DefaultSelector()
    positions = dict.fromkeys(sockets, 0)
    events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
    for connection in sockets:
        connection.setblocking(False)
        selector.register(connection, events, connection)
    sent = 0
    view = memoryview(pipeline)
    while not context.has_ended:
        for key, ready in selector.select(0.1):
            connection = key.data
            try:
                if ready & selectors.EVENT_READ and not connection.recv(RECEIVE_BYTES):
                    selector.unregister(connection)
                    continue
                if ready & selectors.EVENT_WRITE:
                    count = connection.send(view[positions[connection] :])
                    positions[connection] = (positions[connection] + count) % len(pipeline)
                    sent += count
            except BlockingIOError:
                pass
            except ConnectionError:
                selector.unregister(connection)
    selector.close()
    return sent


def _pipeline_on_many_connections(context: AttackContext) -> None:
    pipeline = request_frame(ApiVersionsRequest(), 0) * 1000
    sockets = [context.connect() for _ in range(context.size(CONNECTIONS, 20))]
    context.begin()
    sent = send_repeatedly(context, sockets, pipeline)
    context.note(f"{sent // (len(pipeline) // 1000):,} requests")


def _pipeline_metadata(context: AttackContext) -> None:
    pipeline = request_frame(MetadataRequest(topics=None), 9) * 1000
    sockets = [context.connect() for _ in range(context.size(CONNECTIONS, 20))]
    context.begin()
    sent = send_repeatedly(context, sockets, pipeline)
    context.note(f"{sent // (len(pipeline) // 1000):,} requests")


def _pipeline_produce(context: AttackContext) -> None:
    pipeline = produce_frame(PLAIN_TOPIC, bytes(valid_batch(1)), partition=1) * 200
    sockets = [context.connect() for _ in range(context.size(CONNECTIONS, 20))]
    context.begin()
    sent = send_repeatedly(context, sockets, pipeline)
    context.note(f"{sent // (len(pipeline) // 200):,} requests")


def _pipeline_ten_thousand_unread(context: AttackContext) -> None:
    pipeline = request_frame(MetadataRequest(topics=None), 9) * 10_000
    sockets = [context.connect(receive_buffer_bytes=4096) for _ in range(context.size(20, 2))]
    context.begin()
    sent = send_repeatedly(context, sockets, pipeline, reads=False)
    context.note(f"{sent:,} bytes of requests were received by the broker, no response was read")


def _leave_large_fetches_unread(context: AttackContext) -> None:
    builder = BatchBuilder()
    builder.append(-1, None, bytes(1_000_000))
    produce = produce_frame(PLAIN_TOPIC, bytes(builder.build()))
    client = context.client()
    for _ in range(context.size(40, 5)):
        context.exchange(client, produce)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=40 * MEBIBYTE)
    fetch = request_frame(
        FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic=PLAIN_TOPIC, partitions=(partition,)),)
        ),
        12,
    )
    before = context.target.descriptors()
    context.begin()
    count = context.size(CONNECTIONS, 20)
    for _ in range(count):
        context.connect(receive_buffer_bytes=4096).sendall(fetch)
    context.hold()
    each = (context.target.descriptors() - before) / count
    context.note(f"{each:.1f} descriptors for each connection")
    context.expect(each < 2.5, f"an unread Fetch holds {each:.1f} descriptors")


def _send_bad_frames(context: AttackContext) -> None:
    bad = (
        b"\xff\xff\xff\xff",
        b"\0\0\0\x08\x7f\xff\0\0\0\0\0\1",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\1",
    )
    context.begin()
    number = 0
    while not context.has_ended or number < context.size(2000, 150):
        connection = context.connect()
        connection.sendall(bad[number % len(bad)])
        context.close_connection(connection)
        number += 1
    context.note(f"{number:,} bad connections")


def _join_beyond_the_group_size(context: AttackContext) -> None:
    frame = request_frame(join_request("too-large", b"x"), 3)
    context.begin()
    clients = []
    for _ in range(GROUP_SIZE_MAX * 3):
        client = context.client()
        client.send(frame)
        clients.append(client)
    # The first member forms the group; later ones wait for it, or are refused at once.
    refusals = 0
    for client in clients[1:]:
        if client.has_response(0.2):
            response = client.receive()
            if response is not None:
                join_response = decode_response(ApiKey.JOIN_GROUP, 3, bytes(response))
                assert isinstance(join_response, JoinGroupResponse)
                refusals += join_response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    context.note(f"{refusals} of {len(clients)} members refused")
    context.expect(
        refusals >= len(clients) - GROUP_SIZE_MAX,
        f"only {refusals} of {len(clients)} pending members refused with group.max.size={GROUP_SIZE_MAX}",
    )


ATTACKS = (
    Attack(
        name="pipelines-of-200-connections",
        item="22",
        actions="200 connections send ApiVersions without pause",
        run=_pipeline_on_many_connections,
    ),
    Attack(
        name="metadata-pipelines-of-200-connections",
        item="22",
        actions="200 connections send Metadata for all topics without pause",
        run=_pipeline_metadata,
    ),
    Attack(
        name="produce-pipelines-of-200-connections",
        item="22",
        actions="200 connections send Produce without pause",
        run=_pipeline_produce,
    ),
    Attack(
        name="pipelines-without-reading",
        item="corpus",
        actions="20 connections pipeline 10,000 Metadata each and read nothing",
        run=_pipeline_ten_thousand_unread,
    ),
    Attack(
        name="unread-large-fetches",
        item="22",
        actions="200 connections fetch 40 MB and read nothing",
        run=_leave_large_fetches_unread,
        memory_mib=128,
    ),
    Attack(
        name="bad-frames-of-many-connections",
        item="22",
        actions="2,000 connections send an invalid frame and close",
        run=_send_bad_frames,
    ),
    Attack(
        name="members-beyond-the-group-size",
        item="22",
        actions="30 members wait in JoinGroup of a group that may have 10",
        run=_join_beyond_the_group_size,
        settings={"group.max.size": str(GROUP_SIZE_MAX), "group.initial.rebalance.delay.ms": "3000"},
        is_short=False,
    ),
)
