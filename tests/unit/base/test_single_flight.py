"""Concurrent callers of one key share one load."""

from __future__ import annotations

from tidelog.base.single_flight import SingleFlight


def test_the_first_caller_loads_and_the_others_share_its_future() -> None:
    flights = SingleFlight[str, int]()
    load, is_first = flights.join("a")
    again, is_second_first = flights.join("a")
    other, is_other_first = flights.join("b")
    assert (is_first, is_second_first, is_other_first) == (True, False, True)
    assert again is load
    assert other is not load


def test_after_the_end_of_a_load_the_next_caller_loads_again() -> None:
    flights = SingleFlight[str, int]()
    load, _ = flights.join("a")
    assert flights.end("a", load)
    assert not flights.end("a", load)
    again, is_first = flights.join("a")
    assert is_first
    assert again is not load


def test_forgetting_a_load_does_not_affect_the_next_load() -> None:
    flights = SingleFlight[str, int]()
    forgotten, _ = flights.join("a")
    flights.forget("a")
    flights.forget("a")
    following, is_first = flights.join("a")
    assert is_first
    assert not flights.end("a", forgotten)
    assert flights.join("a") == (following, False)
