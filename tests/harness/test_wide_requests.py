"""No request leaves its message in a reference cycle, whatever its API and its result.

A collection that finds such a cycle releases all elements of the message at once. With 40,000 elements this
blocks the event loop for 10 to 20 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.hostile.attacks.large_array_requests import SERVED
from tests.harness.hostile.frames import request_frame
from tests.harness.hostile.large_arrays import array_paths, latest_versions, wide_request
from tests.support.network.raw_client import RawClient
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.registry import ApiKey, request_type
from tidelog.protocol.schema import Struct
from tidelog.testing.embedded import EmbeddedCluster

ELEMENTS = 600
"""More than are handled in one step, or kept in one array that is released at once."""

Address = tuple[str, int]


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        yield host, int(port)


@contextmanager
def collected_messages() -> Iterator[list[str]]:
    """Collect nothing during the block; fill the list with the messages that were in cycles."""
    messages: list[str] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield messages
        gc.collect()
        messages += (type(each).__name__ for each in gc.garbage if isinstance(each, Struct))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name.lower())
def test_no_request_with_many_elements_leaves_a_message_in_a_reference_cycle(
    key: ApiKey, address: Address
) -> None:
    version = dict(latest_versions(address))[key]
    frames = [
        request_frame(wide_request(key, version, path, ELEMENTS, is_distinct=is_distinct), version)
        for path in array_paths(request_type(key), version)
        for is_distinct in (True, False)
    ]
    with collected_messages() as messages:
        for frame in frames:
            with RawClient(*address) as client:
                client.send(frame)
                client.receive()
                # The broker finishes the request after the client has its response.
                with RawClient(*address) as other:
                    other.send_request(MetadataRequest(topics=()), 9, MetadataResponse)
    assert not messages
