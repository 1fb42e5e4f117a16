from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import DefaultPartitioner, murmur2

from tidelog.clients.producer.partitioner import StickyPartitioner, partition_for_key
from tidelog.clients.producer.partitioner import murmur2 as our_murmur2


class KafkaPythonCluster:
    """The part of kafka-python's ClusterMetadata that its partitioner uses."""

    def __init__(self, partition_count: int) -> None:
        self.partitions = set(range(partition_count))

    def topics(self) -> set[str]:
        return {"tides"}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self.partitions

    available_partitions_for_topic = partitions_for_topic


def test_the_hash_equals_kafkas_documented_values() -> None:
    # Values of org.apache.kafka.common.utils.UtilsTest, as unsigned numbers.
    golden = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    assert {key: our_murmur2(key) for key in golden} == {
        key: value & 0xFFFFFFFF for key, value in golden.items()
    }


@given(st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_the_hash_equals_kafka_pythons(key: bytes) -> None:
    assert our_murmur2(key) == murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=100), st.integers(1, 1_000))
@settings(max_examples=300, deadline=None)
def test_keyed_partitions_equal_kafka_pythons(key: bytes, count: int) -> None:
    theirs = DefaultPartitioner().partition("tides", key, key, b"", b"", KafkaPythonCluster(count))
    assert partition_for_key(key, count) == theirs


def test_records_without_key_use_a_partition_until_a_batch_is_full() -> None:
    sticky = StickyPartitioner(1_000, random.Random(1))
    first = sticky.choose((0, 1, 2, 3), 4)
    for _ in range(9):
        sticky.on_appended(100, (0, 1, 2, 3), 4, batch_is_ready=True)
        assert sticky.choose((0, 1, 2, 3), 4) == first
    chosen_partitions = set()
    for _ in range(40):
        sticky.on_appended(1_000, (0, 1, 2, 3), 4, batch_is_ready=True)
        chosen_partitions.add(sticky.choose((0, 1, 2, 3), 4))
    assert chosen_partitions == {0, 1, 2, 3}


def test_an_incomplete_batch_is_abandoned_at_twice_the_batch_size() -> None:
    rng = random.Random(2)
    sticky = StickyPartitioner(1_000, rng)
    available = tuple(range(1_000))
    first = sticky.choose(available, 1_000)
    for _ in range(19):
        sticky.on_appended(100, available, 1_000, batch_is_ready=False)
    assert sticky.choose(available, 1_000) == first
    sticky.on_appended(100, available, 1_000, batch_is_ready=False)
    assert sticky.choose(available, 1_000) != first


def test_a_partition_without_leader_is_replaced_at_once() -> None:
    sticky = StickyPartitioner(1_000, random.Random(3))
    first = sticky.choose((0, 1), 2)
    assert sticky.choose((1 - first,), 2) == 1 - first


def test_without_any_leader_a_partition_is_selected_and_kept() -> None:
    sticky = StickyPartitioner(1_000, random.Random(3))
    first = sticky.choose((), 3)
    assert first in (0, 1, 2)
    assert sticky.choose((), 3) == first


def test_partitions_with_long_queues_are_selected_less_often() -> None:
    sticky = StickyPartitioner(1, random.Random(4))
    sticky.choose((0, 1, 2), 3)
    sticky.update_load((0, 1, 2), (0, 3, 1))
    chosen: Counter[int] = Counter()
    for _ in range(8_000):
        sticky.on_appended(1, (0, 1, 2), 3, batch_is_ready=True)
        chosen[sticky.choose((0, 1, 2), 3)] += 1
    # Weights 4, 1, 3.
    assert [round(chosen[number] / 1_000) for number in range(3)] == [4, 1, 3]


def test_equal_queues_are_selected_uniformly() -> None:
    sticky = StickyPartitioner(1, random.Random(5))
    sticky.update_load((0, 1), (0, 9))
    sticky.update_load((0, 1), (2, 2))
    chosen: Counter[int] = Counter()
    for _ in range(2_000):
        sticky.on_appended(1, (0, 1), 2, batch_is_ready=True)
        chosen[sticky.choose((0, 1), 2)] += 1
    assert min(chosen.values()) > 850
