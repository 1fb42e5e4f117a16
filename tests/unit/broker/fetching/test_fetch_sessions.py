"""Fetch sessions: creation, incremental fetches, closing and eviction (KIP-227)."""

from __future__ import annotations

import gc
from itertools import count

import pytest

from tidelog.broker.fetching.fetch_sessions import (
    PARTITIONS_MAX,
    SESSION_PARTITIONS_MAX,
    FetchContext,
    FetchSessionCache,
)
from tidelog.broker.fetching.metrics import report_fetch_sessions
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.views.fetch_request_view import FetchPartition, FetchRequestView
from tidelog.protocol.views.fetch_response_view import FetchPartitionResult

VERSION = 12
IDLE_MS = 120_001


def fetch_partition(index: int, offset: int = 0, topic: str = "t") -> FetchPartition:
    return FetchPartition(topic, None, index, -1, offset, -1, -1, 1_000)


def request(
    partitions: list[FetchPartition],
    session_id: int = 0,
    epoch: int = 0,
    *,
    forgotten: list[tuple[str, int]] | None = None,
    replica_id: int = -1,
) -> FetchRequestView:
    return FetchRequestView(
        replica_id, -1, 500, 1, 1_000_000, 0, session_id, epoch, partitions, list(forgotten or []), "", None
    )


def result(
    high_watermark: int = 5, records: bytes | None = None, error: ErrorCode = ErrorCode.NONE
) -> FetchPartitionResult:
    return FetchPartitionResult(
        error_code=error, high_watermark=high_watermark, log_start_offset=0, records=records
    )


@pytest.fixture
def cache() -> FetchSessionCache:
    return FetchSessionCache(2, count(1).__next__)


def open_session(
    cache: FetchSessionCache, partitions: int, now_ms: int = 0, replica_id: int = -1
) -> FetchContext:
    wanted = [fetch_partition(index) for index in range(partitions)]
    return cache.context(request(wanted, replica_id=replica_id), VERSION, now_ms)


def respond_with(context: FetchContext, results: dict[int, FetchPartitionResult]) -> list[int]:
    pairs = [(partition, results[partition.partition]) for partition in context.partitions]
    return [partition.partition for partition, _ in context.select(pairs)]


def failure(cache: FetchSessionCache, view: FetchRequestView, version: int = VERSION) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        cache.context(view, version, 0)
    return caught.value.code


def test_a_full_fetch_creates_a_session_and_returns_every_partition(cache: FetchSessionCache) -> None:
    context = open_session(cache, 3)
    assert context.session_id == 1
    assert respond_with(context, dict.fromkeys(range(3), result())) == [0, 1, 2]


def test_sessions_and_their_partitions_are_reported(cache: FetchSessionCache) -> None:
    metrics = BrokerMetrics()
    report_fetch_sessions(metrics, cache)
    open_session(cache, 3)
    open_session(cache, 2)
    lines = Exposition(metrics).text("")[0].decode().splitlines()
    prefix = "kafka_server_fetchsessioncache_numincrementalfetch"
    assert {f"{prefix}sessions 2.0", f"{prefix}partitionscached 5.0"} <= set(lines)


@pytest.mark.parametrize("epoch", [-1, 0])
def test_the_last_entry_of_a_duplicate_partition_is_used(cache: FetchSessionCache, epoch: int) -> None:
    wanted = [
        fetch_partition(0, 1),
        fetch_partition(1, 2),
        fetch_partition(0, 3),
        fetch_partition(0, 4, topic="u"),
        fetch_partition(0, 5),
    ]
    context = cache.context(request(wanted, epoch=epoch), VERSION, 0)
    fetched = [(each.topic, each.partition, each.fetch_offset) for each in context.partitions]
    assert fetched == [("t", 0, 5), ("t", 1, 2), ("u", 0, 4)]
    assert cache.partition_count == (3 if epoch == 0 else 0)


def test_a_request_without_session_gets_none(cache: FetchSessionCache) -> None:
    context = cache.context(request([fetch_partition(0)], epoch=-1), VERSION, 0)
    assert context.session_id == 0
    assert len(cache) == 0


def test_an_incremental_fetch_returns_only_changed_partitions(cache: FetchSessionCache) -> None:
    first = open_session(cache, 3)
    respond_with(first, dict.fromkeys(range(3), result(high_watermark=5)))
    second = cache.context(request([], first.session_id, 1), VERSION, 0)
    assert [partition.partition for partition in second.partitions] == [0, 1, 2]
    news = {0: result(5), 1: result(5, b"batch"), 2: result(6)}
    assert respond_with(second, news) == [1, 2]


