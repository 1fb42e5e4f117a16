from __future__ import annotations

from tidelog.clients.transport.in_flight import InFlightRequest, InFlightRequests


def request(
    correlation_id: int, deadline_ms: int = 1_000, *, send_completed: bool = True
) -> InFlightRequest[str]:
    return InFlightRequest(correlation_id, 0, 9, 0, deadline_ms, f"request {correlation_id}", send_completed)


def window(*requests: InFlightRequest[str]) -> InFlightRequests[str]:
    in_flight: InFlightRequests[str] = InFlightRequests()
    for entry in requests:
        in_flight.add(entry)
    return in_flight


def test_an_empty_window_accepts_a_request_of_any_size() -> None:
    assert window().can_send_more(0)


def test_the_window_is_full_at_its_limit() -> None:
    in_flight = window(*(request(number) for number in range(5)))
    assert not in_flight.can_send_more(5)
    assert in_flight.can_send_more(6)


def test_requests_wait_until_the_newest_one_is_written() -> None:
    in_flight = window(request(1), request(2, send_completed=False))
    assert not in_flight.can_send_more(5)
    newest = in_flight.newest
    assert newest is not None
    newest.send_completed = True
    assert in_flight.can_send_more(5)


def test_responses_complete_requests_in_order() -> None:
    in_flight = window(request(1), request(2))
    assert in_flight.complete_next(2) is None
    first = in_flight.complete_next(1)
    assert first is not None
    assert first.context == "request 1"
    assert len(in_flight) == 1


def test_the_earliest_deadline_at_any_position_applies() -> None:
    in_flight = window(request(1, 900), request(2, 300), request(3, 500))
    assert in_flight.next_deadline_ms() == 300
    assert in_flight.first_timed_out(299) is None
    late = in_flight.first_timed_out(300)
    assert late is not None
    assert late.correlation_id == 2


def test_a_lost_connection_returns_all_requests_oldest_first() -> None:
    in_flight = window(request(1), request(2), request(3))
    assert [entry.correlation_id for entry in in_flight.clear()] == [1, 2, 3]
    assert in_flight.oldest is None
