"""`python -m tests.support.spark.streaming_query SERVERS FOLDER OPTION=VALUE ...`: runs a query until killed.

The query runs in a separate process with its own Spark, so that a test can end it by SIGKILL. `Stream`
describes the files in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.spark.local_spark import local_spark
from tests.support.spark.streams import Stream


def main(servers: str, folder: str, *options: str) -> None:
    """Run the query until the process is killed."""
    with local_spark(Path(folder) / "spark") as spark:
        stream = Stream(spark, servers, Path(folder), **dict(option.split("=", 1) for option in options))
        stream.start(available_now=False).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
