"""One request at a time to each node."""

from __future__ import annotations

from tidelog.cluster.quorum.connections import Connections
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.protocol.messages.vote import VoteRequest


def connections() -> Connections:
    """With requests that take 100 ms at most, and pauses of 20."""
    return Connections(Outbox(), request_timeout_ms=100, retry_backoff_ms=20)


def test_a_node_is_asked_again_when_it_has_answered() -> None:
    subject = connections()
    request_id = subject.send(2, (), VoteRequest(), 0)
    assert not subject.is_ready(2, 50)
    assert subject.is_ready(3, 50)
    request = subject.complete(request_id)
    assert request is not None and request.node_id == 2
    assert subject.is_ready(2, 50)
    assert subject.complete(request_id) is None


def test_after_a_failure_comes_a_pause() -> None:
    subject = connections()
    subject.back_off(2, 1000)
    assert not subject.is_ready(2, 1019)
    assert subject.ready_at(2) == 1020
    assert subject.is_ready(2, 1020)


def test_a_request_expires_later_when_the_other_may_wait() -> None:
    subject = connections()
    first = subject.send(2, (), VoteRequest(), 0)
    second = subject.send(3, (), VoteRequest(), 0, wait_ms=500)
    assert subject.next_expiry_ms == 100
    assert subject.expired_requests(99) == []
    assert subject.expired_requests(100) == [first]
    assert subject.expired_requests(600) == [first, second]


def test_another_state_forgets_all() -> None:
    subject = connections()
    request_id = subject.send(2, (), VoteRequest(), 0)
    subject.reset()
    assert subject.is_ready(2, 0)
    assert not subject.has_pending
    assert subject.complete(request_id) is None
