"""The traffic of topics."""

from __future__ import annotations

from tidelog.broker.observability.topic_traffic import OTHER_TOPICS, TopicTraffic


def test_traffic_is_counted_in_total_and_by_topic() -> None:
    traffic = TopicTraffic()
    traffic.record_append("tides", 100, 3)
    traffic.record_append("moons", 50, 1)
    traffic.record_fetched("tides", 40)
    assert (traffic.bytes_in, traffic.messages_in, traffic.bytes_out) == (150, 4, 40)
    tides = traffic.topics["tides"]
    assert (tides.bytes_in, tides.messages_in, tides.bytes_out) == (100, 3, 40)


def test_topics_over_the_limit_are_counted_together() -> None:
    traffic = TopicTraffic(topics_max=2)
    for topic in ("a", "b", "c", "d", "a"):
        traffic.record_append(topic, 10, 1)
    assert {topic: each.bytes_in for topic, each in traffic.topics.items()} == {
        "a": 20,
        "b": 10,
        OTHER_TOPICS: 20,
    }


def test_a_deleted_topic_makes_room_for_another() -> None:
    traffic = TopicTraffic(topics_max=1)
    traffic.record_append("a", 10, 1)
    traffic.remove_topic("a")
    traffic.record_append("b", 10, 1)
    assert list(traffic.topics) == ["b"]
