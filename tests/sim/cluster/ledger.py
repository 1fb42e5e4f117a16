"""What clients have sent, what was acknowledged, and what was read: for the checks of Kafka's guarantees."""

from __future__ import annotations

from collections.abc import Iterable

from tests.sim.cluster.replica_logs import StoredBatch
from tests.sim.cluster.violation import Violation
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.protocol.ids import TopicPartition


class Ledger:
    """The history of one run.

    A value is `<session of a producer>-<number>`, and is sent once. A send without a response may have been
    written. Only the records of one session have an order: those of an earlier one may arrive later.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, tuple[TopicPartition, int]] = {}
        self.read: dict[TopicPartition, dict[int, bytes]] = {}
        self.sent = 0
        self.unknown = 0
        """The sends that ended with an error."""

    def on_acknowledged(self, value: bytes, partition: TopicPartition, offset: int) -> None:
        """Add an acknowledged record."""
        self.acknowledged[value] = partition, offset

    def on_read(self, records: Iterable[ConsumerRecord]) -> None:
        """Add records that a consumer has read. Errors: Violation if an offset had another value before."""
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            values = self.read.setdefault(partition, {})
            value = record.value or b""
            earlier = values.setdefault(record.offset, value)
            if earlier != value:
                raise Violation(f"{partition} offset {record.offset} was {earlier!r} and is now {value!r}")

    def check_complete(self, final: dict[TopicPartition, dict[int, bytes]]) -> None:
        """Compare the history with a last read of all partitions. Errors: Violation."""
        for value, (partition, offset) in self.acknowledged.items():
            final_value = final[partition].get(offset)
            if final_value != value:
                raise Violation(f"{value!r} was acknowledged at {partition} {offset}: {final_value!r}")
        for partition, values in self.read.items():
            for offset, value in values.items():
                if final[partition].get(offset) != value:
                    raise Violation(f"{value!r} was read at {partition} offset {offset} and is missing now")


def check_order(partition: TopicPartition, values: dict[int, bytes], batches: Iterable[StoredBatch]) -> int:
    """Check that the records of each session are in the order in which they were sent, each once.

    Return the number of records that are repeated in a later producer epoch. As in Kafka, that can happen: a
    broker that restarts knows only the last batch of each producer. If it had several unacknowledged ones, it
    rejects the first of them, and the producer sends all again in its next epoch (KIP-360).
    Errors: Violation.
    """
    epochs = {batch.base_offset: batch.producer_epoch for batch in batches}
    last: dict[tuple[bytes, int], int] = {}
    written: set[bytes] = set()
    repeated, epoch = 0, -1
    for offset in sorted(values):
        epoch = epochs.get(offset, epoch)
        value = values[offset]
        session, _, number = value.rpartition(b"-")
        if int(number) <= last.get((session, epoch), -1):
            raise Violation(f"{value!r} at {partition} {offset} follows itself or a later record")
        last[session, epoch] = int(number)
        if value in written:
            if epoch == 0:
                raise Violation(f"{value!r} is in {partition} twice, the second time at offset {offset}")
            repeated += 1
        written.add(value)
    return repeated
