"""Excerpts of the segments of a log: plans of expiration from them equal the plans of all segments."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.support.tier.segment_metadata import DELETING, FINISHED, PARTITION, STARTED, copy_start, step
from tidelog.remote.expiry.plan import ExpirationView, Retention, plan_expiration, plan_from_excerpt
from tidelog.remote.metadata import excerpt as excerpts
from tidelog.remote.metadata.cache import RemoteLogMetadataCache
from tidelog.remote.ports.metadata_manager import SegmentExcerpt
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentState
from tidelog.remote.tasks.remote_lineage import EpochLineage
from tidelog.storage.leader_epoch import EpochEntry

LOG_END = 100_000_000
LINEAGE = [EpochEntry(1, 0), EpochEntry(2, 95), EpochEntry(4, 250)]


class Segments:
    """A cache that is filled segment by segment."""

    def __init__(self) -> None:
        self.cache = RemoteLogMetadataCache(PARTITION)
        self._count = 0

    def add(
        self,
        start: int,
        end: int,
        epochs: int | list[tuple[int, int]] = 1,
        state: RemoteLogSegmentState = FINISHED,
        size_bytes: int = 1000,
    ) -> None:
        self.cache.add(copy_start(self._count, start, end, epochs, size_bytes=size_bytes))
        if state is not STARTED:
            self.cache.update(step(self._count, FINISHED))
        if state is DELETING:
            self.cache.update(step(self._count, DELETING))
        self._count += 1

    def excerpt(self, entries: list[EpochEntry], log_end_offset: int = LOG_END) -> SegmentExcerpt | None:
        lineage = EpochLineage(entries)
        return self.cache.excerpt(lambda epoch: lineage.range_of(epoch, log_end_offset))

    def starts(self, entries: list[EpochEntry]) -> list[int]:
        excerpt = self.excerpt(entries)
        assert excerpt is not None
        return [segment.start_offset for segment in excerpt.segments]


def test_an_excerpt_of_a_long_log_has_its_oldest_segments() -> None:
    segments = Segments()
    for start in range(0, 100_000, 100):
        segments.add(start, start + 99)
    excerpt = segments.excerpt([EpochEntry(1, 0)])
    assert excerpt is not None and excerpt.last_regular is not None
    assert [each.start_offset for each in excerpt.segments] == list(range(0, excerpts.OLDEST_MAX * 100, 100))
    assert excerpt.last_regular == excerpt.segments[-1]
    assert excerpt.other_bytes == (1000 - excerpts.OLDEST_MAX) * 1000
    assert (excerpt.other_end_offset, excerpt.segment_count, excerpt.size_bytes) == (100_000, 1000, 1_000_000)
    assert excerpt.reaches(6300) and excerpt.reaches(6399) and not excerpt.reaches(6400)


def test_segments_that_are_no_usual_part_of_the_log_are_all_in_the_excerpt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(excerpts, "OLDEST_MAX", 1)
    segments = Segments()
    for start in range(0, 90, 10):
        segments.add(start, start + 9)
    segments.add(90, 109, [(1, 90), (2, 95)])
    segments.add(110, 119, 2, STARTED)
    segments.add(120, 129, 2, DELETING)
    segments.add(130, 139, 2)
    segments.add(135, 144, 2)  # overlaps the one before
    segments.add(145, 150, 3)  # of an epoch that the log does not have
    segments.add(250, 259, 4)
    assert segments.starts(LINEAGE) == [0, 110, 120, 130, 135, 145]
    assert segments.starts([EpochEntry(1, 0), EpochEntry(2, 95), EpochEntry(4, 255)])[-1] == 250


def test_too_many_irregular_segments_have_no_excerpt() -> None:
    segments = Segments()
    for start in range(excerpts.IRREGULAR_MAX + 1):
        segments.add(start * 10, start * 10 + 9, state=STARTED)
    assert segments.excerpt([EpochEntry(1, 0)]) is None
    segments = Segments()
    for start in range(excerpts.IRREGULAR_MAX + 1):
        segments.add(start * 10, start * 10 + 9)
    assert segments.excerpt([EpochEntry(2, 0)]) is None
    assert segments.excerpt([EpochEntry(1, 0)]) is not None


def test_deleted_segments_leave_the_totals() -> None:
    segments = Segments()
    for start in (0, 10, 20):
        segments.add(start, start + 9)
    for number in (0, 1):
        segments.cache.update(step(number, DELETING))
    segments.cache.update(step(0, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED))
    excerpt = segments.excerpt([EpochEntry(1, 0)])
    assert excerpt is not None
    assert (excerpt.segment_count, excerpt.size_bytes, excerpt.other_bytes) == (2, 2000, 0)
    assert excerpt.last_regular is None and excerpt.reaches(10**9)


def random_segments(random: Random) -> tuple[Segments, list[EpochEntry]]:
    """Return the segments of a log after elections, some of them unclean, and the epochs of its leader."""
    segments, entries, offset = Segments(), [EpochEntry(0, 0)], 0
    states = random.choice([[FINISHED], [FINISHED] * 8 + [STARTED, DELETING]])
    for epoch in range(random.randrange(1, 4)):
        if epoch:
            entries.append(EpochEntry(epoch, offset))
        for _ in range(random.randrange(6)):
            start = max(0, offset - random.choice([0, 0, 0, 0, 5, 15]))
            end = offset + random.choice([4, 9])
            parts = [(each.epoch, max(each.start_offset, start)) for each in entries]
            ends = [*(part[1] for part in parts[1:]), end + 1]
            parts = [part for part, part_end in zip(parts, ends, strict=True) if part[1] < part_end]
            if random.random() < 0.1:
                parts = [(random.randrange(5), start)]
            state = random.choice(states)
            segments.add(start, end, parts, state, random.randrange(1, 5) * 100)
            if state is FINISHED:
                offset = end + 1
        offset = max(0, offset - random.choice([0, 0, 0, 3]))
    if random.random() < 0.3:
        entries[-1] = EpochEntry(entries[-1].epoch, random.randrange(offset + 1))
    if len(entries) > 1 and random.random() < 0.3:
        del entries[0]
    entries = [entry for entry in entries if entry.start_offset <= entries[-1].start_offset]
    return segments, entries


def random_view(random: Random, segments: Segments, entries: list[EpochEntry]) -> ExpirationView:
    every = list(segments.cache.segments())
    end = max((segment.end_offset for segment in every), default=0) + 1
    in_progress = [segment.remote_log_segment_id.id for segment in every if random.random() < 0.03]
    return ExpirationView(
        segments=every,
        epochs=entries,
        log_start_offset=random.choice([0, 0, random.randrange(end)]),
        high_watermark=random.choice([end, end, random.randrange(end + 1)]),
        log_end_offset=random.choice([end + 5, end + 5, random.randrange(end + 1)]),
        copied_offset=random.choice([end - 1, random.randrange(end)]),
        local_only_bytes=random.randrange(300),
        in_progress=in_progress,
        retention=Retention(
            random.choice([None, 3000, 2980, 2950]), random.choice([None, 0, 500, 1000, 2000, 5000])
        ),
        now_ms=4000,
    )


def test_a_plan_from_an_excerpt_is_the_plan_of_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpts, "OLDEST_MAX", 2)
    random, partial, with_deletions, with_bounds = Random(7), 0, 0, 0
    for _ in range(4000):
        segments, entries = random_segments(random)
        view = random_view(random, segments, entries)
        excerpt = segments.excerpt(entries, view.log_end_offset)
        assert excerpt is not None
        assert excerpt.segment_count == len(view.segments)
        assert excerpt.size_bytes == sum(segment.segment_size_bytes for segment in view.segments)
        if not excerpt.reaches(view.log_start_offset):
            continue
        plan, complete = plan_from_excerpt(replace(view, segments=()), excerpt), plan_expiration(view)
        if plan is None:
            assert complete.deletions
            continue
        assert plan == complete, (view, excerpt)
        listed = {segment.remote_log_segment_id.id for segment in excerpt.segments}
        if listed.issuperset(view.in_progress):  # another segment in progress is not deleted later
            assert plan.idle == complete.idle, (view, excerpt)
        if excerpt.last_regular is not None:
            partial += 1
            with_deletions += bool(plan.deletions)
            with_bounds += plan.idle is not None
    assert min(partial, with_deletions) > 100 and with_bounds > 40
