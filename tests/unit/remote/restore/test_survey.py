"""The topics in a bucket, with listings that are older than the objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tier.bucket import TierBucket
from tests.support.tier.remote_tier import PARTITION
from tidelog.remote.objects.stores.port import ObjectInfo
from tidelog.remote.restore.plan import PlanOptions, topic_plan
from tidelog.remote.restore.survey import survey


class OldListings:
    """Lets the first `count` listings of a bucket lack the objects whose keys contain `part`."""

    def __init__(self, bucket: TierBucket, part: str, count: int = 1) -> None:
        self._list = bucket.bucket.storage.store.list
        self._part = part
        self._left = count

    def __call__(self, prefix: str) -> Iterator[ObjectInfo]:
        is_old = self._left > 0
        self._left -= 1
        return (info for info in self._list(prefix) if not (is_old and self._part in info.key))


@pytest.fixture
def tier(tmp_path: Path) -> TierBucket:
    filled = TierBucket(tmp_path)
    filled.fill(3)
    filled.copy()
    return filled


def plan_of(tier: TierBucket, **options: Any) -> Any:
    ((name, topic_id), partitions), *_ = survey(tier.bucket, []).items()
    return topic_plan(name, topic_id, partitions, PlanOptions(**options))


def test_a_bucket_is_restored_to_its_newest_segment(tier: TierBucket) -> None:
    plan = plan_of(tier)
    assert plan.problems == ()
    assert plan.partitions[0].end_offset == tier.segments[-1].end_offset + 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_listing_that_lacks_a_segment_is_detected_by_the_next_one(
    tier: TierBucket, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = f"/{tier.segments[number].start_offset:020d}-"
    monkeypatch.setattr(tier.bucket.storage.store, "list", OldListings(tier, part))
    plan = plan_of(tier, accepts_gaps=True)
    assert "appeared while the bucket was read" in plan.problems[0]
    assert part in plan.problems[0]


def test_a_listing_that_lacks_a_whole_topic_is_detected_by_the_next_one(
    tier: TierBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tier.bucket.storage.store, "list", OldListings(tier, f"{PARTITION.topic}-"))
    plan = plan_of(tier)
    assert "appeared while the bucket was read" in plan.problems[0]


def test_segments_of_a_topic_in_use_may_appear(tier: TierBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    part = f"/{tier.segments[2].start_offset:020d}-"
    monkeypatch.setattr(tier.bucket.storage.store, "list", OldListings(tier, part))
    plan = plan_of(tier, is_live=True)
    assert plan.problems == ()
    assert plan.partitions[0].end_offset == tier.segments[1].end_offset + 1


def test_a_listing_with_a_deleted_manifest_is_reported_and_its_segment_left_out(
    tier: TierBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = list(tier.bucket.storage.store.list(""))
    tier.file(1, "rsm-manifest").unlink()
    monkeypatch.setattr(tier.bucket.storage.store, "list", lambda prefix: iter(listed))
    assert "--accept-gaps restores the rest" in plan_of(tier).problems[0]
    (partition,) = plan_of(tier, accepts_gaps=True).partitions
    assert partition.start_offset == tier.segments[2].start_offset
    assert any("is missing" in each.reason for each in partition.left_out)
