"""The times at which the initialization of share states has begun."""

from __future__ import annotations

from uuid import UUID

from tests.support.loops.python_calls import count_all_calls
from tidelog.broker.coordinators.groups.share.initialization_times import InitializationTimes

TOPICS = [UUID(int=number) for number in range(500)]
CALLS_PER_TOPIC_MAX = 10


def test_topics_whose_initialization_has_ended_are_removed_in_linear_time() -> None:
    times = InitializationTimes()
    times.begin("g", TOPICS, 1_000)
    _, calls = count_all_calls(lambda: times.keep("g", TOPICS[1:]))
    assert calls < CALLS_PER_TOPIC_MAX * len(TOPICS)
    assert times.elapsed_ms("g", TOPICS[0], 1_500) is None
    assert times.elapsed_ms("g", TOPICS[1], 1_500) == 500
