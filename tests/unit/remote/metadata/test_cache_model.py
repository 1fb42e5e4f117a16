"""The cache compared with plain lists: lookups, listings, counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.tier.segment_metadata import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    STARTED,
    copy_start,
    step,
)
from tidelog.remote.metadata.cache import Outcome, RemoteLogMetadataCache
from tidelog.remote.metadata.record_codec import decode_event, encode_event
from tidelog.remote.metadata.snapshot import decode_snapshot, encode_snapshot
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

EPOCHS = range(4)
OFFSETS = range(60)


def number_of(event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> int:
    """Return the number of the event's segment."""
    return event.remote_log_segment_id.id.int - 1


@dataclass
class Model:
    """Segments by number, and the finished ones in the order in which their copies were finished."""

    segments: dict[int, RemoteLogSegmentMetadata] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    highest: dict[int, int] = field(default_factory=dict)

    def offset_ranges(self, number: int) -> list[tuple[int, range]]:
        """Return the offsets of each epoch in a segment."""
        segment = self.segments[number]
        starts = [*(entry.start_offset for entry in segment.segment_leader_epochs), segment.end_offset + 1]
        epochs = [entry.epoch for entry in segment.segment_leader_epochs]
        return [(epoch, range(starts[index], starts[index + 1])) for index, epoch in enumerate(epochs)]

    def apply(self, event: RemoteLogEvent) -> Outcome:
        if isinstance(event, RemoteLogSegmentMetadata):
            return self.add(event)
        assert isinstance(event, RemoteLogSegmentMetadataUpdate)
        number = number_of(event)
        if number not in self.segments:
            return Outcome.UNKNOWN_SEGMENT
        before = self.segments[number].state
        legal = {STARTED: (FINISHED, DELETING), FINISHED: (DELETING,), DELETING: (DELETED,)}[before]
        if event.state is not before and event.state not in legal:
            return Outcome.ILLEGAL_MOVE
        custom_metadata = self.segments[number].custom_metadata
        self.segments[number] = replace(
            self.segments[number],
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            state=event.state,
            custom_metadata=custom_metadata if event.custom_metadata is None else event.custom_metadata,
        )
        if event.state is before:
            return Outcome.ILLEGAL_MOVE if before is STARTED else Outcome.REPEATED
        if event.state is FINISHED:
            self.finished.append(number)
            for epoch, offsets in self.offset_ranges(number):
                self.highest[epoch] = max(self.highest.get(epoch, -1), offsets.stop - 1)
        elif number in self.finished:
            self.finished.remove(number)
        if event.state is DELETED:
            del self.segments[number]
        return Outcome.APPLIED

    def serving_segments(self) -> dict[tuple[int, int], int]:
        """Return the segment of each offset of each epoch: the one that was finished last."""
        return {
            (epoch, offset): number
            for number in self.finished
            for epoch, offsets in self.offset_ranges(number)
            for offset in offsets
        }

    def add(self, segment: RemoteLogSegmentMetadata) -> Outcome:
        number = number_of(segment)
        if number in self.segments:
            is_same = self.segments[number].state is STARTED
            return Outcome.REPEATED if is_same else Outcome.ILLEGAL_MOVE
        self.segments[number] = segment
        return Outcome.APPLIED


