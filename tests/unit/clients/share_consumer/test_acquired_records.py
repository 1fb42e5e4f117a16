"""The acquired records of a share consumer: ranges, decisions, gaps and acknowledgements."""

from __future__ import annotations

from tidelog.clients.consumer.consumer_types import ConsumerRecord, TimestampType
from tidelog.clients.share_consumer.acquired_records import (
    Acknowledgement,
    AcquiredOffsets,
    AcquiredRange,
    acquired_ranges,
    merged,
)
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def record(offset: int) -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"", (), 0)


def records(*offsets: int) -> list[ConsumerRecord]:
    return [record(offset) for offset in offsets]


def acquired_range(first: int, last: int, *missing: int) -> AcquiredRange:
    offsets = (offset for offset in range(first, last + 1) if offset not in missing)
    return AcquiredRange(AcquiredOffsets(first, last, 1), records(*offsets))


def test_records_are_assigned_to_their_ranges() -> None:
    offsets = [AcquiredOffsets(2, 3, 1), AcquiredOffsets(5, 9, 2)]
    ranges = acquired_ranges(offsets, [records(0, 1, 2), records(3, 4, 5), records(6, 7), records(9, 10)])
    assert [[one.offset for one in each.records] for each in ranges] == [[2, 3], [5, 6, 7, 9]]
    assert [each.delivery_count for each in ranges] == [1, 2]


def test_ranges_without_records_are_kept() -> None:
    offsets = [AcquiredOffsets(0, 0, 1), AcquiredOffsets(4, 4, 1), AcquiredOffsets(6, 6, 1)]
    ranges = acquired_ranges(offsets, [records(0), records(6)])
    assert [len(each.records) for each in ranges] == [1, 0, 1]


def test_a_complete_range_is_accepted_with_one_type() -> None:
    assert acquired_range(5, 9).acknowledgement() == Acknowledgement(5, 9, (ACCEPT,))


def test_missing_offsets_are_acknowledged_as_gaps() -> None:
    assert acquired_range(5, 8, 6).acknowledgement() == Acknowledgement(5, 8, (ACCEPT, 0, ACCEPT, ACCEPT))
    assert acquired_range(5, 6, 5, 6).acknowledgement() == Acknowledgement(5, 6, (0,))


def test_single_decisions_have_their_own_types() -> None:
    one = acquired_range(0, 3, 2)
    assert one.undecided_count == 3
    assert one.decide(0, AcknowledgeType.REJECT) and not one.decide(2, AcknowledgeType.ACCEPT)
    assert one.undecided_count == 2
    one.decide_rest(AcknowledgeType.RELEASE)
    assert one.acknowledgement() == Acknowledgement(0, 3, (REJECT, RELEASE, 0, RELEASE))


def test_equal_decisions_are_sent_as_one_type() -> None:
    one = acquired_range(0, 2)
    for offset in range(3):
        one.decide(offset, AcknowledgeType.RELEASE)
    assert one.acknowledgement() == Acknowledgement(0, 2, (RELEASE,))


def test_the_undecided_part_of_a_range_is_divided_from_the_rest() -> None:
    one = acquired_range(0, 5, 3)
    one.decide(1, AcknowledgeType.ACCEPT)
    one.decide(2, AcknowledgeType.REJECT)
    decided, undecided = one.divided()
    assert [each.acknowledgement() for each in decided] == [Acknowledgement(1, 3, (ACCEPT, REJECT, 0))]
    assert [(each.first_offset, each.last_offset) for each in undecided] == [(0, 0), (4, 5)]
    assert [[each.offset for each in part.records] for part in undecided] == [[0], [4, 5]]


def test_renewed_records_are_ranges_without_decisions() -> None:
    one = acquired_range(0, 5)
    for offset, kind in enumerate((ACCEPT, RENEW, RENEW, ACCEPT, RENEW, ACCEPT)):
        one.decide(offset, AcknowledgeType(kind))
    again = one.renewed()
    assert [(each.first_offset, each.last_offset, each.undecided_count) for each in again] == [
        (1, 2, 2),
        (4, 4, 1),
    ]


def test_neighbours_with_the_same_type_are_merged() -> None:
    ranges = [
        Acknowledgement(5, 9, (ACCEPT,)),
        Acknowledgement(0, 4, (ACCEPT,)),
        Acknowledgement(10, 11, (ACCEPT, RELEASE)),
        Acknowledgement(13, 14, (ACCEPT,)),
    ]
    assert merged(ranges) == [Acknowledgement(0, 9, (ACCEPT,)), *ranges[2:]]
