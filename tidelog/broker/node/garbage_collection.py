"""The garbage collections of a broker process: each visits a bounded number of objects.

A collection blocks the event loop. One of all objects of a node with 2,000 partitions takes 150 ms. Reference
counting releases nearly everything here, because connections, requests and partitions break their reference
cycles when they end. A collection only has to find the few cycles that are left, such as those of errors.

    new objects      visited by the young collections, which Python starts after THRESHOLDS
    old objects      those that survived; visited by the full collections
    permanent ones   never visited again: the objects of the start, and those by which the node has grown

When more than OLD_OBJECTS_MAX objects survive a full collection, the node has grown, for example by
partitions, and the old objects become permanent. A node in a steady state makes no objects permanent, so its
cycles are found however long it runs. Only a cycle that became permanent while it was in use is never found:
when thousands of requests wait at such a time, their objects become permanent, too, and nearly all of them
are released by reference counting later.

I/O: the collector of the process.
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (1_000, 3, 1)
"""See `gc.set_threshold`; Python's defaults are 700, 10, 10.

A young collection visits up to 5,000 objects, which takes about 1 ms. A full one visits three times as many,
and up to OLD_OBJECTS_MAX old ones.
"""
OLD_OBJECTS_MAX: Final = 5_000
OLDEST_GENERATION: Final = 2


class GarbageCollection:
    """Sets the collector up for a process that only runs a broker."""

    def start(self) -> None:
        """Make the objects of the start permanent: mainly modules, partitions, the models of an S3 client."""
        gc.freeze()
        # Python starts a full collection only when the survivors are a quarter of the objects that the last
        # full one has visited: this one visits none, so that the first one of the node is not delayed.
        gc.collect()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Make no further objects permanent."""
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, information: dict[str, int]) -> None:
        """Make the survivors of a full collection permanent if there are many."""
        if phase != "stop" or information["generation"] != OLDEST_GENERATION:
            return
        if len(gc.get_objects(generation=OLDEST_GENERATION)) > OLD_OBJECTS_MAX:
            gc.freeze()
