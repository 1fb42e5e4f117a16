"""A tier in S3, read by driver and executors: in ranges, with faults, and not at all if unavailable.

Without Spark: the plan and the reading of its tasks, against a broker in this process that accesses the
store directly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.s3.fault_proxy import FaultProxy, fault_proxy, reset, server_error, slow_down, truncate
from tests.support.s3.server import s3_server
from tests.support.spark.topics import produce, rows_by_offset, varied_records
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import SourceOptions, read_source_options
from tidelog.spark_connector.reading.input_partitions import SlicePartition, input_partitions, read_partition
from tidelog.spark_connector.reading.offset_source import offset_source
from tidelog.testing.embedded import EmbeddedCluster

TIDES = TopicPartition("tides", 0)
SENT = varied_records(2000, 400)
CHUNK_BYTES = 20_000
SMALL = {"internal.segment.bytes": "300000", "index.interval.bytes": "1000"}
SHORT_RETRIES = {
    "rsm.config.storage.s3.api.call.timeout": "20000",
    "rsm.config.storage.s3.api.call.attempts": "8",
    "rsm.config.storage.s3.connect.timeout": "500",
}


class Tier(NamedTuple):
    """A topic whose records below `border` are in S3; readers access the store through `proxy`."""

    servers: str
    proxy: FaultProxy
    border: Offset
    store: dict[str, str]

    def options(self, mode: str, **more: str) -> SourceOptions:
        values = {"kafka.bootstrap.servers": self.servers, "subscribe": "tides", "tier": mode}
        values |= {"includeHeaders": "true", "fetchOffset.retryIntervalMs": "10", **self.store, **more}
        return read_source_options(values, is_streaming=False)

    def end(self, mode: str) -> Offset:
        """Return the end offset of the records that a mode can read."""
        return self.border if mode == "offline" else len(SENT)


@pytest.fixture(scope="module")
def tier() -> Iterator[Tier]:
    with s3_server() as server, server.bucket() as bucket, fault_proxy(server.endpoint, seed=5) as proxy:

        def store(endpoint: str) -> dict[str, str]:
            config = server.config(bucket, endpoint=endpoint)
            named = {f"rsm.config.storage.{key}": text for key, text in config.items()}
            backend = {"rsm.config.storage.backend.class": "s3"}
            return {**backend, **named, "rsm.config.chunk.size": str(CHUNK_BYTES)}

        with EmbeddedCluster(tiered=True, config=store(server.endpoint)) as cluster:
            tiered = TieredTopics(cluster)
            tiered.create("tides", SMALL)
            produce(cluster.bootstrap_servers, "tides", SENT)
            border = tiered.wait_until_tiered("tides").local_start
            assert 0 < border < len(SENT)
            yield Tier(cluster.bootstrap_servers, proxy, border, {**store(proxy.endpoint), **SHORT_RETRIES})


@pytest.fixture(autouse=True)
def no_faults(tier: Tier) -> Iterator[None]:
    yield
    tier.proxy.resume_listening()
    tier.proxy.clear()


def plan_reads(options: SourceOptions, start: Offset, end: Offset) -> list[Any]:
    with offset_source(options) as source:
        assert source.partitions(all_must_exist=True) == {TIDES}
        return input_partitions(options, source, [OffsetRange(TIDES, start, end)])


def read(options: SourceOptions, tasks: list[Any]) -> list[tuple[Any, ...]]:
    """Read key, value, headers and timestamp in log order."""
    batches = (batch for task in tasks for batch in read_partition(options, task))
    return rows_by_offset(row for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("mode", ["direct", "offline"])
def test_a_store_with_frequent_errors_is_read_completely(tier: Tier, mode: str) -> None:
    options, end = tier.options(mode, maxBytesPerPartition="50000"), tier.end(mode)
    rules = [
        tier.proxy.inject(fault, method="GET", probability=0.1)
        for fault in (slow_down(), server_error(), reset(), truncate(keep=1000))
    ]
    tasks = plan_reads(options, 0, end)
    assert len([task for task in tasks if isinstance(task, SlicePartition)]) > 5
    assert read(options, tasks) == [one.row() for one in SENT[:end]]
    assert all(rule.hits for rule in rules), rules


@pytest.mark.parametrize("mode", ["direct", "offline"])
def test_an_unavailable_store_is_not_data_loss(tier: Tier, mode: str) -> None:
    """Also with failOnDataLoss=false no record is omitted: tasks fail, and succeed when the store is back."""
    options, end = tier.options(mode, failOnDataLoss="false"), tier.end(mode)
    tasks = plan_reads(options, 0, end)
    tier.proxy.stop_listening()
    with pytest.raises(RemoteStorageError):
        read(options, tasks)
    if mode == "offline":
        with pytest.raises(RemoteStorageError):
            plan_reads(options, 0, end)
    tier.proxy.resume_listening()
    assert read(options, tasks) == [one.row() for one in SENT[:end]]


def test_a_few_offsets_cost_only_their_chunks(tier: Tier) -> None:
    options = tier.options("direct")
    start, end = tier.border // 2, tier.border // 2 + 20
    tasks = plan_reads(options, start, end)
    before = len(tier.proxy.recent_requests)
    assert read(options, tasks) == [one.row() for one in SENT[start:end]]
    requested = [
        request
        for request in tier.proxy.recent_requests[before:]
        if request.target.split("?")[0].endswith(".log")
    ]
    headers = [{name.lower(): text for name, text in request.headers.items()} for request in requested]
    ranges = [re.fullmatch(r"bytes=(\d+)-(\d+)", header_fields.get("range", "")) for header_fields in headers]
    assert ranges and all(ranges), headers
    # Twenty records of 400 bytes, in batches of 16 KiB that need not end with a chunk.
    fetched_bytes = sum(int(match[2]) + 1 - int(match[1]) for match in ranges if match)
    assert fetched_bytes <= 4 * CHUNK_BYTES
