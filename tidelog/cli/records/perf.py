"""`tidelog perf`: measures the throughput of a cluster with one client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import CONNECT_TIMEOUT_MS, AsJson
from tidelog.cli.output import print_json
from tidelog.cli.progress import bar
from tidelog.cli.records.latency import LatencyHistogram
from tidelog.cli.records.offset_choice import OffsetChoice, Start
from tidelog.cli.records.produce import LINGER_MS, AcksOption, CompressionOption
from tidelog.cli.records.reading import Bounds, start_at, topics_partitions
from tidelog.cli.running import run
from tidelog.clients.config.client_config import ConsumerConfig, ProducerConfig
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import DeliveryFuture, Producer

BATCH_BYTES: Final = 65_536
PAYLOADS: Final = 256
RECORDS_PER_STEP: Final = 1_000
POLL_MS: Final = 500
RECORDS_PER_POLL: Final = 50_000

app = typer.Typer(
    help="Measure the throughput of a cluster. 1 MB is 10^6 bytes.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to use.")]
Show = Callable[[int, str], None]


@dataclass(slots=True)
class Measurement:
    """A measurement; `latency` is that of deliveries for writes, and of polls for reads."""

    records: int
    value_bytes: int
    seconds: float
    latency: LatencyHistogram
    latency_of: str

    def as_document(self) -> dict[str, object]:
        """Return the measurement for JSON."""
        return {
            "records": self.records,
            "bytes": self.value_bytes,
            "seconds": round(self.seconds, 6),
            "records_per_s": round(self.records / self.seconds, 1),
            "mb_per_s": round(self.value_bytes / self.seconds / 1e6, 3),
            f"{self.latency_of}_latency_ms": self.latency.summary_ms(),
        }

    def as_text(self) -> str:
        """Return the measurement as two lines."""
        rate = (
            f"{self.records / self.seconds:,.0f} records/s, {self.value_bytes / self.seconds / 1e6:.2f} MB/s"
        )
        latency = "  ".join(f"{name} {value:.2f}" for name, value in self.latency.summary_ms().items())
        summary = f"{count_text(self.records, 'record', style=',')} in {self.seconds:.2f} s"
        return f"{summary}: {rate}\n{self.latency_of} latency ms: {latency}"


@app.command()
@connects
def produce(
    topic: Topic,
    cluster: ClusterConnection,
    records: Annotated[
        int, typer.Option("-n", "--records", metavar="N", min=1, help="The number of records to write.")
    ] = 100_000,
    record_size: Annotated[
        int, typer.Option("-s", "--record-size", metavar="BYTES", min=0, help="The size of each value.")
    ] = 1_024,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", metavar="BYTES", show_default=str(BATCH_BYTES), help="The size of a batch."
        ),
    ] = None,
    linger_ms: Annotated[
        int | None,
        typer.Option(
            "--linger-ms",
            metavar="MS",
            show_default=str(LINGER_MS),
            help="How long a batch waits for more records.",
        ),
    ] = None,
    compression: CompressionOption = None,
    acks: AcksOption = None,
    throughput: Annotated[
        int,
        typer.Option(
            "--throughput",
            metavar="N",
            min=0,
            help="The maximum number of records per second; 0 means no limit.",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Write records of random letters, and measure."""
    options = cluster.client_options(
        ProducerConfig,
        {"batch_size": BATCH_BYTES, "linger_ms": LINGER_MS, "max_block_ms": CONNECT_TIMEOUT_MS},
        {"batch_size": batch_size, "linger_ms": linger_ms, "compression_type": compression, "acks": acks},
    )
    options.setdefault("enable_idempotence", options.get("acks", "all") in ("all", "-1"))
    options.setdefault("max_request_size", max(1_048_576, 2 * options["batch_size"]))
    producer = Producer(cluster.bootstrap, **options)
    with bar("writing", records) as show:
        measurement = run(_produce(producer, topic, records, record_size, throughput, show))
    _report(measurement, as_json)


