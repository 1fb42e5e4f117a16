"""Run the demo; the exit code is 0 only when every byte that was produced was read back by everybody.

start        three nodes, a tiered topic of six partitions with three replicas each, segments of 1 MiB
produce      every line of the standard library, keyed by file, with the bundled producer, while segments
             move to the tier and a node is killed
empty node   the killed one comes back without its disk, and copies only what is in no segment of the tier;
             read from offset 0 with the bundled consumer
restart      all nodes cleanly, then read with confluent-kafka, a group of two
kill -9      all nodes and start them again, then read with aiokafka, a group of two
query        with a stream of Spark, whose tasks read the tier themselves and ask brokers for the rest;
             passed over with a word where there is no Java
compare      count, offsets without a gap, order per key, SHA-256 of all content; by Spark count, bytes, keys
             and the checksums of all records
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Run it on the standard library, in a folder that is removed afterwards."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The nodes are processes of their own and would stay behind.
        signal.signal(number, signal.default_int_handler)
    try:
        # Imported here, so that ctrl-C is answered in the same way from the first moment on.
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
