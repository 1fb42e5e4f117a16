"""Run the demo; the exit code is 0 only if every reader has read exactly the bytes that were produced.

start        three nodes, a tiered topic of six partitions with three replicas each, segments of 1 MiB produce
every line of the standard library, with the file as key, with the bundled producer; meanwhile segments
             move to the tier, and a node is killed
empty node   the killed node starts without its disk, and copies only records that are not in the tier; read
from
             offset 0 with the bundled consumer
restart      restart all nodes cleanly, then read with confluent-kafka, a group of two kill -9      kill all
nodes and start them again, then read with aiokafka, a group of two query        with a streaming query of
Spark, whose tasks read the tier directly and fetch the rest from brokers;
             skipped with a message if there is no Java
compare      count, offsets without gaps, order per key, SHA-256 of all content; by Spark: count, bytes, keys
and the
             checksums of all records
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Run the demo with the standard library, in a temporary directory; return the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The nodes are separate processes, which would otherwise continue to run.
        signal.signal(number, signal.default_int_handler)
    try:
        # Imported here, so that ctrl-C during the imports is also handled.
        from tidelog.demo.corpus import Corpus
        from tidelog.demo.run import Demo

        with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as folder:
            demo = Demo(Corpus.standard_library(), Path(folder))
            try:
                return 0 if asyncio.run(demo.run()) else 1
            finally:
                demo.close()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
