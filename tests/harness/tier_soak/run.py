"""One run: write during faults and kills, wait for the backlog, read every byte again, check the bucket.

start S3 server, proxy, 3 nodes -> [ writers, tail readers, compaction, new topics, killed nodes, faults ]
-> mount a topic, kill a node -> read all from offset 0 with faults -> end of faults -> backlog 0
-> damage objects, repair -> read again, also the mounted topic -> compacted topic -> bucket and metadata
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import boto3

from tests.harness.failover.run import SETTINGS
from tests.harness.tier_soak.compacted import COMPACTED_CONFIG, COMPACTED_TOPIC, CompactedTopic
from tests.harness.tier_soak.faults import FaultFrequency, FaultScheduler
from tests.harness.tier_soak.maintenance import MOUNT, Maintenance
from tests.harness.tier_soak.records import Reader, Writer
from tests.support.s3.fault_proxy import FaultProxy, fault_proxy
from tests.support.s3.server_process import s3_server_process
from tests.support.tier.audit import Borders, TierAudit
from tidelog.broker.backup.archive import decode_backup
from tidelog.broker.backup.contents import backup_image, backup_topics
from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.tiering import tiered_settings
from tidelog.protocol.errors import KafkaError
from tidelog.remote.objects.layout.object_keys import BACKUPS_FOLDER
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.storage.disk.errors import CorruptFile

NODES: Final = 3
BUCKET: Final = "tier"
SEGMENT_BYTES: Final = 1 << 20
TOPIC_CONFIG: Final = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": str(2 * SEGMENT_BYTES),
    "retention.ms": "-1",
    "min.insync.replicas": "2",
}
SHORT_INTERVALS: Final = {
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.manager.task.retry.backoff.ms": "100",
    "remote.log.manager.task.retry.backoff.max.ms": "2000",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    "rsm.config.storage.s3.api.call.timeout": "5000",
    "rsm.config.storage.s3.api.call.attempt.timeout": "2000",
    "rsm.config.storage.s3.read.timeout": "1000",
    "rsm.config.storage.s3.connect.timeout": "1000",
    "rsm.config.fetch.chunk.cache.size": str(8 << 20),
    "tidelog.backup.interval.ms": "20000",
    f"rsm.config.mounts.{MOUNT}.storage.s3.bucket.name": BUCKET,
    "log.cleaner.backoff.ms": "500",
}
BACKUPS_READ: Final = 2
"""The newest backups, which begin after the last topic was created."""
DRAIN_TIMEOUT_S: Final = 300.0
CHECK_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run; bytes are those of values, before replication."""

    total_bytes: int = 5_000_000_000
    faults_min: int = 2_000
    bytes_per_s: float = 8_000_000
    topics: int = 4
    kill_every_s: float = 25.0
    fault_frequency: FaultFrequency = field(default_factory=FaultFrequency)
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    elapsed_s: float = 0.0
    acknowledged: int = 0
    read_bytes: int = 0
    tiered_bytes: int = 0
    segments: int = 0
    backups: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    outages: int = 0
    kills: int = 0
    topics_created_s: list[float] = field(default_factory=list)
    drain_s: float = 0.0
    largest_backlog_bytes: int = 0
    read_errors: int = 0
    compacted_records: int = 0
    retained_records: int = 0
    mounted_records: int = 0
    repaired_segments: int = 0
    problems: list[str] = field(default_factory=list)


Progress = Callable[[str, int, int], None]
"""Callback with the present step, its progress and its total."""


