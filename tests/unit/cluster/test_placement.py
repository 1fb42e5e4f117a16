"""Replica placement over racks and brokers, and its errors."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.cluster.placement import UsableBroker, place_replicas
from tidelog.protocol.errors import ErrorCode, KafkaError


def brokers_in_racks(racks: int, per_rack: int) -> list[UsableBroker]:
    return [
        UsableBroker(rack * 100 + number, f"rack{rack}", False)
        for rack in range(racks)
        for number in range(per_rack)
    ]


def place(
    brokers: list[UsableBroker], partitions: int, replication_factor: int, seed: int = 1
) -> list[tuple[int, ...]]:
    return list(place_replicas(brokers, partitions, replication_factor, random.Random(seed).randrange))


EQUAL_RACKS = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))


@given(EQUAL_RACKS)
@settings(max_examples=150, deadline=None)
def test_leaders_are_balanced_over_equal_racks(case: tuple[int, int, int, int]) -> None:
    racks, per_rack, factor, seed = case
    brokers = brokers_in_racks(racks, per_rack)
    factor = min(factor, len(brokers))
    placed = place(brokers, 6 * len(brokers), factor, seed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {6}
    assert len(leaders) == len(brokers)


@given(EQUAL_RACKS)
@settings(max_examples=150, deadline=None)
def test_replicas_are_balanced_over_equal_racks(case: tuple[int, int, int, int]) -> None:
    racks, per_rack, factor, seed = case
    brokers = brokers_in_racks(racks, per_rack)
    factor = min(factor, len(brokers))
    placed = place(brokers, 6 * len(brokers), factor, seed)
    counts = Counter(broker for replicas in placed for broker in replicas)
    assert max(counts.values()) - min(counts.values()) <= 2 * factor


@given(EQUAL_RACKS)
@settings(max_examples=150, deadline=None)
def test_replicas_share_a_rack_only_when_every_rack_has_one(case: tuple[int, int, int, int]) -> None:
    racks, per_rack, factor, seed = case
    brokers = brokers_in_racks(racks, per_rack)
    factor = min(factor, len(brokers))
    for replicas in place(brokers, 3 * len(brokers), factor, seed):
        per = Counter(broker // 100 for broker in replicas)
        assert len(replicas) == factor == len(set(replicas))
        assert len(per) == min(racks, factor)
        assert max(per.values()) - min(per.values()) <= 1


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8), st.integers(1, 8))
@settings(max_examples=200, deadline=None)
def test_a_fenced_broker_never_leads_and_replicas_are_distinct(
    cluster: list[tuple[int, bool]], factor: int
) -> None:
    brokers = [UsableBroker(number, f"rack{rack}", fenced) for number, (rack, fenced) in enumerate(cluster)]
    fenced = {broker.id for broker in brokers if broker.fenced}
    if factor > len(brokers) or len(fenced) == len(brokers):
        with pytest.raises(KafkaError) as error:
            place(brokers, 5, factor)
        assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    for replicas in place(brokers, 5, factor):
        assert replicas[0] not in fenced
        assert len(set(replicas)) == factor


def test_a_fenced_broker_is_used_only_without_another_in_its_rack() -> None:
    brokers = [UsableBroker(1, "a", False), UsableBroker(2, "a", True), UsableBroker(3, "b", False)]
    for replicas in place(brokers, 12, 2):
        assert set(replicas) == {1, 3}
    assert {frozenset(replicas) for replicas in place(brokers, 12, 3)} == {frozenset({1, 2, 3})}


def test_brokers_without_a_rack_share_one() -> None:
    brokers = [UsableBroker(number, None, False) for number in range(3)]
    assert Counter(replicas[0] for replicas in place(brokers, 9, 2)) == {0: 3, 1: 3, 2: 3}


def test_partitions_vary_their_broker_sets() -> None:
    placed = place(brokers_in_racks(1, 5), 50, 2)
    assert len({frozenset(replicas) for replicas in placed}) == 10


def test_the_same_seed_gives_the_same_placement() -> None:
    brokers = brokers_in_racks(3, 3)
    assert place(brokers, 20, 3, seed=4) == place(brokers, 20, 3, seed=4)
    assert place(brokers, 20, 3, seed=4) != place(brokers, 20, 3, seed=5)


@pytest.mark.parametrize(
    ("factor", "reason"), [(0, "must be positive"), (-1, "must be positive"), (4, "only 3 broker")]
)
def test_an_invalid_replication_factor_is_refused(factor: int, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as error:
        place(brokers_in_racks(3, 1), 1, factor)
    assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_placement_fails_while_all_brokers_are_fenced() -> None:
    with pytest.raises(KafkaError, match="fenced"):
        place([UsableBroker(1, None, True)], 1, 1)
