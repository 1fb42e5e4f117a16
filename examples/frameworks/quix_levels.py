"""Quix Streams: the highest water level of each harbour, with state in a changelog topic."""

from __future__ import annotations

import sys
import tempfile

from quixstreams import Application, State

LEVELS = [("brest", 7), ("dover", 6), ("brest", 9), ("dover", 4), ("brest", 8)]


def highest(level: int, state: State) -> int:
    """Return the highest level so far."""
    found = max(level, state.get("highest", default=0))
    state.set("highest", found)
    return found


with tempfile.TemporaryDirectory() as folder:
    app = Application(
        broker_address=sys.argv[1],
        consumer_group="quix-levels",
        auto_offset_reset="earliest",
        state_dir=folder,
    )
    levels = app.topic("quix-levels", key_deserializer="str", value_deserializer="json")
    records = app.topic("quix-highest", key_serializer="str", value_serializer="json")
    with app.get_producer() as producer:
        for harbour, level in LEVELS:
            producer.produce("quix-levels", key=harbour, value=str(level))
    stream = app.dataframe(levels).apply(highest, stateful=True).to_topic(records)
    stream = stream.print()
    app.run(count=len(LEVELS), timeout=60)

reader = Application(broker_address=sys.argv[1], consumer_group="quix-reader", auto_offset_reset="earliest")
found: dict[str, int] = {}
with reader.get_consumer() as consumer:
    consumer.subscribe(["quix-highest"])
    for _ in LEVELS:
        message = consumer.poll(30)
        if message is None:
            break
        found[message.key().decode()] = int(message.value())
print("highest", dict(sorted(found.items())))
