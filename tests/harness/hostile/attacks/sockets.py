"""Connections that are incomplete, slow, too many, or declare bytes that they never send (corpus)."""

from __future__ import annotations

import errno
import socket
import struct
import time

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import prefix_with_size, request_frame
from tidelog.protocol.messages.api_versions import ApiVersionsRequest

CONNECTIONS = 1000
SIMULTANEOUS_CONNECTIONS = 2000
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
BYTE_PAUSE_S = 0.2
CLAIMED_BYTES = 100 * MEBIBYTE


def _stay_half_open(context: AttackContext) -> None:
    beginnings = (b"", b"\0", b"\0\0\0", b"\0\0\1\0", b"\0\0\1\0\0\x12")
    context.begin()
    for number in range(context.size(CONNECTIONS, 20)):
        connection = context.connect()
        connection.sendall(beginnings[number % len(beginnings)])
    context.hold()


def _send_slowly(context: AttackContext) -> None:
    frame = request_frame(ApiVersionsRequest(), 0)
    context.begin()
    sockets = [context.connect() for _ in range(context.size(CONNECTIONS, 20))]
    position = 0
    while not context.has_ended:
        for connection in sockets:
            connection.sendall(frame[position : position + 1])
        position = (position + 1) % len(frame)
        time.sleep(BYTE_PAUSE_S * context.scale)


def _connect_all_at_once(context: AttackContext) -> None:
    """Open all connections at once; each sends a request when it is accepted."""
    frame = request_frame(ApiVersionsRequest(), 0)
    count = context.size(SIMULTANEOUS_CONNECTIONS, 50)
    sockets = []
    context.begin()
    started_s = time.monotonic()
    for _ in range(count):
        connection = socket.socket()
        connection.setblocking(False)
        result = connection.connect_ex(context.target.address)
        assert result in (0, errno.EINPROGRESS), errno.errorcode.get(result, result)
        sockets.append(connection)
    failures = 0
    try:
        for connection in sockets:
            connection.settimeout(20)
            try:
                connection.sendall(frame)
            except OSError:
                failures += 1
        for connection in sockets:
            try:
                failures += not connection.recv(4096)
            except OSError:
                failures += 1
        elapsed = time.monotonic() - started_s
    finally:
        for connection in sockets:
            connection.close()
    context.note(f"{count} connections served in {elapsed:.2f} s, {failures} failed")
    context.expect(not failures, f"{failures} of {count} connections were reset or not served")


def _connect_and_reset(context: AttackContext) -> None:
    frame = request_frame(ApiVersionsRequest(), 0)
    context.begin()
    count = 0
    while not context.has_ended:
        connection = context.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.sendall(frame[: count % len(frame)] if count % 2 else frame * 20)
        context.close_connection(connection)
        count += 1
    context.note(f"{count:,} connections reset")


def _claim_large_frames(context: AttackContext) -> None:
    """Declare frames of the largest size and send only a part of them."""
    claim = struct.pack(">i", CLAIMED_BYTES) + bytes(10_000)
    context.begin()
    for _ in range(context.size(500, 20)):
        context.connect().sendall(claim)
    context.hold()


def _send_oversized_frames(context: AttackContext) -> None:
    sizes = (2**31 - 1, CLAIMED_BYTES + 1, -1, -(2**31), 0, 1, 7)
    context.begin()
    count = 0
    while not context.has_ended:
        connection = context.connect()
        connection.sendall(struct.pack(">i", sizes[count % len(sizes)]) + b"\0\x12\0\0\0\0\0\1")
        connection.settimeout(5)
        try:
            while connection.recv(4096):
                pass
        except TimeoutError:
            context.expect(False, f"a frame of size {sizes[count % len(sizes)]} does not end the connection")
            return
        except ConnectionError:
            pass
        context.close_connection(connection)
        count += 1
    context.note(f"{count:,} frames refused")


def _send_frames_of_garbage(context: AttackContext) -> None:
    frame = prefix_with_size(b"\xff" * MEBIBYTE)
    client = context.client()
    context.begin()
    context.repeat(frame, client)


ATTACKS = (
    Attack(
        name="half-open-connections",
        item="corpus",
        actions="1,000 connections send nothing or a part of a frame",
        run=_stay_half_open,
    ),
    Attack(
        name="slow-senders",
        item="corpus",
        actions="1,000 connections send a byte at a time",
        run=_send_slowly,
    ),
    Attack(
        name="simultaneous-connections",
        item="11",
        actions="2,000 connections are opened at once",
        run=_connect_all_at_once,
    ),
    Attack(
        name="connect-and-reset",
        item="corpus",
        actions="connections are reset in the middle of a request or of its response, one after the other",
        run=_connect_and_reset,
    ),
    Attack(
        name="claimed-frames",
        item="corpus",
        actions="500 connections claim a frame of 100 MiB and send 10 kB of it",
        run=_claim_large_frames,
        memory_mib=128,
    ),
    Attack(
        name="impossible-frame-sizes",
        item="corpus",
        actions="frames whose size is negative, zero, tiny, or above the limit",
        run=_send_oversized_frames,
    ),
    Attack(
        name="garbage-frames",
        item="corpus",
        actions="frames of 1 MiB of 0xff",
        run=_send_frames_of_garbage,
    ),
)
