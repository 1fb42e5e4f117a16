"""`python -m tests.support.spark.streaming_query SERVERS FOLDER OPTION=VALUE ...`: runs a query until killed.

A Spark of its own, as a process that a test can end by SIGKILL; see `Stream` for what it writes where.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.spark.local_spark import local_spark
from tests.support.spark.streams import Stream


def main(servers: str, folder: str, *options: str) -> None:
    """Run it."""
    with local_spark(Path(folder) / "spark") as spark:
        stream = Stream(spark, servers, Path(folder), **dict(option.split("=", 1) for option in options))
        stream.start(available_now=False).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
