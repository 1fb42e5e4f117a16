"""The daemon of PySpark's workers, without a traceback for each query with a limit.

Spark closes the connection of a task as soon as it has enough rows, for example after `show()`. The worker
then fails to send the rest of its buffer. On a Unix domain socket it detects this at once, and PySpark's
daemon prints a traceback, although nothing is wrong. In both cases the worker ends, and the next task has a
new one.

`spark.python.daemon.module` is the name of this module. It runs pyspark.daemon with another `worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

WORKER_ENDS = 1
"""The exit code after which PySpark's daemon does not use a worker again."""


def without_broken_pipes(worker: Callable[..., int]) -> Callable[..., int]:
    """Return `worker`, for which a connection that Spark has closed is the end of the worker."""

    @wraps(worker)
    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return WORKER_ENDS

    return run


def main() -> None:
    """Run PySpark's daemon."""
    import pyspark.daemon

    pyspark.daemon.worker = without_broken_pipes(pyspark.daemon.worker)
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
