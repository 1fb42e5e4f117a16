"""The fetch requests of consumers to an embedded broker, by partition and offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tidelog.broker.api.handlers import fetch as fetch_handler
from tidelog.broker.fetching.fetch_read import read_partitions


@contextmanager
def fetched_offsets() -> Iterator[list[tuple[str, int, int]]]:
    """Record topic, partition and offset of the fetches of consumers."""
    fetches: list[tuple[str, int, int]] = []
    read = read_partitions

    def read_and_record(replicas: Any, partitions: Sequence[Any], limits: Any, **more: Any) -> Any:
        if limits.replica_id < 0:
            for fetch in partitions:
                name = replicas.resolve(fetch.topic, fetch.topic_id, fetch.partition)
                fetches.append((*name, fetch.fetch_offset))
        return read(replicas, partitions, limits, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fetch_handler, "read_partitions", read_and_record)
        yield fetches
