"""Frames in arbitrary chunks, valid views, and memory in proportion to received bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.network.memory import SpareMemory
from tidelog.broker.network.receive_buffer import (
    FIRST_BYTES,
    GRANT_BYTES,
    MAPPED_BYTES,
    NORMAL_BYTES,
    READ_BYTES_MAX,
    InvalidFrameError,
    ReceiveBuffer,
)

MEBIBYTE = 1024 * 1024


def frame_of(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def buffer_of(frame_bytes_max: int = 100 * MEBIBYTE, spare_bytes: int = 0) -> ReceiveBuffer:
    return ReceiveBuffer(frame_bytes_max, SpareMemory(spare_bytes))


def feed(buffer: ReceiveBuffer, data: bytes) -> int:
    """Receive the part of `data` that fits; return its length."""
    room = buffer.writable()
    count = min(len(room), len(data))
    room[:count] = data[:count]
    buffer.on_received(count)
    return count


def test_one_read_is_bounded_whatever_the_size_of_the_frame() -> None:
    buffer = buffer_of(spare_bytes=64 * MEBIBYTE)
    data = frame_of(bytes(20 * MEBIBYTE))
    position, reads = 0, []
    while position < len(data):
        reads.append(feed(buffer, data[position:]))
        position += reads[-1]
    assert max(reads) == READ_BYTES_MAX
    assert buffer.next_frame() == data[4:]


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(
        st.one_of(st.integers(0, 300), st.integers(0, 20_000), st.integers(0, 400_000)), max_size=12
    ),
    piece=st.one_of(st.integers(1, 50), st.integers(1_000, 300_000)),
    spare=st.sampled_from([0, 200_000, 64 * MEBIBYTE]),
    hold=st.booleans(),
)
def test_frames_are_received_in_any_chunks(sizes: list[int], piece: int, spare: int, hold: bool) -> None:
    piece = max(piece, sum(sizes) // 2_000)
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    stream = b"".join(frame_of(body) for body in bodies)
    buffer = buffer_of(spare_bytes=spare)
    frames: list[bytes] = []
    position = 0
    while position < len(stream) or buffer.has_frame():
        if position < len(stream):
            position += feed(buffer, stream[position : position + piece])
        frame = buffer.next_frame()
        if frame is None:
            continue
        if hold:
            while position < len(stream) and not buffer.is_full:
                position += feed(buffer, stream[position : position + piece])
        frames.append(bytes(frame))
        buffer.release()
    assert frames == bodies


def test_large_frame_at_the_end_of_a_full_buffer_is_received_without_spare_memory() -> None:
    """No memory may be allocated for the frame, so only handled frames before it free space."""
    buffer = buffer_of(spare_bytes=200_000)
    bodies = [bytes(size) for size in (92_432, 866, 5_733, 7_281, 222_516)]
    stream = b"".join(frame_of(body) for body in bodies)
    position = 0
    for body in bodies:
        while not buffer.has_frame():
            count = feed(buffer, stream[position : position + 314])
            assert count, f"the buffer has no room after {position} bytes"
            position += count
        assert buffer.next_frame() == body
        buffer.release()


def test_a_frame_in_use_stays_valid_while_more_is_received() -> None:
    buffer = buffer_of()
    feed(buffer, frame_of(b"first") + frame_of(b"second")[:3])
    frame = buffer.next_frame()
    assert frame is not None
    frame[0:1] = b"F"
    while not buffer.is_full:
        feed(buffer, b"x" * 1000)
    assert bytes(frame) == b"First"
    assert len(buffer.writable()) == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_negative_or_oversized_frame_is_refused_before_any_allocation(size: int) -> None:
    buffer = buffer_of(frame_bytes_max=1000)
    feed(buffer, struct.pack(">i", size))
    with pytest.raises(InvalidFrameError, match=str(size)):
        buffer.next_frame()
    with pytest.raises(InvalidFrameError):
        buffer.frame_bytes()
    assert buffer.has_frame()
    assert buffer.capacity_bytes == FIRST_BYTES


def test_a_frame_of_the_maximum_size_is_allowed() -> None:
    buffer = buffer_of(frame_bytes_max=1000)
    feed(buffer, frame_of(bytes(1000)))
    frame = buffer.next_frame()
    assert frame is not None
    assert len(frame) == 1000


def test_an_announced_size_allocates_at_most_the_grant() -> None:
    buffer = buffer_of()
    feed(buffer, struct.pack(">i", 100 * MEBIBYTE))
    buffer.writable()
    assert buffer.capacity_bytes <= 2 * 4 + GRANT_BYTES


def test_the_buffer_is_at_most_twice_the_received_bytes_plus_the_grant() -> None:
    buffer = buffer_of()
    claimed = 8 * MEBIBYTE
    stream = frame_of(bytes(claimed))
    position, copies, capacity = 0, 0, 0
    while position < len(stream):
        position += feed(buffer, stream[position : position + 7_000])
        assert buffer.capacity_bytes <= max(FIRST_BYTES, 2 * position + GRANT_BYTES)
        copies += buffer.capacity_bytes != capacity
        capacity = buffer.capacity_bytes
    assert buffer.capacity_bytes == len(stream)
    assert copies <= 10, "growing by doubling needs few copies"
    assert buffer.next_frame() is not None


def test_free_memory_gives_a_large_frame_its_buffer_at_once() -> None:
    spare = SpareMemory(3 * MEBIBYTE)
    first, second = ReceiveBuffer(100 * MEBIBYTE, spare), ReceiveBuffer(100 * MEBIBYTE, spare)
    for buffer in (first, second):
        feed(buffer, struct.pack(">i", 2 * MEBIBYTE))
        buffer.writable()
    assert first.capacity_bytes >= 2 * MEBIBYTE
    assert second.capacity_bytes <= 8 + GRANT_BYTES
    first.discard()
    assert spare.try_take(3 * MEBIBYTE)


def test_a_buffer_for_large_frames_is_kept_only_with_free_memory() -> None:
    spare = SpareMemory(4 * MEBIBYTE)
    kept, dropped = ReceiveBuffer(100 * MEBIBYTE, spare), buffer_of()
    for buffer in (kept, dropped):
        stream = frame_of(bytes(MEBIBYTE))
        while stream:
            stream = stream[feed(buffer, stream) :]
        assert buffer.next_frame() is not None
        buffer.release()
        buffer.writable()
    assert kept.capacity_bytes >= MEBIBYTE
    assert dropped.capacity_bytes <= NORMAL_BYTES
    kept.shrink()
    assert kept.capacity_bytes == 0
    assert spare.try_take(4 * MEBIBYTE)


def test_a_frame_larger_than_the_kept_buffer_gets_a_buffer() -> None:
    spare = SpareMemory(3 * MEBIBYTE)
    buffer = ReceiveBuffer(100 * MEBIBYTE, spare)
    for size in (MEBIBYTE, 2 * MEBIBYTE + 5, 3 * MEBIBYTE + 1, 100, 200_000):
        stream = frame_of(bytes(size))
        while stream:
            stream = stream[feed(buffer, stream) :]
        frame = buffer.next_frame()
        assert frame is not None
        assert len(frame) == size
        buffer.release()
    buffer.discard()
    assert spare.try_take(3 * MEBIBYTE)


def test_shrinking_keeps_received_bytes() -> None:
    buffer = buffer_of()
    feed(buffer, frame_of(b"whole")[:6])
    buffer.shrink()
    feed(buffer, frame_of(b"whole")[6:])
    frame = buffer.next_frame()
    assert frame is not None
    buffer.shrink()
    assert bytes(frame) == b"whole"


@pytest.mark.parametrize("size", [10, NORMAL_BYTES, 4 * MEBIBYTE])
@pytest.mark.parametrize("behind", [b"", b"\0\0"])
def test_a_released_frame_leaves_little_memory(size: int, behind: bytes) -> None:
    buffer = buffer_of(spare_bytes=64 * MEBIBYTE)
    stream, position = frame_of(bytes(size)) + behind, 0
    while not buffer.has_frame():
        position += feed(buffer, stream[position:])
    assert buffer.next_frame() is not None
    buffer.drop_frame()
    assert buffer.capacity_bytes <= NORMAL_BYTES
    assert not buffer.is_full
    feed(buffer, stream[position:] + frame_of(b"next")[len(behind) :])
    buffer.release()
    frame = buffer.next_frame()
    assert frame is not None
    assert bytes(frame) == b"next"


def test_after_a_release_the_buffer_does_not_grow_before_the_response() -> None:
    buffer = buffer_of(spare_bytes=64 * MEBIBYTE)
    feed(buffer, frame_of(b"parked"))
    assert buffer.next_frame() is not None
    buffer.drop_frame()
    following = frame_of(bytes(MEBIBYTE))
    received = 0
    while not buffer.is_full:
        received += feed(buffer, following[received:])
    assert buffer.capacity_bytes == received == FIRST_BYTES
    buffer.release()
    while received < len(following):
        received += feed(buffer, following[received:])
    assert buffer.next_frame() == bytes(MEBIBYTE)


def test_bytes_after_an_invalid_size_are_received_until_it_is_refused() -> None:
    buffer = buffer_of(frame_bytes_max=1_000)
    feed(buffer, struct.pack(">i", -1))
    assert feed(buffer, b"more") == 4
    with pytest.raises(InvalidFrameError):
        buffer.next_frame()


class CountingBuffer(ReceiveBuffer):
    """Counts the bytes that are copied into another buffer."""

    copied = 0

    def _replace(self, capacity: int) -> None:
        self.copied += self._end - self._start
        super()._replace(capacity)


@pytest.mark.parametrize("size", [100, 5_000, 200_000])
@pytest.mark.parametrize("drops", [True, False])
def test_consecutive_requests_are_copied_a_bounded_number_of_times(size: int, drops: bool) -> None:
    buffer = CountingBuffer(100 * MEBIBYTE, SpareMemory(0), admitted_bytes=10 * MEBIBYTE)
    data = frame_of(bytes(size)) * (2 * MEBIBYTE // size)
    position = received = 0
    largest = 0
    while position < len(data):
        position += feed(buffer, data[position:])
        while not buffer.is_full and position < len(data):
            position += feed(buffer, data[position:])
        if buffer.next_frame() is not None:
            if drops:
                buffer.drop_frame()
            buffer.release()
            received += 1
        largest = max(largest, buffer.capacity_bytes)
    assert received
    assert buffer.copied <= 4 * len(data)
    assert largest <= max(NORMAL_BYTES, 3 * size + GRANT_BYTES)


@pytest.mark.parametrize("is_referenced", [False, True])
def test_a_buffer_of_more_than_4_mib_grows_without_a_copy_unless_an_earlier_frame_is_referenced(
    is_referenced: bool,
) -> None:
    buffer = CountingBuffer(100 * MEBIBYTE, SpareMemory(0))
    body = bytes(range(256)) * (40 * MEBIBYTE // 256)
    data, position = frame_of(body), 0
    views = []
    while position < len(data):
        position += feed(buffer, data[position : position + MEBIBYTE])
        if is_referenced:
            views.append(buffer.writable())
    assert buffer.next_frame() == body
    assert (buffer.copied > 2 * MAPPED_BYTES) == is_referenced


def test_missing_bytes_are_those_of_the_next_frame() -> None:
    buffer = buffer_of()
    assert buffer.missing_bytes() == 0
    feed(buffer, b"\0\0\0")
    assert buffer.missing_bytes() == 0
    feed(buffer, b"\x0aabc")
    assert buffer.missing_bytes() == 7
    feed(buffer, b"defghij" + frame_of(b"next")[:6])
    assert buffer.missing_bytes() == 0
    assert bytes(buffer.next_frame()) == b"abcdefghij"
    assert buffer.missing_bytes() == 2


def test_no_bytes_of_an_invalid_frame_are_missing() -> None:
    buffer = buffer_of(frame_bytes_max=100)
    feed(buffer, frame_of(bytes(101))[:20])
    assert buffer.missing_bytes() == 0
