"""`tidelog produce`: writes records from standard input to a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated

import typer

from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import OPERATION_TIMEOUT_MS
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure, complain, kafka_error_text
from tidelog.cli.options import CONNECT_TIMEOUT_MS
from tidelog.cli.progress import counting
from tidelog.cli.records.escapes import unescape
from tidelog.cli.records.input_records import InputRecord, RecordSplitter
from tidelog.cli.records.input_stream import read_input
from tidelog.cli.running import run
from tidelog.clients.config.client_config import ProducerConfig
from tidelog.clients.producer.producer import DeliveryFuture, Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.record import RecordHeader

# Lines are small: fewer and larger requests, with a little more latency.
LINGER_MS = 5
BATCH_BYTES = 256 * 1024
# How long an interrupted command continues to write the records that it has read.
SAVE_TIMEOUT_MS = 3_000

app = typer.Typer(add_completion=False, rich_markup_mode=None)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.")]
KeyOption = Annotated[str | None, typer.Option("-k", "--key", metavar="KEY", help="The key of every record.")]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "-K", "--key-separator", metavar="TEXT", help=r"The text between key and value, such as ':' or '\t'."
    ),
]
HeaderOption = Annotated[
    list[str], typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of every record.")
]
CompressionOption = Annotated[
    str | None,
    typer.Option(
        "-z",
        "--compression",
        metavar="CODEC",
        show_default="none",
        help="none, gzip, snappy, lz4 or zstd.",
    ),
]
PartitionOption = Annotated[
    int | None, typer.Option("-p", "--partition", metavar="N", min=0, help="Write only to this partition.")
]
TombstoneOption = Annotated[
    bool,
    typer.Option(
        "-Z",
        "--tombstone",
        help="Write empty values and keys as null, which deletes the key in compacted topics.",
    ),
]
DelimiterOption = Annotated[
    str, typer.Option("-D", "--delimiter", metavar="TEXT", help="The text at the end of each record.")
]
AcksOption = Annotated[
    str | None,
    typer.Option(
        "--acks", metavar="ACKS", show_default="all", help="Required acknowledgements: all, 1 or 0."
    ),
]
TransactionOption = Annotated[
    str | None,
    typer.Option(
        "--transaction",
        metavar="ID",
        help="Write all records in one transaction, with this transactional id.",
    ),
]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="Print where each record was written.")]


@dataclass(frozen=True, slots=True)
class Target:
    """The topic, partition and headers of all records."""

    topic: str
    partition: int | None
    headers: tuple[RecordHeader, ...]
    verbose: bool


@app.command()
@connects
def produce(
    topic: TopicArgument,
    cluster: ClusterConnection,
    key: KeyOption = None,
    key_separator: SeparatorOption = None,
    header: HeaderOption = [],  # noqa: B006
    compression: CompressionOption = None,
    partition: PartitionOption = None,
    tombstone: TombstoneOption = False,
    delimiter: DelimiterOption = "\\n",
    acks: AcksOption = None,
    transaction: TransactionOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Write the lines of standard input to a topic, one record each.

    Examples: echo hello | tidelog produce tides; tidelog produce tides -K : < pairs.txt
    """
    options = cluster.client_options(
        ProducerConfig,
        {"linger_ms": LINGER_MS, "batch_size": BATCH_BYTES, "max_block_ms": CONNECT_TIMEOUT_MS},
        {"compression_type": compression, "acks": acks, "transactional_id": transaction},
    )
    options.setdefault("enable_idempotence", options.get("acks", "all") in ("all", "-1"))
    producer = Producer(cluster.bootstrap, **options)
    try:
        splitter = RecordSplitter(
            delimiter=_not_empty(delimiter, "--delimiter"),
            key_separator=None if key_separator is None else _not_empty(key_separator, "--key-separator"),
            fixed_key=None if key is None else key.encode(),
            null_empty=tombstone,
            record_bytes_max=producer.config.max_request_size,
        )
    except ValueError as error:
        raise UsageFailure(str(error)) from None
    target = Target(topic, partition, _headers(header), verbose)
    run(_produce(producer, splitter, target), prints_unreachable_brokers=True)


