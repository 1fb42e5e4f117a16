"""Celery with a broker of Kafka's protocol: a task, its worker, and the result in a file."""

from __future__ import annotations

import sys
import tempfile

from celery import Celery
from celery.contrib.testing.worker import start_worker

folder = tempfile.mkdtemp()
app = Celery("tides", broker=f"confluentkafka://{sys.argv[1]}/", backend=f"file://{folder}")
app.conf.update(task_default_queue="celery-tides", worker_enable_remote_control=False)


@app.task(name="tides.add")
def add(one: int, other: int) -> int:
    """Return the sum."""
    return one + other


if __name__ == "__main__":
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="error"):
        results = [add.delay(number, number) for number in range(3)]
        print("sums", [result.get(timeout=60) for result in results])
