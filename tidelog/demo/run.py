"""The steps of the demo."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.base.count_text import count_text
from tidelog.clients.admin.admin import Admin, ElectionType
from tidelog.clients.producer.producer import Producer
from tidelog.demo.comparison import Content, Fingerprint, Received
from tidelog.demo.corpus import Corpus
from tidelog.demo.progress import Progress
from tidelog.demo.readers import Advance, read_with_aiokafka, read_with_confluent, read_with_tidelog
from tidelog.demo.stream_query import StreamQuery
from tidelog.demo.tier_view import MEGA, TierView
from tidelog.demo.tier_watch import TierWatch
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.tiering import TIER_FOLDER, tiered_settings
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.jobs.runtime import require_spark
from tidelog.spark_connector.planning.tier_options import STORAGE_PREFIX

TOPIC = "standard-library"
NODES = 3
PARTITIONS = 6
# The node that is killed and loses its disk, when this share of the files was sent.
KILLED_NODE = 2
KILL_AFTER_SHARE = 0.4
# Short timeouts, so that the cluster detects a crash during the demo.
SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "1000",
    # Short intervals, so that segments move during the demo.
    "remote.log.manager.task.interval.ms": "300",
    "log.retention.check.interval.ms": "300",
}
# Small segments, which are deleted from the local disk as soon as they are in the tier.
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
# The number of pending deliveries before their results are checked.
DELIVERIES_CHECKED_TOGETHER = 20_000

Reader = Callable[[str, str, int, Advance], Awaitable[Received]]


async def _read_in_threads(servers: str, topic: str, expected: int, advance: Advance) -> Received:
    stop = threading.Event()
    try:
        return await asyncio.to_thread(read_with_confluent, servers, topic, expected, advance, stop)
    finally:
        # A thread cannot be cancelled; without this ctrl-C would wait for records that never come.
        stop.set()


class Demo:
    """One run with `corpus`; the data and logs of the nodes are in `folder`."""

    def __init__(
        self,
        corpus: Corpus,
        folder: Path,
        console: Console | None = None,
        topic_configs: Mapping[str, str] = TIERED,
    ) -> None:
        self._corpus = corpus
        self._console = console or Console()
        self._topic_configs = topic_configs
        settings = tiered_settings(folder, NODES, SETTINGS)
        # The same keys as the brokers' settings for the bucket.
        self._tier_options = {key: text for key, text in settings.items() if key.startswith(STORAGE_PREFIX)}
        self.cluster = LocalCluster.create(folder / "cluster", NODES, settings=settings)
        self._view = TierView(self.cluster.layout, folder / TIER_FOLDER, TOPIC)
        self.watch = TierWatch(self._view, self.cluster.bootstrap_servers, self._console)
        self._rates = Table("step", "records", "seconds", "records/s", "MB/s", title="Rates")
        self._comparison = Table("reader", "records", "keys", "per member", "SHA-256", "", title="Comparison")

    async def run(self) -> bool:
        """Run all steps; return whether every reader has read exactly what was produced."""
        say = self._console.print
        say(f"{NODES} nodes at {self.cluster.bootstrap_servers} ready after {await self._start():.1f} s")
        source = await self._produce()
        moved_s = await self.watch.wait_until_tiered(source.records)
        say(f"after another {moved_s:.1f} s only the active segments are on disk; all others are in the tier")
        say(self.watch.table)
        await self._replace_node()
        equal = await self._read("tidelog", read_with_tidelog, source)
        await asyncio.to_thread(self.cluster.stop)
        say(f"clean restart of all nodes: ready after {await self._start():.1f} s")
        equal &= await self._read("confluent-kafka, group of 2", _read_in_threads, source, 2)
        await asyncio.to_thread(self._kill_all)
        say(f"kill -9 of all nodes and restart: ready after {await self._start():.1f} s")
        equal &= await self._read("aiokafka, group of 2", read_with_aiokafka, source, 2)
        equal &= await self._query(source)
        await asyncio.to_thread(self.cluster.stop)
        say(self._rates, self._comparison)
        if equal:
            say(f"[green]All readers have read every byte of {count_text(len(self._corpus.paths), 'file')}.")
        else:
            say("[bold red]THE READERS HAVE NOT READ WHAT WAS PRODUCED")
        return equal

    def close(self) -> None:
        """Kill all nodes."""
        self._kill_all()

    async def _start(self, nodes: Iterable[int] | None = None) -> float:
        return await asyncio.to_thread(self.cluster.start, nodes)

    def _kill_all(self) -> None:
        for node_id in self.cluster.nodes:
            self.cluster.kill(node_id)

    async def _replace_node(self) -> None:
        """Start the killed node with an empty disk, and elect it as leader of its partitions again."""
        self.cluster.wipe(KILLED_NODE)
        started_s = await self._start([KILLED_NODE])
        synced_s = await self.watch.wait_until_synced()
        copied_bytes = self._view.on_disk(KILLED_NODE)
        borders = self.watch.borders
        topic_bytes = sum(border.remote.size_bytes + border.local.size_bytes for border in borders)
        self._console.print(
            f"node {KILLED_NODE} was started with an empty disk: ready after {started_s:.1f} s, in sync "
            f"after another {synced_s:.1f} s; it copied {copied_bytes.size_bytes / MEGA:.1f} MB of the "
            f"{topic_bytes / MEGA:.1f} MB in the topic ({copied_bytes.size_bytes / topic_bytes:.0%})"
        )
        async with Admin(self.cluster.bootstrap_servers) as admin:
            results = await admin.elect_leaders(ElectionType.PREFERRED)
        self._console.print(
            f"it now leads {count_text(sum(name.topic == TOPIC for name in results), 'partition')}, "
            "and serves records that it has not copied"
        )

    async def _produce(self) -> Fingerprint:
        async with Admin(self.cluster.bootstrap_servers) as admin:
            await admin.create_topic(TOPIC, num_partitions=PARTITIONS, configs=self._topic_configs)
        content = Content()
        started = SYSTEM_CLOCK.monotonic_s()
        with Progress(self._console, "produce", None, lambda: self.watch.table) as progress:
            async with (
                self.watch.follow(),
                Producer(self.cluster.bootstrap_servers, linger_ms=5) as producer,
            ):
                await self._send_all(producer, content, progress)
        source = content.fingerprint()
        self._add_rate("produce: tidelog", source, SYSTEM_CLOCK.monotonic_s() - started)
        return source

    async def _send_all(self, producer: Producer, content: Content, progress: Progress) -> None:
        deliveries = []
        kill_at = int(KILL_AFTER_SHARE * len(self._corpus.paths))
        for number, path in enumerate(self._corpus.paths):
            if number == kill_at:
                # Otherwise the table below may be empty, because sending uses most of the time.
                await self.watch.wait_for_first_state()
                await asyncio.to_thread(self.cluster.kill, KILLED_NODE)
                self._console.print(
                    f"kill -9 of node {KILLED_NODE} after {count_text(content.records, 'record', style=',')}"
                )
                self._console.print(self.watch.table)
            for key, value in self._corpus.lines_of(path):
                content.add(key, value)
                delivery = producer.send_nowait(TOPIC, value, key=key)
                if delivery is None:
                    delivery = await producer.send(TOPIC, value, key=key)
                deliveries.append(delivery)
                if len(deliveries) == DELIVERIES_CHECKED_TOGETHER:
                    progress.advance(len(deliveries))
                    # Most of these deliveries are complete while the last ones are in flight.
                    for done in deliveries:
                        await done
                    deliveries.clear()
        await producer.flush()
        for done in deliveries:
            await done
        progress.advance(len(deliveries))

    async def _read(self, name: str, reader: Reader, source: Fingerprint, group_size: int = 1) -> bool:
        started = SYSTEM_CLOCK.monotonic_s()
        with Progress(self._console, f"consume: {name}", source.records) as progress:
            received = await reader(self.cluster.bootstrap_servers, TOPIC, source.records, progress.advance)
        fingerprint = received.content.fingerprint()
        self._add_rate(f"consume: {name}", fingerprint, SYSTEM_CLOCK.monotonic_s() - started)
        equal = fingerprint == source and len(received.members) == group_size
        self._comparison.add_row(
            name,
            f"{fingerprint.records:,}",
            f"{fingerprint.keys:,}",
            " + ".join(f"{count:,}" for count in received.members.values()),
            fingerprint.sha256[:12],
            "[green]equal" if equal else f"[bold red]DIFFERS from {source.sha256[:12]}, {source.records:,}",
        )
        return equal

    async def _query(self, source: Fingerprint) -> bool:
        """Read the topic with a streaming query; return whether the result is equal, or Spark cannot run."""
        try:
            require_spark()
        except JobFailure as reason:
            self._console.print(f"[yellow]no streaming query with Spark: {reason}")
            return True
        query = StreamQuery(self.cluster.bootstrap_servers, TOPIC, self._tier_options, source.records)
        try:
            with Progress(self._console, "query: Spark", source.records) as progress:
                result = await query.run(await self._local_starts(), progress.advance)
        except JobFailure as reason:
            self._console.print(f"[bold red]THE STREAMING QUERY FAILED: {reason}")
            return False
        self._console.print(result.table(), f"largest modules: {result.largest()}", sep="")
        self._add_rate("query: Spark, streaming", source, result.seconds)
        equal = result.is_of(source)
        self._comparison.add_row(
            "Spark, streaming, tier=direct",
            f"{result.records:,}",
            f"{result.keys:,}",
            f"{result.cold:,} cold + {result.records - result.cold:,} hot",
            f"CRCs {result.crc_sum:x}",
            "[green]equal" if equal else f"[bold red]DIFFERS from {source.crc_sum:x}, {source.records:,}",
        )
        return equal

    async def _local_starts(self) -> dict[int, int]:
        """Return the local log start offset of each partition; records below it are only in the tier."""
        async with Admin(self.cluster.bootstrap_servers) as admin:
            return {border.partition: border.local_start for border in await self._view.borders(admin)}

    def _add_rate(self, step: str, content: Fingerprint, seconds: float) -> None:
        self._rates.add_row(
            step,
            f"{content.records:,}",
            f"{seconds:.1f}",
            f"{content.records / seconds:,.0f}",
            f"{content.size_bytes / seconds / 1e6:.1f}",
        )
