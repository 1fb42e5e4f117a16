"""Connections that close, or stay idle, while a request of theirs waits (item 14)."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.attacks.parked_fetches import parked_fetch
from tests.harness.hostile.frames import FOREVER_MS, request_frame
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

RECEIVE_BUFFER_BYTES = 8192, 16_384, 65_536
"""Sizes at which a frame may fill a receive buffer exactly."""
IDLE_MS = 1500
IDLE_TIMEOUT_S = 10.0


def _close_behind_a_full_buffer(context: AttackContext) -> None:
    overhead = len(parked_fetch(1, padding=b"x" * 4096)) - 4096
    frames = [
        parked_fetch(1, padding=b"x" * (size - overhead + extra))
        for size in RECEIVE_BUFFER_BYTES
        for extra in (-4, -3, -2, 0, 2, 4, 4096)
    ]
    count = context.size(500, 42)
    context.begin()
    clients = [context.client() for _ in range(count)]
    for number, client in enumerate(clients):
        client.send(frames[number % len(frames)])
    context.hold()
    context.disconnect_all()


def join_request(group: str, metadata: bytes, protocols: int = 1) -> JoinGroupRequest:
    """Return a request of a new member that waits for others for the maximum time."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=FOREVER_MS,
        member_id="",
        protocol_type="consumer",
        protocols=tuple(
            JoinGroupRequestProtocol(name=f"range-{number}", metadata=metadata) for number in range(protocols)
        ),
    )


def park_joins(context: AttackContext, count: int, frame: bytes) -> Sequence[socket.socket]:
    """Send a JoinGroup on `count` connections; the first member never joins again, so the rest wait."""
    sockets = []
    for _ in range(count):
        connection = context.connect()
        connection.sendall(frame)
        sockets.append(connection)
    return sockets


def _close_while_joining(context: AttackContext) -> None:
    # Version 3 admits a member without an id at once, so that each of them waits.
    frame = request_frame(join_request("closed-while-joining", b"x"), 3)
    context.begin()
    park_joins(context, context.size(400, 20), frame)
    context.hold()
    context.disconnect_all()


def _stay_idle_with_a_parked_fetch(context: AttackContext) -> None:
    partition = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=FOREVER_MS, min_bytes=1, topics=(FetchTopic(topic="plain", partitions=(partition,)),)
    )
    fetch, join = request_frame(request, 12), request_frame(join_request("idle", b"x"), 3)
    context.begin()
    fetching = [context.connect() for _ in range(context.size(50, 3))]
    for connection in fetching:
        connection.sendall(fetch)
    joining = park_joins(context, context.size(50, 3), join)
    for name, sockets in (("Fetch", fetching), ("JoinGroup", joining[1:])):
        left = _count_open(sockets, IDLE_TIMEOUT_S)
        context.expect(not left, f"{left} of {len(sockets)} idle connections with a parked {name} stay open")


def _count_open(sockets: Sequence[socket.socket], timeout_s: float) -> int:
    """Return the number of sockets that the broker has not closed when the time has ended."""
    left = set(sockets)
    selector = selectors.DefaultSelector()
    for connection in sockets:
        selector.register(connection, selectors.EVENT_READ, connection)
    deadline = time.monotonic() + timeout_s
    while left and time.monotonic() < deadline:
        for key, _ in selector.select(0.1):
            connection = key.data
            try:
                is_open = bool(connection.recv(65_536))
            except ConnectionError:
                is_open = False
            if not is_open:
                left.discard(connection)
                selector.unregister(connection)
    selector.close()
    return len(left)


ATTACKS = (
    Attack(
        name="closed-behind-a-full-buffer",
        item="14",
        actions="500 Fetches that fill the receive buffer exactly wait for weeks; their connections close",
        run=_close_behind_a_full_buffer,
    ),
    Attack(
        name="closed-while-joining",
        item="14",
        actions="400 members wait in JoinGroup, and their connections close",
        run=_close_while_joining,
    ),
    Attack(
        name="idle-with-a-parked-request",
        item="14",
        actions="100 connections wait in Fetch and JoinGroup longer than connections.max.idle.ms",
        run=_stay_idle_with_a_parked_fetch,
        settings={"connections.max.idle.ms": str(IDLE_MS)},
        is_short=False,
    ),
)