async def _produce(
    producer: Producer, topic: str, records: int, record_size: int, throughput: int, show: Show
) -> Measurement:
    payloads = _payloads(record_size)
    measurement = Measurement(0, 0, 0.0, LatencyHistogram(), "delivery")
    failure: list[BaseException] = []
    clock = SYSTEM_CLOCK.monotonic_s

    def watch(future: DeliveryFuture) -> None:
        sent_at = clock()

        def done(future: DeliveryFuture) -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None:
                failure.append(error)
            measurement.latency.record(int((clock() - sent_at) * 1e6))

        future.add_done_callback(done)

    async with producer:
        await producer.partitions_for(topic)
        start = clock()
        for number in range(records):
            watch(await producer.send(topic, payloads[number % PAYLOADS]))
            if number % RECORDS_PER_STEP == RECORDS_PER_STEP - 1 or throughput:
                await _limit_rate(throughput, number + 1, clock() - start)
                show(number + 1, f"{record_size * number / (clock() - start) / 1e6:.1f} MB/s")
                if failure:
                    raise failure[0]
        await producer.flush()
        measurement.seconds = clock() - start
    if failure:
        raise failure[0]
    measurement.records, measurement.value_bytes = records, records * record_size
    return measurement


async def _limit_rate(throughput: int, sent: int, elapsed_s: float) -> None:
    ahead_s = sent / throughput - elapsed_s if throughput else 0.0
    if ahead_s > 0:
        await asyncio.sleep(ahead_s)


def _payloads(record_size: int) -> list[bytes]:
    """Return different values of random letters; they are the same in every run."""
    letters = random.Random(1)
    return [bytes(letters.choices(range(65, 91), k=record_size)) for _ in range(PAYLOADS)]


@app.command()
@connects
def consume(
    topic: Topic,
    cluster: ClusterConnection,
    records: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--records",
            metavar="N",
            min=1,
            help="The number of records to read; default: up to the present end.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read a topic from the beginning, and measure."""
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "default_api_timeout_ms": CONNECT_TIMEOUT_MS,
        "max_poll_records": RECORDS_PER_POLL,
        "allow_auto_create_topics": False,
    }
    consumer = Consumer(cluster.bootstrap, **cluster.client_options(ConsumerConfig, defaults))
    with bar("reading", records) as show:
        measurement = run(_consume(consumer, topic, records, show))
    _report(measurement, as_json)


async def _consume(consumer: Consumer, topic: str, records: int | None, show: Show) -> Measurement:
    bounds = Bounds(count=records, stop_at_timestamp=None, at_end=records is None)
    measurement = Measurement(0, 0, 0.0, LatencyHistogram(), "poll")
    clock = SYSTEM_CLOCK.monotonic_s
    async with consumer:
        assignment = await topics_partitions(consumer, [topic], [])
        consumer.assign(assignment)
        await start_at(consumer, assignment, OffsetChoice(Start.BEGINNING))
        await bounds.fetch_ends(consumer, assignment)
        start = clock()
        while not await bounds.are_reached(consumer):
            poll_started = clock()
            batches = await consumer.poll(POLL_MS, bounds.records_left(RECORDS_PER_POLL))
            measurement.latency.record(int((clock() - poll_started) * 1e6))
            for partition, records_of_partition in batches.items():
                selected = bounds.take(partition, records_of_partition)
                measurement.records += len(selected)
                measurement.value_bytes += sum([len(record.value or b"") for record in selected])
            show(measurement.records, f"{measurement.value_bytes / (clock() - start) / 1e6:.1f} MB/s")
        measurement.seconds = clock() - start
    if not measurement.records:
        raise UsageFailure(f"topic {topic!r} has no records to read")
    return measurement


def _report(measurement: Measurement, as_json: bool) -> None:
    if as_json:
        print_json(measurement.as_document())
    else:
        print(measurement.as_text())