def _not_empty(text: str, option: str) -> bytes:
    data = unescape(text)
    if not data:
        raise UsageFailure(f"{option} is empty")
    return data


def _headers(texts: Sequence[str]) -> tuple[RecordHeader, ...]:
    """Parse `name=value` pairs; a name alone is a header with a null value."""
    headers: list[RecordHeader] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise UsageFailure(f"--header {text!r} is not name=value")
        headers.append((name, value.encode() if equals else None))
    return tuple(headers)


async def _produce(producer: Producer, splitter: RecordSplitter, target: Target) -> None:
    """Write the input; stop reading at the first record that cannot be written."""
    deliveries = Deliveries(target)
    async with producer:
        if target.partition is not None:
            partitions = await producer.partitions_for(target.topic)
            if target.partition not in partitions:
                raise UsageFailure(
                    f"topic {target.topic!r} has no partition {target.partition}:"
                    f" it has {count_text(len(partitions), 'partition')}"
                )
        if producer.config.transactional_id is not None:
            # Transaction markers for many partitions may take longer than the connection timeout.
            await producer.init_transactions(OPERATION_TIMEOUT_MS)
            async with producer.transaction(OPERATION_TIMEOUT_MS):
                await _send_input(producer, splitter, deliveries)
                deliveries.raise_failure()
            return
        try:
            await _send_input(producer, splitter, deliveries)
        except asyncio.CancelledError:
            await deliveries.flush_read_records(producer, SAVE_TIMEOUT_MS)
            raise
        except UsageFailure:
            await deliveries.flush_read_records(producer, None)
            raise
    deliveries.raise_failure()


async def _send_input(producer: Producer, splitter: RecordSplitter, deliveries: Deliveries) -> None:
    with counting("records") as count:
        async for chunk in read_input():
            await deliveries.send(producer, _split(splitter.feed, chunk))
            count(deliveries.sent)
            if deliveries.failure is not None:
                break
        await deliveries.send(producer, _split(splitter.finish))
        await producer.flush()
        count(deliveries.sent)


def _split(split: Callable[..., list[InputRecord]], *data: bytes) -> list[InputRecord]:
    try:
        return split(*data)
    except ValueError as error:
        raise UsageFailure(str(error)) from None


class Deliveries:
    """Counts sent and written records, and keeps the first error."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.sent = 0
        self.written = 0
        self.failed = 0
        self.failure: BaseException | None = None

    async def send(self, producer: Producer, records: Sequence[InputRecord]) -> None:
        """Send records; wait only if the producer has no memory."""
        target = self._target
        for record in records:
            if self.failure is not None:
                return
            future = await producer.send(
                target.topic,
                record.value,
                key=record.key,
                headers=target.headers,
                partition=target.partition,
            )
            future.add_done_callback(partial(self._on_delivery, target.verbose))
            self.sent += 1

    def _on_delivery(self, verbose: bool, future: DeliveryFuture) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self.failed += 1
            self.failure = self.failure or error
            return
        self.written += 1
        if verbose and self.failure is None:
            written = future.result()
            try:
                print(f"{written.topic} {written.partition} {written.offset}", flush=True)
            except OSError as unprinted:
                self.failure = unprinted

    async def flush_read_records(self, producer: Producer, timeout_ms: int | None) -> None:
        """Flush the records that were read: they are no longer in the pipe and would be lost.

        `timeout_ms` is the limit; None waits until each record is written or has failed.
        """
        with suppress(KafkaError):
            await producer.flush(timeout_ms)
        # If the last records were written just before, the callbacks of their futures run only now.
        await asyncio.sleep(0)
        missing = self.sent - self.written
        if missing:
            verb = "was" if self.sent == 1 else "were"
            complain(f"{missing} of {count_text(self.sent, 'record')} that {verb} read {verb} not written")

    def raise_failure(self) -> None:
        """Raise the error of the first failed delivery, with the number of failed records."""
        error = self.failure
        if isinstance(error, KafkaError):
            verb = "was" if self.sent == 1 else "were"
            count = f"{self.failed} of {count_text(self.sent, 'record')} {verb} not written"
            text = f"{count}: {kafka_error_text(error)}"
            raise KafkaError(error.code, text)
        if error is not None:
            raise error