class TierSoak:
    """One run in `folder`, which must be empty."""

    def __init__(self, options: Options, folder: Path, progress: Progress) -> None:
        self._options = options
        self._folder = folder
        self._progress = progress
        self._outcome = Outcome()
        self._random = Random(options.seed)
        self._ids: dict[str, TopicIdPartition] = {}

    def run(self) -> Outcome:
        """Run all steps."""
        start_s = time.monotonic()
        with ExitStack() as stack:
            self._endpoint = stack.enter_context(s3_server_process(BUCKET))
            proxy = stack.enter_context(fault_proxy(self._endpoint, self._options.seed))
            stack.callback(self._kill_all_nodes)
            self._start(proxy)
            fault_scheduler = FaultScheduler(proxy, self._options.fault_frequency, self._options.seed)
            fault_scheduler.start()
            self._write_under_faults(proxy)
            self._maintenance.mount(next(iter(self._ids)))
            self._kill_one()
            self._read_all("reading under faults", proxy)
            fault_scheduler.end()
            self._outcome.outages = fault_scheduler.outages
            self._wait_until_copied()
            self._maintenance.repair(self._s3_client(), BUCKET, self._ids.values())
            self._read_all("reading again", proxy)
            mounted = self._maintenance.read_mounted(next(iter(self._ids)), self._borders)
            self._outcome.mounted_records = mounted.position
            self._add_figures_of(mounted)
            self._outcome.repaired_segments = self._maintenance.repaired_segments
            self._outcome.problems += self._maintenance.problems
            self._check_compaction()
            self._check_bucket()
            self._outcome.faults, self._outcome.requests = dict(proxy.faults), sum(proxy.requests.values())
        self._outcome.elapsed_s = time.monotonic() - start_s
        return self._outcome

    # --- steps ---

    def _start(self, proxy: FaultProxy) -> None:
        s3 = {
            "backend.class": "s3",
            "s3.bucket.name": BUCKET,
            "s3.region": "us-east-1",
            "s3.endpoint.url": proxy.endpoint,
            "s3.path.style.access.enabled": "true",
            "aws.access.key.id": "testing",
            "aws.secret.access.key": "testing",
        }
        store = {f"rsm.config.storage.{key}": value for key, value in s3.items()}
        settings = tiered_settings(self._folder, NODES, {**SETTINGS, **store, **SHORT_INTERVALS})
        self.cluster = LocalCluster.create(self._folder / "cluster", NODES, settings=settings)
        self.cluster.start()
        self._audit = TierAudit(self.cluster.bootstrap_servers, self._folder)
        of_store = {key: text for key, text in settings.items() if key.startswith("rsm.config.")}
        self._maintenance = Maintenance(
            self.cluster.bootstrap_servers, of_store, self._audit, self._options.seed
        )
        for number in range(self._options.topics):
            self._ids[f"soak-{number}"] = self._create(f"soak-{number}", TOPIC_CONFIG)
        self._create(COMPACTED_TOPIC, COMPACTED_CONFIG)

    def _write_under_faults(self, proxy: FaultProxy) -> None:
        options, servers = self._options, self.cluster.bootstrap_servers
        share = options.total_bytes // options.topics
        writers = [Writer(servers, topic, share, options.bytes_per_s / options.topics) for topic in self._ids]
        readers = [Reader(servers, writer.topic, writer.total) for writer in writers]
        self._compacted = CompactedTopic(servers, options.seed)
        for thread in (*writers, *readers, self._compacted):
            thread.start()
        next_kill = time.monotonic() + options.kill_every_s
        checks = 0
        while any(writer.is_alive() for writer in writers):
            time.sleep(CHECK_EVERY_S)
            done = sum(writer.acknowledged for writer in writers)
            self._progress(
                f"writing, {sum(proxy.faults.values())} faults", done, sum(w.total for w in writers)
            )
            self._check_borders(writers)
            checks += 1
            if checks % 5 == 0:
                self._measure_topic_creation(f"created-{checks}")
            if time.monotonic() > next_kill:
                self._kill_one()
                next_kill = time.monotonic() + options.kill_every_s
        self._compacted.end()
        self._totals = {writer.topic: writer.total for writer in writers}
        for reader in readers:
            reader.join(DRAIN_TIMEOUT_S)
            if reader.is_alive() or reader.position < self._totals[reader.topic]:
                self._outcome.problems.append(
                    f"{reader.topic}: the tail reader stopped at offset {reader.position}"
                )
            self._add_figures_of(reader)
        for writer in writers:
            self._outcome.acknowledged += writer.acknowledged
            self._outcome.problems += writer.problems[:5]

    def _read_all(self, what: str, proxy: FaultProxy) -> None:
        """Read all topics from offset 0; while faults are injected, repeat until there are `faults_min`."""
        while True:
            readers = [
                Reader(self.cluster.bootstrap_servers, topic, total) for topic, total in self._totals.items()
            ]
            for reader in readers:
                reader.start()
            while any(reader.is_alive() for reader in readers):
                time.sleep(CHECK_EVERY_S)
                faults = sum(proxy.faults.values())
                done = sum(reader.position for reader in readers)
                self._progress(f"{what}, {faults} faults", done, sum(self._totals.values()))
            for reader in readers:
                self._add_figures_of(reader)
            has_enough_faults = sum(proxy.faults.values()) >= self._options.faults_min
            if what == "reading again" or self._outcome.problems or has_enough_faults:
                return

    def _wait_until_copied(self) -> None:
        start_s = time.monotonic()
        while time.monotonic() < start_s + DRAIN_TIMEOUT_S:
            borders = [self._borders(topic) for topic in self._ids]
            left = sum(self._backlog(each) for each in borders if each is not None)
            self._progress(f"backlog {left / 1e6:.0f} MB", 0, 0)
            if all(each is not None and self._backlog(each) <= 1.1 * SEGMENT_BYTES for each in borders):
                self._outcome.drain_s = time.monotonic() - start_s
                return
            time.sleep(CHECK_EVERY_S / 4)
        self._outcome.problems.append(f"the backlog was not copied within {DRAIN_TIMEOUT_S:g} s")

    def _check_compaction(self) -> None:
        compacted = self._compacted
        compacted.check()
        self._outcome.compacted_records = compacted.written
        self._outcome.retained_records = compacted.retained
        self._outcome.problems += compacted.problems[:5]

    def _s3_client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self._endpoint,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            region_name="us-east-1",
        )

    def _check_bucket(self) -> None:
        client = self._s3_client()
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while True:
            problems = self._differences(client)
            if not problems or time.monotonic() > deadline:
                self._outcome.problems += problems
                return
            time.sleep(CHECK_EVERY_S)

    def _differences(self, client: Any) -> list[str]:
        """Return unexpected and missing objects in the bucket, and offsets that are not covered once."""
        problems, expected = [], set()
        self._outcome.segments = self._outcome.tiered_bytes = 0
        for topic, partition in self._ids.items():
            segments = self._audit.segments(partition)
            try:
                self._require_covered(segments, self._audit.borders(topic))
            except AssertionError as error:
                problems.append(f"{topic}: {error}")
            expected |= self._audit.expected_objects(segments)
            self._outcome.segments += len(segments)
            self._outcome.tiered_bytes += sum(each.segment_size_bytes for each in segments)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        keys = {entry["Key"] for page in pages for entry in page.get("Contents", [])}
        backups = sorted(key for key in keys if key.startswith(f"{BACKUPS_FOLDER}/"))
        problems += self._backup_problems(client, backups)
        problems += [f"orphan in the bucket: {key}" for key in sorted(keys - expected - set(backups))[:5]]
        problems += [f"missing in the bucket: {key}" for key in sorted(expected - keys)[:5]]
        return problems

    def _backup_problems(self, client: Any, keys: list[str]) -> list[str]:
        """Return which of the newest backups are damaged, or do not have all topics."""
        self._outcome.backups = len(keys)
        problems = [] if keys else ["the bucket has no backup of the cluster"]
        for key in keys[-BACKUPS_READ:]:
            try:
                data = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
                topics = {topic.name for topic in backup_topics(backup_image(decode_backup(data, key)))}
            except CorruptFile as error:
                problems.append(str(error))
                continue
            problems += [f"{key} lacks topic {topic}" for topic in sorted(self._ids.keys() - topics)]
        return problems

    def _require_covered(self, segments: list[RemoteLogSegmentMetadata], borders: Borders) -> None:
        next_offset = borders.log_start
        for each in segments:
            assert each.state.name == "COPY_SEGMENT_FINISHED", f"{each.state.name} at {each.start_offset}"
            assert each.start_offset <= next_offset, f"no segment holds {next_offset}"
            next_offset = max(next_offset, each.end_offset + 1)
        assert next_offset == borders.tiered_end, f"end of the tier: {next_offset}, {borders}"

    # --- single steps ---

    def _create(self, topic: str, configs: dict[str, str]) -> TopicIdPartition:
        async def create() -> TopicIdPartition:
            async with Admin(self.cluster.bootstrap_servers) as admin:
                return TopicIdPartition(
                    (await admin.create_topic(topic, 1, NODES, configs=configs)).topic_id, topic, 0
                )

        return asyncio.run(create())

    def _measure_topic_creation(self, topic: str) -> None:
        async def create() -> None:
            async with Admin(self.cluster.bootstrap_servers) as admin:
                await admin.create_topic(topic, 1, NODES, configs=TOPIC_CONFIG)

        start_s = time.monotonic()
        with suppress(KafkaError):  # the controller was just killed; the next creation is measured
            asyncio.run(create())
            self._outcome.topics_created_s.append(time.monotonic() - start_s)

    def _kill_one(self) -> None:
        self._outcome.kills += 1
        node_id = self._random.choice(list(self.cluster.nodes))
        self.cluster.kill(node_id)
        time.sleep(self._random.uniform(0.0, 3.0))
        self.cluster.start([node_id])

    def _check_borders(self, writers: list[Writer]) -> None:
        """Check that every offset is local or remote."""
        backlog = 0
        for writer in writers:
            borders = self._borders(writer.topic)
            if borders is not None:
                backlog += self._backlog(borders)
                try:
                    borders.require_order()
                except AssertionError as error:
                    self._outcome.problems.append(f"{writer.topic}: {error}")
        self._outcome.largest_backlog_bytes = max(self._outcome.largest_backlog_bytes, backlog)

    def _borders(self, topic: str) -> Borders | None:
        with suppress(KafkaError, OSError, TimeoutError):
            return self._audit.borders(topic)
        return None

    @staticmethod
    def _backlog(borders: Borders) -> int:
        return (borders.end - borders.tiered_end) * 16_100

    def _add_figures_of(self, reader: Reader) -> None:
        self._outcome.read_bytes += reader.position * 16_000
        self._outcome.read_errors += reader.errors
        self._outcome.problems += reader.problems[:5]

    def _kill_all_nodes(self) -> None:
        for node in self.cluster.nodes.values():
            node.kill()
