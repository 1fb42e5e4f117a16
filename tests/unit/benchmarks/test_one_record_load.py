"""The load of the suite `connections`: one record in a request, one request in flight on each connection."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from selectors import EVENT_READ, SelectSelector
from typing import Any

import pytest

from benchmarks.loads.one_record import one_record
from benchmarks.loads.pipelined import pipelined_produce
from benchmarks.loads.responses import EXTRA_S_MAX, count_responses
from tidelog.testing.embedded import EmbeddedCluster

CONNECTIONS = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        running.create_topics({"connected": 1})
        yield running


def address_of(cluster: EmbeddedCluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return host, int(port)


def test_the_figures_of_a_turn_that_ends_before_the_first_response_are_defined(
    cluster: EmbeddedCluster,
) -> None:
    figures = one_record([address_of(cluster)], "connected", 1, CONNECTIONS, 0.0, [os.getpid()])
    assert figures["requests_per_s"] > 0
    # The CPU time is counted in units of 10 ms.
    assert figures["cpu_us_per_request"] >= 0


def test_a_pipelined_load_that_ends_before_the_first_response_has_figures(cluster: EmbeddedCluster) -> None:
    figures = pipelined_produce(
        *address_of(cluster), "pipelined", 1, 100, connections=2, in_flight=2, seconds=0.0, pid=os.getpid()
    )
    assert figures["requests_per_s"] > 0


class ReadableSockets(SelectSelector):
    """One connection that is always readable."""

    def __init__(self) -> None:
        super().__init__()
        self._pair = socket.socketpair()
        self.register(self._pair[0], EVENT_READ, "the connection")
        self._pair[1].send(b"response")

    def close(self) -> None:
        super().close()
        for one in self._pair:
            one.close()


def test_responses_are_counted_until_the_end_and_then_until_there_are_enough() -> None:
    times = iter(range(1_000))

    def receive(data: Any) -> int:
        assert data == "the connection"
        return 1

    with ReadableSockets() as selector:
        assert count_responses(selector, receive, 10.0, now=lambda: next(times)) == 10
        assert count_responses(selector, receive, 5.0, at_least=7, now=lambda: next(times)) == 7


def test_a_load_without_responses_ends_with_an_error() -> None:
    times = iter(range(1_000))
    with ReadableSockets() as selector, pytest.raises(TimeoutError, match="0 responses until 30 s"):
        count_responses(selector, lambda data: 0, 1.0, at_least=1, now=lambda: next(times))
    assert next(times) == EXTRA_S_MAX + 3
