"""Valid histories of soak runs, which tests change."""

from __future__ import annotations

from tests.harness.soak.history import FINAL_READER, Event


def good_history() -> list[Event]:
    """Return two producers, two partitions, a reader, two groups of two, a kill, and a final read."""
    events = [Event("broker", "start", "ok", None)]
    for partition, producer, first in ((0, 1, 0), (0, 2, 0), (1, 1, 3), (0, 1, 6)):
        events.append(Event(str(producer), "send", "invoke", [partition, first, first + 2]))
    written = {
        0: [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (1, 6), (1, 7), (1, 8)],
        1: [(1, 3), (1, 4), (1, 5)],
    }
    for partition, values in written.items():
        for offset, (producer, number) in enumerate(values):
            events.append(Event(str(producer), "send", "ok", [[number, partition, offset]]))
    first_part = [list(value) for value in written[0][:4]]
    second_part = [list(value) for value in written[0][4:]]
    events += [
        Event("reader", "assign", "ok", [0, 1]),
        Event("reader", "poll", "ok", [0, 0, first_part]),
        Event("group/a", "assign", "ok", [0]),
        Event("group/a", "poll", "ok", [0, 0, first_part]),
        Event("group/a", "commit", "invoke", [[0, 4]]),
        Event("group/a", "commit", "ok", [[0, 4]]),
        Event("broker", "kill", "ok", None),
        Event("broker", "start", "ok", None),
        Event("group/question", "committed", "invoke", None),
        Event("group/question", "committed", "ok", [[0, 4]]),
        Event("group/b", "assign", "ok", [0]),
        Event("group/b", "poll", "ok", [0, 4, second_part]),
        Event("reader", "poll", "ok", [0, 4, second_part]),
        *_share_group(written),
        Event(FINAL_READER, "assign", "ok", [0, 1]),
    ]
    for partition, values in written.items():
        events.append(Event(FINAL_READER, "poll", "ok", [partition, 0, [list(value) for value in values]]))
    return events


def _share_group(written: dict[int, list[tuple[int, int]]]) -> list[Event]:
    """Return the events of two members of a share group, which each process one partition."""
    events = []
    for member, (partition, values) in zip("ab", written.items(), strict=True):
        delivered = [[offset, producer, number] for offset, (producer, number) in enumerate(values)]
        offsets = list(range(len(values)))
        events += [
            Event(f"share/{member}", "join", "ok", None),
            Event(f"share/{member}", "deliver", "ok", [partition, delivered]),
            Event(f"share/{member}", "accept", "invoke", [partition, offsets]),
            Event(f"share/{member}", "accept", "ok", [partition, offsets]),
        ]
    return events
