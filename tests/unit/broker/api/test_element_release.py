"""The elements of large requests and responses are released in slices."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import cast

from tests.support.clocks.manual_clock import ManualClock
from tests.support.waiting import eventually
from tidelog.broker.api.element_release import ElementRelease
from tidelog.broker.network.request import Request, RequestConnection
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.codec import long_arrays
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ELEMENTS = 5_000
VERSION = 9


class CountedTopic(MetadataRequestTopic):
    """An element that counts those that exist."""

    __slots__ = ()
    existing = 0

    def __new__(cls, **_: object) -> CountedTopic:
        CountedTopic.existing += 1
        return object.__new__(cls)

    def __del__(self) -> None:
        CountedTopic.existing -= 1


class SteppedClock(ManualClock):
    """A clock on which every step takes the whole of a slice."""

    def monotonic_ns(self) -> int:
        self.advance_ns(10_000_000)
        return super().monotonic_ns()


def large_request() -> tuple[Request, MetadataRequest]:
    request = Request(cast(RequestConnection, None), memoryview(b""), 0, 0)
    request.header = RequestHeader(3, VERSION, 1, "client")
    topics = tuple(CountedTopic(name=f"topic-{number}") for number in range(ELEMENTS))
    return request, MetadataRequest(topics=topics)


async def test_the_elements_of_a_request_are_released_a_few_at_a_time() -> None:
    """A request with 100,000 elements blocked the event loop for 10 ms after its response."""
    releases = ElementRelease(Slices(SteppedClock()))
    request, message = large_request()
    releases.after_request(request, message)
    assert CountedTopic.existing == ELEMENTS
    del request, message
    assert CountedTopic.existing == ELEMENTS
    released = [0]
    while CountedTopic.existing:
        await asyncio.sleep(0)
        released.append(ELEMENTS - CountedTopic.existing)
    steps = [after - before for before, after in pairwise(released)]
    assert max(steps) <= ELEMENTS // 10


async def test_elements_that_are_still_in_use_are_kept() -> None:
    releases = ElementRelease(Slices(ManualClock()))
    request, message = large_request()
    releases.after_request(request, message)
    used = message.topics
    del request, message
    slices_before = releases._slices.slice_count
    await eventually(
        lambda: releases._slices.slice_count > slices_before and not releases._slices.pending_count
    )
    assert used is not None
    assert CountedTopic.existing == len(used) == ELEMENTS
    del used
    assert CountedTopic.existing == 0


def test_long_arrays_of_a_message_and_of_its_elements_are_found() -> None:
    partitions = tuple(MetadataResponsePartition(partition_index=number) for number in range(600))
    wide = MetadataResponseTopic(name="wide", partitions=partitions)
    narrow = MetadataResponseTopic(name="narrow", partitions=partitions[:3])
    response = MetadataResponse(topics=(narrow, wide))
    assert long_arrays(response, VERSION, 500) == [list(partitions)]
    assert long_arrays(response, VERSION, 2) == [[narrow, wide]]
    assert long_arrays(response, VERSION, 601) == []
