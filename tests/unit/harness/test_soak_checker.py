"""The checker of the soak run accepts a valid history and reports every injected anomaly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.soak.checker import Anomaly, check
from tests.harness.soak.history import FINAL_READER, Event
from tests.harness.soak.memory import Sample, growth_of_start, growth_over_starts, slope
from tests.harness.soak.values import DAMAGED, value_of, writer_of
from tests.support.histories import good_history

Damage = Callable[[list[Event]], None]


def index_of(events: list[Event], process: str, f: str, type: str, number: int = 0) -> int:
    indexes = [
        index
        for index, event in enumerate(events)
        if (event.process, event.f, event.type) == (process, f, type)
    ]
    return indexes[number]


def change(process: str, f: str, type: str, value: object, number: int = 0) -> Damage:
    """Replace the value of one event."""

    def damage(events: list[Event]) -> None:
        at = index_of(events, process, f, type, number)
        events[at] = events[at]._replace(value=value)

    return damage


def insert(before: tuple[str, str, str], event: Event) -> Damage:
    """Insert an event before another one."""

    def damage(events: list[Event]) -> None:
        events.insert(index_of(events, *before), event)

    return damage


def swap_in_log(events: list[Event]) -> None:
    """Swap the records at offsets 0 and 1 of partition 1 in every recorded read."""
    at = index_of(events, FINAL_READER, "poll", "ok", 1)
    events[at] = events[at]._replace(value=[1, 0, [[1, 4], [1, 3], [1, 5]]])
    for index, event in enumerate(events):
        if event.f == "send" and event.type == "ok" and event.value[0][:2] in ([3, 1], [4, 1]):
            number = event.value[0][0]
            events[index] = event._replace(value=[[number, 1, 4 - number]])


ALL_OF_0 = [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2], [1, 6], [1, 7], [1, 8]]
FINAL_0 = (FINAL_READER, "poll", "ok")

DAMAGES: list[tuple[str, Anomaly, Damage]] = [
    ("the end of the log is lost", Anomaly.LOST, change(*FINAL_0, [0, 0, ALL_OF_0[:8]])),
    ("the start of the log is lost", Anomaly.LOST, change(*FINAL_0, [0, 1, ALL_OF_0[1:]])),
    ("all records of a partition are lost", Anomaly.LOST, change(*FINAL_0, [1, 0, []], 1)),
    (
        "acknowledged at the offset of another record",
        Anomaly.TWO_VALUES,
        change("2", "send", "ok", [[0, 0, 4]]),
    ),
    (
        "two readers read different records",
        Anomaly.TWO_VALUES,
        change("reader", "poll", "ok", [0, 0, [*ALL_OF_0[:3], [2, 1]]]),
    ),
    ("a record is repeated", Anomaly.DUPLICATE, change(*FINAL_0, [0, 0, [*ALL_OF_0, [1, 8]]])),
    (
        "a record is repeated in another partition",
        Anomaly.DUPLICATE,
        change(*FINAL_0, [1, 0, [[1, 3], [1, 4], [1, 5], [1, 6]]], 1),
    ),
    ("two records are swapped", Anomaly.DISORDER, swap_in_log),
    ("a poll omits records", Anomaly.GAP, change("reader", "poll", "ok", [0, 5, ALL_OF_0[5:]], 1)),
    (
        "a poll returns earlier records again",
        Anomaly.GAP,
        change("reader", "poll", "ok", [0, 3, ALL_OF_0[3:]], 1),
    ),
    ("a number that was never sent", Anomaly.INVENTED, change(*FINAL_0, [0, 0, [*ALL_OF_0, [1, 99]]])),
    ("an unknown producer", Anomaly.INVENTED, change(*FINAL_0, [0, 0, [*ALL_OF_0, [9, 0]]])),
    ("sent to another partition", Anomaly.MISPLACED, change("1", "send", "invoke", [1, 0, 2])),
    ("bytes changed", Anomaly.DAMAGED, change("reader", "poll", "ok", [0, 0, [[1, 0], list(DAMAGED)]])),
    ("a commit is lost", Anomaly.COMMIT_LOST, change("group/question", "committed", "ok", [])),
    (
        "a committed offset decreases",
        Anomaly.COMMIT_LOST,
        change("group/question", "committed", "ok", [[0, 3]]),
    ),
    (
        "a committed offset that was never committed",
        Anomaly.COMMIT_INVENTED,
        change("group/question", "committed", "ok", [[0, 5]]),
    ),
    (
        "an offset of another partition",
        Anomaly.COMMIT_INVENTED,
        change("group/question", "committed", "ok", [[0, 4], [1, 1]]),
    ),
    (
        "a member starts too early",
        Anomaly.RESUMED_EARLY,
        change("group/b", "poll", "ok", [0, 2, ALL_OF_0[2:]]),
    ),
    ("a member starts too late", Anomaly.RESUMED_LATE, change("group/b", "poll", "ok", [0, 6, ALL_OF_0[6:]])),
    (
        "two members accept a record",
        Anomaly.ACCEPTED_TWICE,
        insert((FINAL_READER, "assign", "ok"), Event("share/b", "accept", "ok", [0, [3]])),
    ),
    (
        "a new member gets an accepted record",
        Anomaly.DELIVERED_AGAIN,
        insert((FINAL_READER, "assign", "ok"), Event("share/b", "deliver", "ok", [0, [[2, 1, 2]]])),
    ),
    (
        "a record is not delivered",
        Anomaly.NOT_DELIVERED,
        change("share/b", "deliver", "ok", [1, [[0, 1, 3], [2, 1, 5]]]),
    ),
    ("a reader starts too late", Anomaly.RESUMED_LATE, change("reader", "poll", "ok", [0, 1, ALL_OF_0[1:4]])),
]


def test_a_valid_history_has_no_violation_and_is_counted() -> None:
    findings = check(good_history())
    assert findings.violations == []
    assert (findings.sent, findings.acknowledged, findings.in_log) == (12, 12, 12)
    assert (findings.polled, findings.commits, findings.kills) == (30, 1, 1)


@pytest.mark.parametrize(
    ("anomaly", "damage"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES]
)
def test_every_injected_anomaly_is_found(anomaly: Anomaly, damage: Damage) -> None:
    events = good_history()
    damage(events)
    assert anomaly in check(events).counts


def test_every_kind_of_anomaly_is_injected() -> None:
    assert {anomaly for _, anomaly, _ in DAMAGES} == set(Anomaly)


def test_an_unacknowledged_record_may_be_present_or_absent() -> None:
    events = good_history()
    events.insert(1, Event("2", "send", "invoke", [0, 3, 4]))
    events.insert(2, Event("2", "send", "info", [3, 4]))
    change(*FINAL_0, [0, 0, [*ALL_OF_0, [2, 3]]])(events)
    insert((FINAL_READER, "assign", "ok"), Event("share/a", "deliver", "ok", [0, [[9, 2, 3]]]))(events)
    findings = check(events)
    assert findings.violations == []
    assert findings.unknown == 2


def test_a_commit_without_response_may_be_applied_or_not() -> None:
    for committed in (4, 6):
        events = good_history()
        insert(("broker", "kill", "ok"), Event("group/a", "commit", "invoke", [[0, 6]]))(events)
        insert(("broker", "kill", "ok"), Event("group/a", "commit", "info", [[0, 6]]))(events)
        change("group/question", "committed", "ok", [[0, committed]])(events)
        change("group/b", "poll", "ok", [0, committed, ALL_OF_0[committed:]])(events)
        assert check(events).violations == []


def test_a_commit_acknowledged_after_a_query_began_may_be_absent_from_its_result() -> None:
    events = good_history()
    at = index_of(events, "group/question", "committed", "ok")
    events.insert(at, Event("group/a", "commit", "invoke", [[0, 9]]))
    events.insert(at + 1, Event("group/a", "commit", "ok", [[0, 9]]))
    change("group/b", "poll", "ok", [0, 9, []])(events)
    assert check(events).violations == []


def test_violations_are_counted_and_the_first_ones_shown() -> None:
    events = [event for event in good_history() if event.process != FINAL_READER]
    findings = check(events)
    assert findings.counts[Anomaly.LOST] == 12
    assert len(findings.violations) == 5


def test_a_value_names_its_writer_and_other_bytes_are_corruption() -> None:
    for number in (0, 1, 63, 64, 12345):
        value = value_of(3, number)
        assert writer_of(value) == (3, number)
        assert writer_of(value[:-1]) == writer_of(value[:-1] + b"?") == DAMAGED
    assert writer_of(None) == writer_of(b"") == DAMAGED


def test_memory_growth_is_a_slope_over_time() -> None:
    assert slope([]) == slope([(1, 5)]) == slope([(1, 5), (1, 6)]) == 0
    samples = [
        Sample(start, age, start * 10 + age, 1000 + 7 * age + 3 * start)
        for start in (1, 2, 3)
        for age in (0, 4, 8)
    ]
    assert growth_of_start(samples, 2, from_age_s=0) == pytest.approx(7)
    assert growth_of_start(samples, 2, from_age_s=8) == 0
    assert growth_over_starts(samples) == pytest.approx(0.3)


def test_a_member_may_accept_a_record_late_that_it_got_before_another_one_accepted_it() -> None:
    events = good_history()
    first = index_of(events, "share/a", "accept", "ok")
    partition, (offset, *_) = events[first].value
    events.insert(first + 1, Event("share/c", "accept", "ok", [partition, [offset]]))
    events.insert(first, Event("share/c", "deliver", "ok", [partition, []]))
    assert [each.anomaly for each in check(events).violations] == [Anomaly.ACCEPTED_TWICE]
    records = next(
        event.value[1]
        for event in events
        if event[:3] == ("share/a", "deliver", "ok") and event.value[0] == partition
    )
    got = [record for record in records if record[0] == offset]
    events[first] = Event("share/c", "deliver", "ok", [partition, got])
    assert check(events).violations == []


def test_a_member_may_return_a_record_late_that_another_one_has_accepted() -> None:
    events = good_history()
    at = index_of(events, "share/b", "join", "ok")
    events.insert(at, Event("share/a", "deliver", "ok", [0, [[2, 1, 2]]]))
    assert check(events).violations == []