def test_a_partition_that_returned_records_moves_to_the_end(cache: FetchSessionCache) -> None:
    first = open_session(cache, 3)
    respond_with(first, dict.fromkeys(range(3), result()))
    second = cache.context(request([], first.session_id, 1), VERSION, 0)
    respond_with(second, {0: result(5, b"batch"), 1: result(), 2: result()})
    third = cache.context(request([], first.session_id, 2), VERSION, 0)
    assert [partition.partition for partition in third.partitions] == [1, 2, 0]


def test_an_error_and_its_end_are_changes(cache: FetchSessionCache) -> None:
    first = open_session(cache, 1)
    respond_with(first, {0: result()})
    second = cache.context(request([], 1, 1), VERSION, 0)
    assert respond_with(second, {0: result(-1, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}) == [0]
    third = cache.context(request([], 1, 2), VERSION, 0)
    assert respond_with(third, {0: result()}) == [0]
    fourth = cache.context(request([], 1, 3), VERSION, 0)
    assert respond_with(fourth, {0: result()}) == []


def test_an_incremental_fetch_changes_adds_and_removes_partitions(cache: FetchSessionCache) -> None:
    open_session(cache, 2)
    context = cache.context(
        request([fetch_partition(0, offset=7), fetch_partition(2)], 1, 1, forgotten=[("t", 1)]), VERSION, 0
    )
    assert [(p.partition, p.fetch_offset) for p in context.partitions] == [(0, 7), (2, 0)]


def test_a_session_without_partitions_ends(cache: FetchSessionCache) -> None:
    open_session(cache, 1)
    context = cache.context(request([], 1, 1, forgotten=[("t", 0)]), VERSION, 0)
    assert context.session_id == 0
    assert failure(cache, request([], 1, 2)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_unknown_session_and_a_wrong_epoch_are_distinguished(cache: FetchSessionCache) -> None:
    open_session(cache, 1)
    assert failure(cache, request([], 99, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert failure(cache, request([], 1, 5)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_uses_either_names_or_ids(cache: FetchSessionCache) -> None:
    open_session(cache, 1)
    assert failure(cache, request([], 1, 1), version=13) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_new_full_fetch_replaces_the_session_it_names(cache: FetchSessionCache) -> None:
    open_session(cache, 1)
    again = cache.context(request([fetch_partition(0)], session_id=1, epoch=0), VERSION, 0)
    assert again.session_id == 2
    assert len(cache) == 1


def test_a_full_cache_creates_no_session(cache: FetchSessionCache) -> None:
    open_session(cache, 1)
    open_session(cache, 1)
    assert open_session(cache, 1).session_id == 0
    assert len(cache) == 2


def test_a_session_idle_for_two_minutes_is_evicted(cache: FetchSessionCache) -> None:
    open_session(cache, 1, now_ms=0)
    open_session(cache, 1, now_ms=100)
    assert open_session(cache, 1, now_ms=IDLE_MS).session_id == 3
    assert failure(cache, request([], 1, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_evicts_a_client_session_but_not_the_reverse(cache: FetchSessionCache) -> None:
    open_session(cache, 9)
    open_session(cache, 1)
    assert open_session(cache, 1, replica_id=2).session_id == 3
    assert open_session(cache, 1, replica_id=3).session_id == 4
    assert open_session(cache, 9).session_id == 0


def test_an_old_smaller_session_is_evicted_before_a_recent_one(
    cache: FetchSessionCache,
) -> None:
    old = open_session(cache, 5, now_ms=0)
    cache.context(request([], old.session_id, 1), VERSION, IDLE_MS)
    open_session(cache, 1, now_ms=IDLE_MS)
    assert open_session(cache, 9, now_ms=IDLE_MS).session_id == 3
    assert failure(cache, request([], old.session_id, 2)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_of_equal_size_is_not_evicted(cache: FetchSessionCache) -> None:
    for _ in range(2):
        session_id = open_session(cache, 5, now_ms=0).session_id
        cache.context(request([], session_id, 1), VERSION, IDLE_MS)
    assert open_session(cache, 5, now_ms=IDLE_MS).session_id == 0
    assert open_session(cache, 6, now_ms=IDLE_MS).session_id == 3


def test_the_epoch_wraps_to_one(cache: FetchSessionCache) -> None:
    session = open_session(cache, 1).session
    assert session is not None
    session.next_epoch = 0x7FFFFFFF
    cache.context(request([], 1, 0x7FFFFFFF), VERSION, 0)
    assert cache.context(request([], 1, 1), VERSION, 0).session_id == 1


def fetch_partitions(count: int, topic: str = "t") -> list[FetchPartition]:
    return [fetch_partition(index, topic=topic) for index in range(count)]


def test_a_full_fetch_beyond_the_partition_limit_creates_no_session(cache: FetchSessionCache) -> None:
    context = cache.context(request(fetch_partitions(SESSION_PARTITIONS_MAX + 1)), VERSION, 0)
    assert context.session_id == 0
    assert len(context.partitions) == SESSION_PARTITIONS_MAX + 1
    assert (len(cache), cache.partition_count) == (0, 0)
    assert cache.context(request(fetch_partitions(SESSION_PARTITIONS_MAX)), VERSION, 0).session_id == 1
    assert (len(cache), cache.partition_count) == (1, SESSION_PARTITIONS_MAX)


@pytest.mark.parametrize("by", [1, SESSION_PARTITIONS_MAX + 1])
def test_a_session_that_grows_beyond_the_limit_is_closed(cache: FetchSessionCache, by: int) -> None:
    """Before, partitions without a topic were added without limit, and 45 bytes had all of them read."""
    session = cache.context(request(fetch_partitions(SESSION_PARTITIONS_MAX)), VERSION, 0)
    more = request(fetch_partitions(by, topic="u"), session.session_id, 1)
    assert failure(cache, more) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.partition_count) == (0, 0)
    assert failure(cache, request([], session.session_id, 2)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_partition_count_is_correct_after_additions_and_removals(cache: FetchSessionCache) -> None:
    session = open_session(cache, 3)
    added = request(
        [fetch_partition(7), fetch_partition(1)], session.session_id, 1, forgotten=[("t", 0), ("t", 99)]
    )
    cache.context(added, VERSION, 0)
    assert cache.partition_count == 3
    cache.context(request([], session.session_id, -1), VERSION, 0)
    assert (len(cache), cache.partition_count) == (0, 0)


def test_partitions_of_all_sessions_are_bounded() -> None:
    cache = FetchSessionCache(1000, count(1).__next__)
    sessions = PARTITIONS_MAX // SESSION_PARTITIONS_MAX
    for _ in range(sessions):
        assert cache.context(request(fetch_partitions(SESSION_PARTITIONS_MAX)), VERSION, 0).session_id
    assert cache.context(request(fetch_partitions(5)), VERSION, 1000).session_id == 0, (
        "all others are young and larger"
    )
    assert cache.partition_count == PARTITIONS_MAX
    grown = request(fetch_partitions(1, topic="u"), 1, 1, forgotten=[("t", 0)])
    assert cache.context(grown, VERSION, 1000).session_id == 1, "it has as many as before"
    session = cache.context(request(fetch_partitions(5), replica_id=3), VERSION, 1000)
    assert session.session_id != 0, "followers outrank clients"
    assert len(cache) == sessions and cache.partition_count <= PARTITIONS_MAX


def test_as_many_idle_sessions_as_needed_are_evicted() -> None:
    cache = FetchSessionCache(1000, count(1).__next__)
    for _ in range(10):
        assert cache.context(request(fetch_partitions(PARTITIONS_MAX // 10)), VERSION, 0).session_id
    context = cache.context(request(fetch_partitions(SESSION_PARTITIONS_MAX)), VERSION, IDLE_MS)
    assert context.session_id == 11
    assert (len(cache), cache.partition_count) == (9, PARTITIONS_MAX)


def test_the_garbage_collector_visits_one_object_per_session_partition() -> None:
    """A collection of 100,000 partitions with two objects each blocked the event loop for 24 ms."""
    cache = FetchSessionCache(1000, count(1).__next__)
    gc.collect()
    before = len(gc.get_objects())
    session = cache.context(request(fetch_partitions(1000)), VERSION, 0)
    session.select([(partition, result()) for partition in session.partitions])
    del session
    gc.collect()
    assert len(gc.get_objects()) - before < 1000 + 50
