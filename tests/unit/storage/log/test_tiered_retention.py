"""Local segments that retention of a tiered log deletes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.configs import log_config
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.retention import LogBounds
from tidelog.storage.log.tiered_retention import RemoteBounds, is_tiered, local_retention

TIERED = log_config(remote_storage_enable=True, retention_ms=-1, retention_bytes=-1)


@dataclass
class FakeSegment:
    base_offset: int
    size_bytes: int = 100
    timestamp: int = 0

    def largest_timestamp(self) -> int:
        return self.timestamp


def retained_offsets(
    config: LogConfig,
    *,
    log_start: int = 0,
    local_start: int = 0,
    high_watermark: int = 40,
    highest_remote: int = -1,
    is_known: bool = True,
    timestamps: tuple[int, ...] = (0, 0, 0, 0),
    last_size: int = 100,
) -> tuple[list[int], bool]:
    """Return the deleted segments of those at 0, 10, 20 and the active one at 30, and whether it rolls."""
    segments = [FakeSegment(index * 10, 100, timestamp) for index, timestamp in enumerate(timestamps)]
    segments[-1].size_bytes = last_size
    retention = local_retention(
        segments,
        config,
        LogBounds(log_start, high_watermark, 40),
        RemoteBounds(local_start, highest_remote, is_known),
        now_ms=1_000,
    )
    return [segment.base_offset for segment in retention.expired], retention.rolls


def test_local_limits_apply_to_the_local_log_instead_of_the_total_ones() -> None:
    config = replace(
        TIERED, retention_ms=10, local_retention_ms=-1, retention_bytes=10, local_retention_bytes=-1
    )
    assert retained_offsets(config, highest_remote=39) == ([], False)
    assert retained_offsets(replace(TIERED, local_retention_bytes=200), highest_remote=39) == ([0, 10], False)
    config = replace(TIERED, local_retention_ms=500)
    assert retained_offsets(config, highest_remote=39, timestamps=(1, 1, 900, 900)) == ([0, 10], False)


def test_the_total_limits_apply_to_the_local_log_without_local_ones() -> None:
    assert retained_offsets(replace(TIERED, retention_bytes=200), highest_remote=39) == ([0, 10], False)
    config = replace(TIERED, retention_ms=500)
    assert retained_offsets(config, highest_remote=39, timestamps=(1, 900, 1, 1)) == ([0], False)


@pytest.mark.parametrize(
    ("highest_remote", "base_offsets"), [(-1, []), (8, []), (9, [0]), (18, [0]), (29, [0, 10, 20])]
)
def test_segments_that_are_not_remote_are_kept_at_any_age(
    highest_remote: int, base_offsets: list[int]
) -> None:
    config = replace(TIERED, local_retention_ms=0, local_retention_bytes=0)
    assert retained_offsets(config, highest_remote=highest_remote)[0] == base_offsets


def test_the_active_segment_is_rolled_when_it_is_the_last_expired_one() -> None:
    config = replace(TIERED, local_retention_ms=500)
    assert retained_offsets(config, highest_remote=29) == ([0, 10, 20], True)
    assert retained_offsets(config, highest_remote=19) == ([0, 10], False)
    assert retained_offsets(config, highest_remote=29, last_size=0) == ([0, 10, 20], False)
    assert retained_offsets(config, highest_remote=29, timestamps=(0, 0, 0, 900)) == ([0, 10, 20], False)


def test_the_active_segment_is_never_deleted() -> None:
    config = replace(TIERED, local_retention_ms=0)
    assert retained_offsets(config, highest_remote=39) == ([0, 10, 20], True)


def test_kafka_20732_nothing_is_deleted_before_the_remote_end_is_known() -> None:
    config = replace(TIERED, local_retention_ms=0, local_retention_bytes=0)
    assert retained_offsets(config, highest_remote=39, is_known=False) == ([], False)
    assert retained_offsets(config, highest_remote=39, is_known=False, log_start=25, local_start=25) == (
        [0, 10],
        False,
    )


def test_segments_below_the_log_start_are_deleted_without_a_remote_copy() -> None:
    assert retained_offsets(TIERED, log_start=25, local_start=25) == ([0, 10], False)


def test_segments_beyond_the_high_watermark_are_kept() -> None:
    config = replace(TIERED, local_retention_bytes=0)
    assert retained_offsets(config, highest_remote=39, high_watermark=19) == ([0], False)


def test_kip_950_the_total_limits_apply_without_remote_copies_while_copying_is_disabled() -> None:
    config = replace(TIERED, remote_log_copy_disable=True, retention_bytes=200)
    assert retained_offsets(config) == ([0, 10], False)
    assert retained_offsets(config, is_known=False) == ([0, 10], False)
    config = replace(TIERED, remote_log_copy_disable=True, retention_ms=500)
    assert retained_offsets(config) == ([0, 10, 20, 30], False)


def test_kip_1161_an_empty_policy_retains_remote_records_but_not_local_ones() -> None:
    config = replace(TIERED, cleanup_policy=(), local_retention_bytes=200)
    assert retained_offsets(config, highest_remote=39) == ([0, 10], False)
    assert retained_offsets(replace(config, remote_log_copy_disable=True, retention_bytes=0)) == ([], False)


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__remote_log_metadata",
        "__cluster_metadata",
    ],
)
def test_internal_topics_are_never_tiered(topic: str) -> None:
    assert is_tiered(TopicPartition("t", 0), TIERED, is_system_enabled=True)
    assert not is_tiered(TopicPartition(topic, 0), TIERED, is_system_enabled=True)


def test_a_log_is_tiered_only_with_node_and_topic_config_and_without_compaction() -> None:
    name = TopicPartition("t", 0)
    assert not is_tiered(name, TIERED, is_system_enabled=False)
    assert not is_tiered(name, replace(TIERED, remote_storage_enable=False), is_system_enabled=True)
    for policy in (("compact",), ("compact", "delete")):
        assert not is_tiered(name, replace(TIERED, cleanup_policy=policy), is_system_enabled=True)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_deleted_segments_are_contiguous_and_remote_or_below_the_log_start(
    data: st.DataObject,
) -> None:
    draw = data.draw
    log_start = draw(st.integers(0, 40))
    local_start = draw(st.integers(log_start, 40))
    highest_remote = draw(st.integers(-1, 39))
    limits = st.sampled_from([-2, -1, 0, 150, 500])
    config = replace(TIERED, local_retention_ms=draw(limits), local_retention_bytes=draw(limits))
    high_watermark = draw(st.integers(local_start, 40))
    base_offsets, _ = retained_offsets(
        config,
        log_start=log_start,
        local_start=local_start,
        high_watermark=high_watermark,
        highest_remote=highest_remote,
        is_known=draw(st.booleans()),
        timestamps=tuple(draw(st.lists(st.sampled_from([0, 499, 900]), min_size=4, max_size=4))),
    )
    assert base_offsets == [0, 10, 20][: len(base_offsets)]
    for base_offset in base_offsets:
        end = base_offset + 10
        assert end <= max(highest_remote + 1, log_start)
        assert end <= high_watermark
