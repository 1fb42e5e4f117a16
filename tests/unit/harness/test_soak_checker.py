"""The soak's checker finds nothing in a good history, and every anomaly that is put into one."""

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
    found = [
        index
        for index, event in enumerate(events)
        if (event.process, event.f, event.type) == (process, f, type)
    ]
    return found[number]


def change(process: str, f: str, type: str, value: object, number: int = 0) -> Damage:
    """Give one event another value."""

    def damage(events: list[Event]) -> None:
        at = index_of(events, process, f, type, number)
        events[at] = events[at]._replace(value=value)

    return damage


def insert(before: tuple[str, str, str], event: Event) -> Damage:
    """Put an event before another one."""

    def damage(events: list[Event]) -> None:
        events.insert(index_of(events, *before), event)

    return damage


def swap_in_log(events: list[Event]) -> None:
    """What is at offset 0 and 1 of partition 1 changes places, in all that anybody saw."""
    at = index_of(events, FINAL_READER, "poll", "ok", 1)
    events[at] = events[at]._replace(value=[1, 0, [[1, 4], [1, 3], [1, 5]]])
    for index, event in enumerate(events):
        if event.f == "send" and event.type == "ok" and event.value[0][:2] in ([3, 1], [4, 1]):
            number = event.value[0][0]
            events[index] = event._replace(value=[[number, 1, 4 - number]])


ALL_OF_0 = [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2], [1, 6], [1, 7], [1, 8]]
FINAL_0 = (FINAL_READER, "poll", "ok")

DAMAGES: list[tuple[str, Anomaly, Damage]] = [
    ("the end of the log is gone", Anomaly.LOST, change(*FINAL_0, [0, 0, ALL_OF_0[:8]])),
    ("the log starts late", Anomaly.LOST, change(*FINAL_0, [0, 1, ALL_OF_0[1:]])),
    ("a partition is gone", Anomaly.LOST, change(*FINAL_0, [1, 0, []], 1)),
    (
        "acknowledged at an offset where something else is",
        Anomaly.TWO_VALUES,
        change("2", "send", "ok", [[0, 0, 4]]),
    ),
    (
        "two readers differ",
        Anomaly.TWO_VALUES,
        change("reader", "poll", "ok", [0, 0, [*ALL_OF_0[:3], [2, 1]]]),
    ),
    ("a record is there again", Anomaly.DUPLICATE, change(*FINAL_0, [0, 0, [*ALL_OF_0, [1, 8]]])),
    (
        "a record is there again in another partition",
        Anomaly.DUPLICATE,
        change(*FINAL_0, [1, 0, [[1, 3], [1, 4], [1, 5], [1, 6]]], 1),
    ),
    ("two records changed places", Anomaly.DISORDER, swap_in_log),
    ("a poll left something out", Anomaly.GAP, change("reader", "poll", "ok", [0, 5, ALL_OF_0[5:]], 1)),
    ("a poll went back", Anomaly.GAP, change("reader", "poll", "ok", [0, 3, ALL_OF_0[3:]], 1)),
    ("a number nobody sent", Anomaly.INVENTED, change(*FINAL_0, [0, 0, [*ALL_OF_0, [1, 99]]])),
    ("a producer nobody knows", Anomaly.INVENTED, change(*FINAL_0, [0, 0, [*ALL_OF_0, [9, 0]]])),
    ("sent to the other partition", Anomaly.MISPLACED, change("1", "send", "invoke", [1, 0, 2])),
    ("bytes changed", Anomaly.DAMAGED, change("reader", "poll", "ok", [0, 0, [[1, 0], list(DAMAGED)]])),
    ("a commit is gone", Anomaly.COMMIT_LOST, change("group/question", "committed", "ok", [])),
    ("a commit went back", Anomaly.COMMIT_LOST, change("group/question", "committed", "ok", [[0, 3]])),
    ("a commit went ahead", Anomaly.COMMIT_INVENTED, change("group/question", "committed", "ok", [[0, 5]])),
    (
        "another partition's commit",
        Anomaly.COMMIT_INVENTED,
        change("group/question", "committed", "ok", [[0, 4], [1, 1]]),
    ),
    (
        "a member starts too early",
        Anomaly.RESUMED_EARLY,
        change("group/b", "poll", "ok", [0, 2, ALL_OF_0[2:]]),
    ),
    ("a member starts too late", Anomaly.RESUMED_LATE, change("group/b", "poll", "ok", [0, 6, ALL_OF_0[6:]])),
    ("a reader starts too late", Anomaly.RESUMED_LATE, change("reader", "poll", "ok", [0, 1, ALL_OF_0[1:4]])),
]


