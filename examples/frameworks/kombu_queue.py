"""Kombu, the messaging library of Celery: a queue whose messages are acknowledged."""

from __future__ import annotations

import sys

from kombu import Connection, Queue

MESSAGES = 5
received: list[int] = []


def work(body: dict[str, int], message: object) -> None:
    """Do one job."""
    received.append(body["job"])
    message.ack()  # type: ignore[attr-defined]


with Connection(f"confluentkafka://{sys.argv[1]}/") as connection:
    queue = Queue("kombu-jobs", routing_key="kombu-jobs")
    with connection.Producer() as producer:
        for number in range(MESSAGES):
            producer.publish({"job": number}, routing_key="kombu-jobs", declare=[queue])
    with connection.Consumer([queue], callbacks=[work]):
        for _ in range(60):
            if len(received) == MESSAGES:
                break
            try:
                connection.drain_events(timeout=1)
            except TimeoutError:
                continue
print("jobs", sorted(received))
