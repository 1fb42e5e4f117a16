"""An attempt ends at its deadline, however slowly the server responds."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.support.network.slow_server import slow_server
from tests.support.time_limits import result_within
from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.s3_deadlines import Deadlines
from tidelog.remote.ports.storage_manager import RemoteStorageError

OK = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "headers": (OK + b"X-Padding: ", b"x"),
    "a body": (OK + b"ETag: x\r\nContent-Length: 100000000\r\n\r\n", b"x"),
    "a chunked body": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "continues": (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("operation", ["put", "get", "size", "list"])
@pytest.mark.parametrize("drip", DRIPS)
def test_a_slow_server_cannot_exceed_the_deadline(drip: str, operation: str) -> None:
    with slow_server(*DRIPS[drip]) as endpoint:
        values = {
            "s3.bucket.name": "b",
            "s3.endpoint.url": endpoint,
            "s3.path.style.access.enabled": "true",
            "aws.access.key.id": "k",
            "aws.secret.access.key": "s",
            "s3.api.call.timeout": "300",
            "s3.api.call.attempt.timeout": "200",
        }
        with closing(object_store("s3", values)) as store:
            calls: dict[str, Callable[[], object]] = {
                "put": lambda: store.put("k", b"content"),
                "get": lambda: store.get("k").read(),
                "size": lambda: store.size("k"),
                "list": lambda: list(store.list("")),
            }
            try:
                result_within(calls[operation])
            except RemoteStorageError as error:
                assert "s3://b" in str(error)
            else:
                # This call needs only the head of the response.
                assert (drip, operation) in {("a body", "size")}


def test_a_call_within_its_deadline_is_unaffected() -> None:
    deadlines = Deadlines(SYSTEM_CLOCK)
    one, other = socket.socketpair()
    with one, other:
        with deadlines.watch(60, one) as watch:
            one.sendall(b"x")
        assert not watch.expired
        assert other.recv(1) == b"x"
        deadlines.close()
        one.sendall(b"y")
        assert other.recv(1) == b"y"


def test_an_expired_socket_is_shut_down() -> None:
    deadlines = Deadlines(SYSTEM_CLOCK)
    one, other = socket.socketpair()
    with one, other, closing(deadlines):
        with deadlines.watch(60, other), deadlines.watch(0.01, one) as watch:
            assert one.recv(1) == b""
        assert watch.expired
        assert other.recv(1) == b""
