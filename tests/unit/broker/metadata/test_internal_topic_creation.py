"""Internal topics of streams groups: requested once, and again when an error is forgotten."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.messages.request_contexts import request_context
from tidelog.broker.metadata.internal_topic_creation import ERRORS_MAX, InternalTopicCreation
from tidelog.broker.metadata.topic_creation import ErrorReport
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.create_topics import CreatableTopic
from tidelog.protocol.registry import ApiKey

CLIENT = request_context(0, api_key=ApiKey.STREAMS_GROUP_HEARTBEAT)
RETRY_MS = 10_000


class FailingCreation:
    """Reports an error for each topic."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def create(
        self, topics: Iterable[CreatableTopic], client: RequestContext | None, report: ErrorReport
    ) -> None:
        assert client is CLIENT
        for topic in topics:
            self.names.append(topic.name)
            report(topic.name, f"no room for {topic.name}")


def test_a_failed_topic_is_reported_and_not_requested_until_the_error_expires() -> None:
    failing, clock = FailingCreation(), ManualClock()
    creation = InternalTopicCreation(failing, clock)
    topics = (CreatableTopic(name="a"), CreatableTopic(name="b"))
    assert creation.request(topics, CLIENT, RETRY_MS) == {}
    assert creation.request(topics, CLIENT, RETRY_MS) == {"a": "no room for a", "b": "no room for b"}
    assert failing.names == ["a", "b"]
    clock.advance_ns(RETRY_MS * 1_000_000)
    assert creation.request(topics[:1], CLIENT, RETRY_MS) == {}
    assert failing.names == ["a", "b", "a"]


def test_the_errors_of_a_limited_number_of_topics_are_remembered() -> None:
    failing, clock = FailingCreation(), ManualClock()
    creation = InternalTopicCreation(failing, clock)
    topics = [CreatableTopic(name=f"t{number}") for number in range(ERRORS_MAX + 5)]
    for topic in topics:
        creation.request((topic,), CLIENT, RETRY_MS)
        clock.advance_ns(1_000_000)
    assert creation.request(topics, CLIENT, RETRY_MS).keys() == {topic.name for topic in topics[5:]}


def test_thousands_of_errors_are_logged_in_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    creation = InternalTopicCreation(FailingCreation(), ManualClock())
    topics = [CreatableTopic(name=f"t{number}") for number in range(3 * ERRORS_MAX)]
    creation.request(topics, CLIENT, RETRY_MS)
    assert 0 < len(caplog.records) < 100
