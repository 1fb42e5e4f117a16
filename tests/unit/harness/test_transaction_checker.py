"""The transaction checker accepts a valid history and reports every injected anomaly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.soak.history import FINAL_READER, Event
from tests.harness.soak.transaction_checker import Anomaly, check

Damage = Callable[[list[Event]], None]


def good_history() -> list[Event]:
    """Return committed transactions, an aborted one, and one with an unknown result."""
    return [
        *send_events("a", 0, {0: (0, 0), 1: (1, 0), 2: (0, 1)}),
        Event("a", "offset", "invoke", [0, 0, 10]),
        Event("uncommitted", "poll", "ok", [0, [[0, "a", 0, 0], [1, "a", 0, 2]]]),
        Event("a", "commit", "invoke", 0),
        Event("a", "commit", "ok", 0),
        *send_events("a", 1, {0: (0, 3), 1: (1, 2)}),
        Event("a", "offset", "invoke", [1, 0, 20]),
        Event("reader", "poll", "ok", [0, [[0, "a", 0, 0], [1, "a", 0, 2]]]),
        Event("reader", "stable", "ok", [0, 3]),
        Event("a", "abort", "invoke", 1),
        Event("a", "abort", "ok", 1),
        Event("reader", "stable", "ok", [0, 5]),
        *send_events("a", 2, {0: (0, 5), 1: (1, 4)}),
        Event("a", "commit", "invoke", 2),
        Event("a", "commit", "info", 2),
        *send_events("b", 0, {0: (1, 6)}),
        Event("b", "commit", "invoke", 0),
        Event("b", "commit", "ok", 0),
        Event(FINAL_READER, "poll", "ok", [0, [[0, "a", 0, 0], [1, "a", 0, 2], [5, "a", 2, 0]]]),
        Event(FINAL_READER, "poll", "ok", [1, [[0, "a", 0, 1], [4, "a", 2, 1], [6, "b", 0, 0]]]),
        Event(FINAL_READER, "committed", "ok", [0, 10]),
    ]


def send_events(producer: str, transaction: int, places: dict[int, tuple[int, int]]) -> list[Event]:
    """Return sent records by number, each with partition and offset."""
    events = []
    for record, (partition, offset) in places.items():
        events.append(Event(producer, "send", "invoke", [transaction, partition, record]))
        events.append(Event(producer, "send", "ok", [transaction, partition, record, offset]))
    return events


def final(partition: int, records: list[list[object]]) -> Damage:
    """Replace the records that the final reader finds in a partition."""

    def damage(events: list[Event]) -> None:
        at = next(
            index
            for index, event in enumerate(events)
            if (event.process, event.f) == (FINAL_READER, "poll") and event.value[0] == partition
        )
        events[at] = events[at]._replace(value=[partition, records])

    return damage


def put(event: Event, before: tuple[str, str, object]) -> Damage:
    """Insert an event before another one."""

    def damage(events: list[Event]) -> None:
        matches = [index for index, one in enumerate(events) if (one.process, one.f, one.value) == before]
        events.insert(matches[0], event)

    return damage


def without_acknowledgement(process: str, value: list[int], damage: Damage) -> Damage:
    """Remove the acknowledgement of a record and apply `damage`."""

    def remove_and_damage(events: list[Event]) -> None:
        events.remove(Event(process, "send", "ok", value))
        damage(events)

    return remove_and_damage


DAMAGES: list[tuple[str, Anomaly, Damage]] = [
    (
        "a committed transaction is lost",
        Anomaly.LOST,
        final(1, [[0, "a", 0, 1], [4, "a", 2, 1]]),
    ),
    (
        "one partition lacks its part of a transaction",
        Anomaly.INCOMPLETE,
        final(1, [[0, "a", 0, 1], [6, "b", 0, 0]]),
    ),
    (
        "an aborted transaction is read at the end",
        Anomaly.ABORTED_READ,
        final(0, [[0, "a", 0, 0], [1, "a", 0, 2], [3, "a", 1, 0], [5, "a", 2, 0]]),
    ),
    (
        "an aborted record is read by another reader",
        Anomaly.ABORTED_READ,
        put(
            Event("reader", "poll", "ok", [0, [[3, "a", 1, 0]]]),
            (FINAL_READER, "committed", [0, 10]),
        ),
    ),
    (
        "an open transaction is read as committed",
        Anomaly.EARLY_READ,
        put(Event("reader", "poll", "ok", [0, [[3, "a", 1, 0]]]), ("a", "abort", 1)),
    ),
    (
        "a reader reads beyond the last stable offset",
        Anomaly.BEYOND_STABLE_OFFSET,
        put(Event("reader", "stable", "ok", [0, 1]), ("reader", "stable", [0, 3])),
    ),
    (
        "the last stable offset decreases",
        Anomaly.STABLE_OFFSET_DECREASED,
        put(Event("reader", "stable", "ok", [0, 4]), (FINAL_READER, "committed", [0, 10])),
    ),
    (
        "a record is stored twice",
        Anomaly.DUPLICATE,
        final(1, [[0, "a", 0, 1], [4, "a", 2, 1], [6, "b", 0, 0], [8, "b", 0, 0]]),
    ),
    (
        "a later transaction precedes an earlier one",
        Anomaly.DISORDER,
        without_acknowledgement(
            "a", [2, 0, 0, 5], final(0, [[0, "a", 0, 0], [1, "a", 0, 2], [-1, "a", 2, 0]])
        ),
    ),
    (
        "two readers read different records at one offset",
        Anomaly.TWO_VALUES,
        put(
            Event("uncommitted", "poll", "ok", [0, [[5, "a", 1, 0]]]),
            (FINAL_READER, "committed", [0, 10]),
        ),
    ),
    (
        "a record is read that was never sent",
        Anomaly.INVENTED,
        final(1, [[0, "a", 0, 1], [4, "a", 2, 1], [6, "b", 0, 0], [9, "c", 0, 0]]),
    ),
    (
        "a record is in another partition than its request",
        Anomaly.MISPLACED,
        put(
            Event("uncommitted", "poll", "ok", [1, [[9, "a", 1, 0]]]),
            (FINAL_READER, "committed", [0, 10]),
        ),
    ),
    (
        "the offset of an aborted transaction is committed",
        Anomaly.OFFSET_WRONG,
        lambda events: events.__setitem__(-1, Event(FINAL_READER, "committed", "ok", [0, 20])),
    ),
]


def test_a_valid_history_has_no_violation() -> None:
    assert check(good_history()) == []


@pytest.mark.parametrize(
    ("anomaly", "damage"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES]
)
def test_every_injected_anomaly_is_found(anomaly: Anomaly, damage: Damage) -> None:
    events = good_history()
    damage(events)
    assert anomaly in {violation.anomaly for violation in check(events)}


def test_every_kind_of_anomaly_is_injected() -> None:
    assert {case[1] for case in DAMAGES} == set(Anomaly)


def test_a_transaction_with_unknown_result_is_visible_completely_or_not_at_all() -> None:
    events = good_history()
    final(0, [[0, "a", 0, 0], [1, "a", 0, 2]])(events)
    final(1, [[0, "a", 0, 1], [6, "b", 0, 0]])(events)
    assert check(events) == []
