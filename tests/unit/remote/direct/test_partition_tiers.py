"""The remote segments of a topic, equal by the metadata topic and by the bucket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from tests.support.spark.topics import numbered_records, produce
from tests.support.tier.bucket import TierBucket
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.direct.aborted_transactions import aborted_transactions
from tidelog.remote.direct.bucket_tier import BucketTier
from tidelog.remote.direct.metadata_tier import MetadataTier
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.inspection.broker_queries import BrokerQueries
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tiered=True) as running:
        yield running


def bucket_of(cluster: EmbeddedCluster) -> Bucket:
    return Bucket.open({"storage.backend.class": "filesystem", "storage.root": str(cluster.tier_dir)})


def offset_ranges(tier: PartitionTier, start: int = 0) -> list[tuple[str, int, int]]:
    return [
        (str(part.metadata.remote_log_segment_id), part.start_offset, part.end_offset)
        for part in tier.parts(start, 1 << 62)
    ]


def test_metadata_and_manifests_give_the_same_segments_incrementally(
    cluster: EmbeddedCluster,
) -> None:
    topics = TieredTopics(cluster)
    tides = TopicPartition("tides", 0)
    for name in ("tides", "tides-more"):
        topics.create(name)
        produce(cluster.bootstrap_servers, name, numbered_records(4000, size=700))
    first = topics.wait_until_tiered("tides")
    topics.wait_until_tiered("tides-more")

    async def follow() -> None:
        async with Admin(cluster.bootstrap_servers) as admin:
            followed = MetadataTier(admin, {"bootstrap_servers": cluster.bootstrap_servers})
            tier = (await followed.tiers([tides]))[tides]
            assert offset_ranges(tier)[-1][2] == first.local_start
            by_bucket = BucketTier(bucket_of(cluster)).partitions(["tides"])
            assert by_bucket.keys() == {tides}
            assert offset_ranges(by_bucket[tides].tier) == offset_ranges(tier)
            assert (by_bucket[tides].start_offset, by_bucket[tides].end_offset) == (0, first.local_start)
            assert offset_ranges(tier, 1500)[0][1] == 1500

            before = followed.records_read
            assert offset_ranges((await followed.tiers([tides]))[tides]) == offset_ranges(tier)
            assert followed.records_read == before
            await asyncio.to_thread(
                produce, cluster.bootstrap_servers, "tides", numbered_records(4000, size=700)
            )
            second = await asyncio.to_thread(topics.wait_until_tiered, "tides")
            tier = (await followed.tiers([tides, TopicPartition("nowhere", 0)]))[tides]
            assert offset_ranges(tier)[-1][2] == second.local_start > first.local_start
            assert followed.records_read < 2 * before + 10
            more = TopicPartition("tides-more", 0)
            both = await followed.tiers([tides, more])
            assert offset_ranges(both[tides]) == offset_ranges(tier) and offset_ranges(both[more])

    asyncio.run(follow())


def test_an_unreadable_metadata_partition_stops_reading_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second attempt must not meet records that the first attempt still reads."""
    names = {TopicIdPartition(UUID(int=1), "events", number) for number in range(30)}
    begun: set[int] = set()
    ended: set[int] = set()

    async def read_records(number: int, *_: object) -> None:
        begun.add(number)
        try:
            if len(begun) < 3:
                await asyncio.Event().wait()
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        finally:
            ended.add(number)

    async def bounds(numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(numbers, (0, 9))

    async def count(_: BrokerQueries) -> int:
        return 8

    async def follow() -> None:
        tier = MetadataTier(cast("Admin", None), {})
        monkeypatch.setattr(BrokerQueries, "metadata_partition_count", count)
        monkeypatch.setattr(tier, "_bounds", bounds)
        monkeypatch.setattr(tier, "_read_records", read_records)
        with pytest.raises(KafkaError, match="corrupt"):
            await tier._follow(names)
        assert len(begun) >= 3 and ended == begun

    asyncio.run(follow())


def test_the_newer_topic_of_a_recreated_name_is_read(cluster: EmbeddedCluster) -> None:
    topics = TieredTopics(cluster)
    name = TopicPartition("again", 0)
    bucket = BucketTier(bucket_of(cluster))
    topics.create("again")
    produce(cluster.bootstrap_servers, "again", numbered_records(4000, size=700))
    topics.wait_until_tiered("again")
    old = bucket.partitions(["again"])[name]
    kept = {path: path.read_bytes() for path in topics.objects("again-")}
    topics.delete("again")
    topics.create("again")
    produce(cluster.bootstrap_servers, "again", numbered_records(2000, size=700))
    topics.wait_until_tiered("again")
    new = next(iter(bucket.topics()["again"] - {old.tier.partition.topic_id}), None)
    for path, data in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert bucket.topics()["again"] == {old.tier.partition.topic_id, new}
    assert bucket.partitions(["again"])[name].tier.partition.topic_id == new
    chosen = bucket.partitions(["again"], {"again": old.tier.partition.topic_id})[name]
    assert offset_ranges(chosen.tier) == offset_ranges(old.tier)
    topics.delete("again")


def test_aborted_transactions_include_later_segments_and_a_missing_segment_is_reported(
    tmp_path: Path,
) -> None:
    tier = TierBucket(tmp_path)
    tier.fill(1)
    tier.fill_with_aborts()
    tier.fill(1)
    tier.copy()
    ((name, partition_tier),) = BucketTier(tier.bucket).partitions(["events"]).items()
    assert name == ("events", 0)
    expected = tier.log.aborted_transactions(0, tier.log.log_end_offset)
    assert len(expected) == 2
    whole = aborted_transactions(tier.bucket.storage, partition_tier.tier, 0, partition_tier.end_offset)
    assert whole.transactions == expected
    first = expected[0].first_offset
    assert aborted_transactions(tier.bucket.storage, partition_tier.tier, 0, first).transactions == []
    tier.file(1, "rsm-manifest").unlink()
    tier.bucket.storage.discard_cached(tier.segments[1], 0, 0)
    with pytest.raises(RemoteResourceNotFound):
        aborted_transactions(tier.bucket.storage, partition_tier.tier, 0, partition_tier.end_offset)
