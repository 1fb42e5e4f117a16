"""Connection states: at most one request in flight per node."""

from __future__ import annotations

from tidelog.cluster.quorum.connections import Connections
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.protocol.messages.vote import VoteRequest


def connections() -> Connections:
    """Return connections with a request timeout of 100 ms and a backoff of 20 ms."""
    return Connections(Outbox(), request_timeout_ms=100, retry_backoff_ms=20)


def test_a_node_is_available_again_after_its_response() -> None:
    subject = connections()
    request_id = subject.send(2, (), VoteRequest(), 0)
    assert not subject.is_ready(2, 50)
    assert subject.is_ready(3, 50)
    request = subject.complete(request_id)
    assert request is not None and request.node_id == 2
    assert subject.is_ready(2, 50)
    assert subject.complete(request_id) is None


def test_a_failed_request_is_followed_by_a_backoff() -> None:
    subject = connections()
    subject.back_off(2, 1000)
    assert not subject.is_ready(2, 1019)
    assert subject.ready_at(2) == 1020
    assert subject.is_ready(2, 1020)


def test_a_request_that_may_wait_at_the_peer_has_a_longer_timeout() -> None:
    subject = connections()
    first = subject.send(2, (), VoteRequest(), 0)
    second = subject.send(3, (), VoteRequest(), 0, wait_ms=500)
    assert subject.next_expiry_ms == 100
    assert subject.expired_requests(99) == []
    assert subject.expired_requests(100) == [first]
    assert subject.expired_requests(600) == [first, second]


def test_a_change_of_state_resets_all_connections() -> None:
    subject = connections()
    request_id = subject.send(2, (), VoteRequest(), 0)
    subject.reset()
    assert subject.is_ready(2, 0)
    assert not subject.has_pending
    assert subject.complete(request_id) is None
