"""Connections that use more than their share: endless pipelines, unread responses, bad frames (item 22)."""

from __future__ import annotations

import selectors
import socket

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.attacks.closed_connections import join_request
from tests.harness.hostile.frames import framed
from tests.harness.hostile.target import PLAIN_TOPIC
from tests.support.batches.forged_batches import valid_batch
from tests.support.network.raw_client import decoded_answer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.record import BatchBuilder
from tidelog.protocol.registry import ApiKey

CONNECTIONS = 200
RECEIVE_BYTES = 262_144
GROUP_SIZE_MAX = 10


def pump(scene: Scene, sockets: list[socket.socket], requests: bytes, reads: bool = True) -> int:
    """Send `requests` on every connection and read the responses; return the number of bytes sent."""
    selector = selectors.DefaultSelector()
    positions = dict.fromkeys(sockets, 0)
    events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
    for connected in sockets:
        connected.setblocking(False)
        selector.register(connected, events, connected)
    sent = 0
    view = memoryview(requests)
    while not scene.is_over:
        for key, ready in selector.select(0.1):
            connected = key.data
            try:
                if ready & selectors.EVENT_READ and not connected.recv(RECEIVE_BYTES):
                    selector.unregister(connected)
                    continue
                if ready & selectors.EVENT_WRITE:
                    count = connected.send(view[positions[connected] :])
                    positions[connected] = (positions[connected] + count) % len(requests)
                    sent += count
            except BlockingIOError:
                pass
            except ConnectionError:
                selector.unregister(connected)
    selector.close()
    return sent


def _pipeline_on_many_connections(scene: Scene) -> None:
    requests = framed(ApiVersionsRequest(), 0) * 1000
    sockets = [scene.connect() for _ in range(scene.size(CONNECTIONS, 20))]
    scene.begin()
    sent = pump(scene, sockets, requests)
    scene.note(f"{sent // (len(requests) // 1000):,} requests")


def _pipeline_metadata(scene: Scene) -> None:
    requests = framed(MetadataRequest(topics=None), 9) * 1000
    sockets = [scene.connect() for _ in range(scene.size(CONNECTIONS, 20))]
    scene.begin()
    sent = pump(scene, sockets, requests)
    scene.note(f"{sent // (len(requests) // 1000):,} requests")


def _pipeline_produce(scene: Scene) -> None:
    data = (PartitionProduceData(index=1, records=bytes(valid_batch(1))),)
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=PLAIN_TOPIC, partition_data=data),)
    )
    requests = framed(request, 9) * 200
    sockets = [scene.connect() for _ in range(scene.size(CONNECTIONS, 20))]
    scene.begin()
    sent = pump(scene, sockets, requests)
    scene.note(f"{sent // (len(requests) // 200):,} requests")


def _pipeline_ten_thousand_unread(scene: Scene) -> None:
    requests = framed(MetadataRequest(topics=None), 9) * 10_000
    sockets = [scene.connect(receive_buffer_bytes=4096) for _ in range(scene.size(20, 2))]
    scene.begin()
    sent = pump(scene, sockets, requests, reads=False)
    scene.note(f"{sent:,} bytes of requests were received by the broker, no response was read")


def _leave_large_fetches_unread(scene: Scene) -> None:
    builder = BatchBuilder()
    builder.append(-1, None, bytes(1_000_000))
    data = (PartitionProduceData(index=0, records=bytes(builder.build())),)
    produce = framed(
        ProduceRequest(
            acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=PLAIN_TOPIC, partition_data=data),)
        ),
        9,
    )
    client = scene.client()
    for _ in range(scene.size(40, 5)):
        scene.exchange(client, produce)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=40 * MEBIBYTE)
    fetch = framed(
        FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic=PLAIN_TOPIC, partitions=(partition,)),)
        ),
        12,
    )
    before = scene.target.descriptors()
    scene.begin()
    count = scene.size(CONNECTIONS, 20)
    for _ in range(count):
        scene.connect(receive_buffer_bytes=4096).sendall(fetch)
    scene.hold()
    each = (scene.target.descriptors() - before) / count
    scene.note(f"{each:.1f} descriptors for each connection")
    scene.expect(each < 2.5, f"an unread Fetch holds {each:.1f} descriptors")


def _send_bad_frames(scene: Scene) -> None:
    bad = (
        b"\xff\xff\xff\xff",
        b"\0\0\0\x08\x7f\xff\0\0\0\0\0\1",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\1",
    )
    scene.begin()
    number = 0
    while not scene.is_over or number < scene.size(2000, 150):
        connected = scene.connect()
        connected.sendall(bad[number % len(bad)])
        scene.drop(connected)
        number += 1
    scene.note(f"{number:,} bad connections")


def _join_beyond_the_group_size(scene: Scene) -> None:
    frame = framed(join_request("too-large", b"x"), 3)
    scene.begin()
    clients = []
    for _ in range(GROUP_SIZE_MAX * 3):
        client = scene.client()
        client.send(frame)
        clients.append(client)
    # The first member forms the group; later ones wait for it, or are refused at once.
    refused = 0
    for client in clients[1:]:
        if client.has_response(0.2):
            response = client.receive()
            if response is not None:
                answer = decoded_answer(ApiKey.JOIN_GROUP, 3, bytes(response))
                assert isinstance(answer, JoinGroupResponse)
                refused += answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    scene.note(f"{refused} of {len(clients)} members refused")
    scene.expect(
        refused >= len(clients) - GROUP_SIZE_MAX,
        f"only {refused} of {len(clients)} pending members refused with group.max.size={GROUP_SIZE_MAX}",
    )


ATTACKS = (
    Attack(
        name="pipelines-of-200-connections",
        item="22",
        does="200 connections send ApiVersions without pause",
        run=_pipeline_on_many_connections,
    ),
    Attack(
        name="metadata-pipelines-of-200-connections",
        item="22",
        does="200 connections send Metadata for all topics without pause",
        run=_pipeline_metadata,
    ),
    Attack(
        name="produce-pipelines-of-200-connections",
        item="22",
        does="200 connections send Produce without pause",
        run=_pipeline_produce,
    ),
    Attack(
        name="pipelines-without-reading",
        item="corpus",
        does="20 connections pipeline 10,000 Metadata each and read nothing",
        run=_pipeline_ten_thousand_unread,
    ),
    Attack(
        name="unread-large-fetches",
        item="22",
        does="200 connections fetch 40 MB and read nothing",
        run=_leave_large_fetches_unread,
        memory_mib=128,
    ),
    Attack(
        name="bad-frames-of-many-connections",
        item="22",
        does="2,000 connections send an invalid frame and close",
        run=_send_bad_frames,
    ),
    Attack(
        name="members-beyond-the-group-size",
        item="22",
        does="30 members wait in JoinGroup of a group that may have 10",
        run=_join_beyond_the_group_size,
        settings={"group.max.size": str(GROUP_SIZE_MAX), "group.initial.rebalance.delay.ms": "3000"},
        is_short=False,
    ),
)
