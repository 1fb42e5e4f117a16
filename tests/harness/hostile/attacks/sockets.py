"""Connections that are incomplete, slow, too many, or declare bytes that they never send (corpus)."""

from __future__ import annotations

import errno
import socket
import struct
import time

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.frames import framed, sized
from tidelog.protocol.messages.api_versions import ApiVersionsRequest

CONNECTIONS = 1000
STORM = 2000
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
BYTE_PAUSE_S = 0.2
CLAIMED_BYTES = 100 * MEBIBYTE


def _stay_half_open(scene: Scene) -> None:
    beginnings = (b"", b"\0", b"\0\0\0", b"\0\0\1\0", b"\0\0\1\0\0\x12")
    scene.begin()
    for number in range(scene.size(CONNECTIONS, 20)):
        connected = scene.connect()
        connected.sendall(beginnings[number % len(beginnings)])
    scene.hold()


def _send_slowly(scene: Scene) -> None:
    frame = framed(ApiVersionsRequest(), 0)
    scene.begin()
    sockets = [scene.connect() for _ in range(scene.size(CONNECTIONS, 20))]
    position = 0
    while not scene.is_over:
        for connected in sockets:
            connected.sendall(frame[position : position + 1])
        position = (position + 1) % len(frame)
        time.sleep(BYTE_PAUSE_S * scene.scale)


def _storm(scene: Scene) -> None:
    """Open all connections at once; each sends a request as soon as it is accepted."""
    frame = framed(ApiVersionsRequest(), 0)
    count = scene.size(STORM, 50)
    sockets = []
    scene.begin()
    started = time.monotonic()
    for _ in range(count):
        connected = socket.socket()
        connected.setblocking(False)
        result = connected.connect_ex(scene.target.address)
        assert result in (0, errno.EINPROGRESS), errno.errorcode.get(result, result)
        sockets.append(connected)
    failed = 0
    try:
        for connected in sockets:
            connected.settimeout(20)
            try:
                connected.sendall(frame)
            except OSError:
                failed += 1
        for connected in sockets:
            try:
                failed += not connected.recv(4096)
            except OSError:
                failed += 1
        elapsed = time.monotonic() - started
    finally:
        for connected in sockets:
            connected.close()
    scene.note(f"{count} connections served in {elapsed:.2f} s, {failed} failed")
    scene.expect(not failed, f"{failed} of {count} connections were reset or not served")


def _connect_and_reset(scene: Scene) -> None:
    frame = framed(ApiVersionsRequest(), 0)
    scene.begin()
    count = 0
    while not scene.is_over:
        connected = scene.connect()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connected.sendall(frame[: count % len(frame)] if count % 2 else frame * 20)
        scene.drop(connected)
        count += 1
    scene.note(f"{count:,} connections reset")


def _claim_large_frames(scene: Scene) -> None:
    """Declare frames of the largest size and send only a part of them."""
    claim = struct.pack(">i", CLAIMED_BYTES) + bytes(10_000)
    scene.begin()
    for _ in range(scene.size(500, 20)):
        scene.connect().sendall(claim)
    scene.hold()


def _send_oversized_frames(scene: Scene) -> None:
    sizes = (2**31 - 1, CLAIMED_BYTES + 1, -1, -(2**31), 0, 1, 7)
    scene.begin()
    count = 0
    while not scene.is_over:
        connected = scene.connect()
        connected.sendall(struct.pack(">i", sizes[count % len(sizes)]) + b"\0\x12\0\0\0\0\0\1")
        connected.settimeout(5)
        try:
            while connected.recv(4096):
                pass
        except TimeoutError:
            scene.expect(False, f"a frame of size {sizes[count % len(sizes)]} does not end the connection")
            return
        except ConnectionError:
            pass
        scene.drop(connected)
        count += 1
    scene.note(f"{count:,} frames refused")


def _send_frames_of_garbage(scene: Scene) -> None:
    frame = sized(b"\xff" * MEBIBYTE)
    client = scene.client()
    scene.begin()
    scene.repeat(frame, client)


ATTACKS = (
    Attack(
        name="half-open-connections",
        item="corpus",
        does="1,000 connections send nothing or a part of a frame",
        run=_stay_half_open,
    ),
    Attack(
        name="slow-senders",
        item="corpus",
        does="1,000 connections send a byte at a time",
        run=_send_slowly,
    ),
    Attack(
        name="connect-storm",
        item="11",
        does="2,000 connections begin at once",
        run=_storm,
    ),
    Attack(
        name="connect-and-reset",
        item="corpus",
        does="connections are reset in the middle of a request or of its response, one after the other",
        run=_connect_and_reset,
    ),
    Attack(
        name="claimed-frames",
        item="corpus",
        does="500 connections claim a frame of 100 MiB and send 10 kB of it",
        run=_claim_large_frames,
        memory_mib=128,
    ),
    Attack(
        name="impossible-frame-sizes",
        item="corpus",
        does="frames whose size is negative, zero, tiny, or above the limit",
        run=_send_oversized_frames,
    ),
    Attack(
        name="garbage-frames",
        item="corpus",
        does="frames of 1 MiB of 0xff",
        run=_send_frames_of_garbage,
    ),
)
