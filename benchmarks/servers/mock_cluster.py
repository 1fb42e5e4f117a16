"""librdkafka's own mock cluster, in C and in memory, in a separate process: the reference for produce."""

from __future__ import annotations

import signal
import threading

from confluent_kafka import Producer


def main() -> None:
    """Print the address, and serve on a free port until SIGTERM."""
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    owner = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = owner.list_topics(timeout=10).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    while not asked_to_stop.wait(0.2):
        owner.poll(0)


if __name__ == "__main__":
    main()
