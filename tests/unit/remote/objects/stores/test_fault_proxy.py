"""The fault proxy injects the faults that it documents."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

import pytest

from tests.support.s3.fault_proxy import (
    Fault,
    FaultProxy,
    fault_proxy,
    lost_response,
    reset,
    response_fault,
    server_error,
    silence,
    slow_down,
    slow_response,
    truncate,
)
from tests.support.waiting import TIMEOUT_S, wait_until

BODY = bytes(range(256)) * 4


class Upstream(BaseHTTPRequestHandler):
    """Responds to GET with BODY, or with the received Range header; records the paths of requests."""

    reached_paths: list[str]

    def do_GET(self) -> None:
        self.reached_paths.append(self.path)
        content = self.headers.get("Range", "").encode() if self.path == "/range" else BODY
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def reached_paths() -> list[str]:
    return []


@pytest.fixture
def plain(reached_paths: list[str]) -> Iterator[FaultProxy]:
    handler = type("Handler", (Upstream,), {"reached_paths": reached_paths})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    with fault_proxy(f"http://127.0.0.1:{server.server_address[1]}", seed=3) as proxy:
        yield proxy
    server.shutdown()
    server.server_close()
    thread.join()


def get(proxy: FaultProxy, path: str = "/a", timeout_s: float = 20) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(proxy.endpoint.removeprefix("http://"), timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Range": "bytes=1-2"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_requests_pass_without_faults(plain: FaultProxy) -> None:
    assert get(plain) == (200, BODY)
    assert get(plain, "/range") == (200, b"bytes=1-2")
    assert plain.requests == {"GET": 2}
    assert plain.faults.total() == 0


def test_errors_have_the_s3_format_and_the_configured_count(
    plain: FaultProxy, reached_paths: list[str]
) -> None:
    rule = plain.inject(slow_down(), times=2)
    for _ in range(2):
        status, body = get(plain)
        assert status == 503
        assert b"<Code>SlowDown</Code>" in body
    assert get(plain) == (200, BODY)
    assert rule.hits == 2
    assert reached_paths == ["/a"]


def test_only_matching_requests_are_affected(plain: FaultProxy) -> None:
    plain.inject(server_error(), matching=r"bad$")
    plain.inject(server_error(), method="PUT")
    assert get(plain, "/good") == (200, BODY)
    assert get(plain, "/bad")[0] == 500
    assert plain.faults == {"error": 1}
    plain.clear()
    assert get(plain, "/bad") == (200, BODY)


def test_probability_is_seeded(plain: FaultProxy) -> None:
    plain.inject(server_error(), probability=0.5)
    random = Random(3)
    expected = [500 if random.random() < 0.5 else 200 for _ in range(8)]
    assert [get(plain)[0] for _ in range(8)] == expected


@pytest.mark.parametrize(("fault", "does_reach"), [(reset(), False), (lost_response(), True)])
def test_connections_are_reset(
    plain: FaultProxy, reached_paths: list[str], fault: Fault, does_reach: bool
) -> None:
    plain.inject(fault)
    with pytest.raises(ConnectionResetError):
        get(plain)
    assert bool(reached_paths) == does_reach


def test_bodies_are_truncated(plain: FaultProxy) -> None:
    plain.inject(truncate(keep=300))
    with pytest.raises(http.client.IncompleteRead) as raised:
        get(plain)
    assert raised.value.partial == BODY[:300]


def test_a_custom_response_is_returned(plain: FaultProxy, reached_paths: list[str]) -> None:
    plain.inject(response_fault(418, b"short and stout"))
    assert get(plain) == (418, b"short and stout")
    assert reached_paths == []


def test_a_silent_fault_lasts_until_it_is_cleared(plain: FaultProxy) -> None:
    rule = plain.inject(silence())
    outcome: list[object] = []

    def send_request() -> None:
        try:
            outcome.append(get(plain))
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=send_request)
    thread.start()
    wait_until(lambda: rule.hits == 1)
    assert not outcome
    plain.clear()
    thread.join(TIMEOUT_S)
    assert isinstance(outcome[0], OSError)
    with pytest.raises(TimeoutError):
        plain.inject(silence())
        get(plain, timeout_s=0.05)


def test_slow_bodies_are_delivered_completely(plain: FaultProxy) -> None:
    plain.inject(slow_response(bytes_per_s=20_000))
    assert get(plain) == (200, BODY)


def test_a_stopped_proxy_refuses_connections_and_restarts_at_the_same_address(plain: FaultProxy) -> None:
    endpoint = plain.endpoint
    for _ in range(3):
        plain.stop_listening()
        with pytest.raises(ConnectionRefusedError):
            get(plain)
        plain.resume_listening()
        assert plain.endpoint == endpoint
        assert get(plain) == (200, BODY)


def test_stopping_closes_connections_of_waiting_requests(plain: FaultProxy) -> None:
    connection = http.client.HTTPConnection(plain.endpoint.removeprefix("http://"), timeout=20)
    connection.request("GET", "/a")
    assert connection.getresponse().read() == BODY
    plain.stop_listening()
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        connection.request("GET", "/a")
        connection.getresponse()
    connection.close()