def test_a_good_history_has_nothing_wrong_and_is_counted() -> None:
    findings = check(good_history())
    assert findings.violations == []
    assert (findings.sent, findings.acknowledged, findings.in_log) == (12, 12, 12)
    assert (findings.polled, findings.commits, findings.kills) == (30, 1, 1)


@pytest.mark.parametrize(
    ("anomaly", "damage"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES]
)
def test_every_anomaly_that_is_put_in_is_found(anomaly: Anomaly, damage: Damage) -> None:
    events = good_history()
    damage(events)
    assert anomaly in check(events).counts


def test_every_anomaly_is_put_in_by_some_damage() -> None:
    assert {anomaly for _, anomaly, _ in DAMAGES} == set(Anomaly)


def test_a_record_that_was_never_acknowledged_may_be_there_or_not() -> None:
    events = good_history()
    events.insert(1, Event("2", "send", "invoke", [0, 3, 4]))
    events.insert(2, Event("2", "send", "info", [3, 4]))
    change(*FINAL_0, [0, 0, [*ALL_OF_0, [2, 3]]])(events)
    findings = check(events)
    assert findings.violations == []
    assert findings.unknown == 2


def test_a_commit_that_was_not_answered_may_have_been_made_or_not() -> None:
    for committed in (4, 6):
        events = good_history()
        insert(("broker", "kill", "ok"), Event("group/a", "commit", "invoke", [[0, 6]]))(events)
        insert(("broker", "kill", "ok"), Event("group/a", "commit", "info", [[0, 6]]))(events)
        change("group/question", "committed", "ok", [[0, committed]])(events)
        change("group/b", "poll", "ok", [0, committed, ALL_OF_0[committed:]])(events)
        assert check(events).violations == []


def test_a_commit_answered_after_the_question_was_asked_need_not_be_in_its_answer() -> None:
    events = good_history()
    at = index_of(events, "group/question", "committed", "ok")
    events.insert(at, Event("group/a", "commit", "invoke", [[0, 9]]))
    events.insert(at + 1, Event("group/a", "commit", "ok", [[0, 9]]))
    change("group/b", "poll", "ok", [0, 9, []])(events)
    assert check(events).violations == []


def test_many_violations_of_a_kind_are_counted_and_a_few_are_shown() -> None:
    events = [event for event in good_history() if event.process != FINAL_READER]
    findings = check(events)
    assert findings.counts[Anomaly.LOST] == 12
    assert len(findings.violations) == 5


def test_a_value_says_who_wrote_it_and_any_other_byte_is_damage() -> None:
    for number in (0, 1, 63, 64, 12345):
        value = value_of(3, number)
        assert writer_of(value) == (3, number)
        assert writer_of(value[:-1]) == writer_of(value[:-1] + b"?") == DAMAGED
    assert writer_of(None) == writer_of(b"") == DAMAGED


def test_growth_is_the_slope_of_memory_over_time() -> None:
    assert slope([]) == slope([(1, 5)]) == slope([(1, 5), (1, 6)]) == 0
    samples = [
        Sample(start, age, start * 10 + age, 1000 + 7 * age + 3 * start)
        for start in (1, 2, 3)
        for age in (0, 4, 8)
    ]
    assert growth_of_start(samples, 2, from_age_s=0) == pytest.approx(7)
    assert growth_of_start(samples, 2, from_age_s=8) == 0
    assert growth_over_starts(samples) == pytest.approx(0.3)