class CacheMachine(RuleBasedStateMachine):
    """Applies the same events to the cache and to the model, and compares them."""

    @initialize()
    def begin(self) -> None:
        self.cache = RemoteLogMetadataCache(PARTITION)
        self.model = Model()
        self.begun = 0
        self.history: list[RemoteLogEvent] = []

    def apply(self, event: RemoteLogEvent) -> None:
        event = decode_event(encode_event(event))
        if isinstance(event, RemoteLogSegmentMetadata):
            outcome = self.cache.add(event)
        else:
            assert isinstance(event, RemoteLogSegmentMetadataUpdate)
            assert self.cache.outcome_of(event) is not None
            outcome = self.cache.update(event)
        assert outcome is self.model.apply(event)

    @rule(
        start=st.integers(0, 50),
        length=st.integers(1, 20),
        first_epoch=st.integers(0, 3),
        cuts=st.lists(st.integers(1, 19), max_size=3, unique=True),
        custom=st.none() | st.binary(max_size=4),
        is_txn_index_empty=st.booleans(),
    )
    def a_copy_begins(  # one line a fact of the segment
        self,
        start: int,
        length: int,
        first_epoch: int,
        cuts: list[int],
        custom: bytes | None,
        is_txn_index_empty: bool,
    ) -> None:
        places = [start, *(start + cut for cut in sorted(cuts) if cut < length)][: len(EPOCHS) - first_epoch]
        event = copy_start(
            self.begun,
            start,
            start + length - 1,
            tuple((first_epoch + index, place) for index, place in enumerate(places)),
            size_bytes=length,
            custom_metadata=custom,
            is_txn_index_empty=is_txn_index_empty,
        )
        self.begun += 1
        self.history.append(event)
        self.apply(event)

    @precondition(lambda self: self.history)
    @rule(
        which=st.integers(0, 1000),
        state=st.sampled_from([FINISHED, FINISHED, FINISHED, DELETING, DELETED]),
        custom=st.none() | st.binary(max_size=4),
    )
    def a_step_is_applied(self, which: int, state: RemoteLogSegmentState, custom: bytes | None) -> None:
        event = step(which % (self.begun + 1), state, custom_metadata=custom)
        self.history.append(event)
        self.apply(event)

    @precondition(lambda self: self.model.segments)
    @rule(which=st.integers(0, 1000))
    def a_segment_takes_its_next_step(self, which: int) -> None:
        number = sorted(self.model.segments)[which % len(self.model.segments)]
        event = step(number, RemoteLogSegmentState(self.model.segments[number].state + 1))
        self.history.append(event)
        self.apply(event)

    @precondition(lambda self: self.history)
    @rule(which=st.integers(0, 1000))
    def an_old_record_is_repeated(self, which: int) -> None:
        event = self.history[which % len(self.history)]
        if isinstance(event, RemoteLogSegmentMetadata) and number_of(event) not in self.model.segments:
            return  # a log contains the begin once, unless it is replayed completely
        self.apply(event)

    @rule()
    def the_node_restarts_from_a_snapshot(self) -> None:
        snapshot = decode_snapshot(encode_snapshot(self.cache.frozen(), 7, 100), PARTITION)
        highest = self.cache.highest_offsets()
        self.cache = snapshot.cache
        self.cache.restore_highest_offsets(highest)

    @invariant()
    def lookups_are_equal(self) -> None:
        serving = self.model.serving_segments()
        for epoch in EPOCHS:
            for offset in OFFSETS:
                segment = self.cache.segment(epoch, offset)
                expected = serving.get((epoch, offset))
                assert (segment is None) == (expected is None), (epoch, offset)
                if expected is not None:
                    assert segment == self.model.segments[expected]
            assert self.cache.highest_offset(epoch) == self.model.highest.get(epoch)
            members = [
                number for number in self.model.segments if epoch in dict(self.model.offset_ranges(number))
            ]
            listed = list(self.cache.segments(epoch))
            assert [entry.start_offset for entry in listed] == sorted(entry.start_offset for entry in listed)
            assert {number_of(entry) for entry in listed} == set(members)
            assert len(listed) == len(members)

    @invariant()
    def listings_are_equal(self) -> None:
        assert {number_of(entry): entry for entry in self.cache.segments()} == self.model.segments
        assert len(self.cache) == len(self.model.segments)

    @invariant()
    def transaction_indexes_are_found(self) -> None:
        serving = self.model.serving_segments()
        for epoch in EPOCHS:
            for offset in OFFSETS[::7]:
                places = sorted(
                    (place, by)
                    for (in_epoch, place), by in serving.items()
                    if in_epoch == epoch
                    and place >= offset
                    and not self.model.segments[by].is_txn_index_empty
                )
                segment = self.cache.next_with_txn_index(epoch, offset)
                assert (segment and number_of(segment)) == (places[0][1] if places else None)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
