"""The memory of large frames is released in pieces."""

from __future__ import annotations

import mmap
import struct
import weakref
from collections.abc import Callable

from tidelog.base.private_memory import private_mapping
from tidelog.broker.network.memory import RELEASED_BYTES, MemoryRelease, SpareMemory
from tidelog.broker.network.receive_buffer import MAPPED_BYTES, ReceiveBuffer


class Iterations:
    """The iterations of an event loop, which the test runs."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def next(self) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()


def test_a_large_mapping_loses_a_piece_in_each_iteration_of_the_loop() -> None:
    """A request with a frame of 50 MB blocked the event loop for 3.5 ms when it was released."""
    loop = Iterations()
    release = MemoryRelease(loop.call_soon)
    mapping = private_mapping(3 * RELEASED_BYTES + 1)
    release.release(mapping)
    sizes = []
    while loop.callbacks:
        loop.next()
        sizes.append(len(mapping))
    assert sizes == [2 * RELEASED_BYTES + 1, RELEASED_BYTES + 1, 1, 1]


def test_mappings_are_released_one_after_the_other() -> None:
    loop = Iterations()
    release = MemoryRelease(loop.call_soon)
    first, second = private_mapping(2 * RELEASED_BYTES), private_mapping(2 * RELEASED_BYTES)
    release.release(first)
    release.release(second)
    assert len(loop.callbacks) == 1
    loop.next()
    assert (len(first), len(second)) == (RELEASED_BYTES, 2 * RELEASED_BYTES)
    loop.next()
    loop.next()
    assert len(second) == RELEASED_BYTES


def test_unsent_responses_are_released_one_in_each_iteration_of_the_loop() -> None:
    class Response(bytearray):
        """Python has no weak references to a bytearray."""

    loop = Iterations()
    release, responses = MemoryRelease(loop.call_soon), [Response(2 * RELEASED_BYTES) for _ in range(3)]
    for response in responses:
        release.release(memoryview(response))
    remaining = [weakref.ref(response) for response in responses]
    responses.clear()
    del response
    counts = []
    while loop.callbacks:
        loop.next()
        counts.append(sum(reference() is not None for reference in remaining))
    assert counts == [2, 1, 0]


def test_a_mapping_with_a_view_is_left_to_the_view() -> None:
    loop = Iterations()
    release = MemoryRelease(loop.call_soon)
    mapping = private_mapping(3 * RELEASED_BYTES)
    view = memoryview(mapping)[-1:]
    release.release(mapping)
    loop.next()
    assert not loop.callbacks
    view[0] = 7
    assert view[0] == 7


def test_the_buffer_of_a_large_frame_is_released_in_pieces_after_its_response() -> None:
    unused: list[mmap.mmap] = []
    buffer = ReceiveBuffer(100 * MAPPED_BYTES, SpareMemory(), release_mapping=unused.append)
    size = 2 * MAPPED_BYTES
    stream, position = memoryview(struct.pack(">i", size) + bytes(size)), 0
    while not buffer.has_frame():
        room = buffer.writable()
        piece = stream[position : position + len(room)]
        room[: len(piece)] = piece
        buffer.on_received(len(piece))
        position += len(piece)
        del room  # A view would prevent that the mapping grows.
    frame = buffer.next_frame()
    assert frame is not None
    assert not unused
    buffer.release()
    del frame
    (mapping,) = unused
    mapping.resize(MAPPED_BYTES)
    assert len(mapping) == MAPPED_BYTES, "no view of the mapping is left"
