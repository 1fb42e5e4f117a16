"""The requests of a broker that wait for records, acknowledgements or deletions, with their timers."""

from __future__ import annotations

from tidelog.base.clock import Clock
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.partitions.waiting_requests import WaitingReaders, WaitingRequests
from tidelog.broker.purgatory.parked_memory import ParkedMemory
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import TimerDriver, Timers


class Purgatories:
    """Owns the timers and the purgatories, which share one bound of memory."""

    def __init__(self, clock: Clock, parked_bytes_max: int) -> None:
        self.timers = Timers(clock.monotonic_ms)
        self._driver = TimerDriver(self.timers)
        self._parked_memory = ParkedMemory(parked_bytes_max)
        self.fetch = self.create("Fetch")
        self.produce = self.create("Produce")
        self.delete_records = self.create("DeleteRecords")
        self.share_fetch = self.create("ShareFetch")
        self.readers = WaitingReaders(self.fetch, self.share_fetch)
        """The requests that appended records can complete."""
        self.waiting_requests = WaitingRequests(
            self.delete_records, self.fetch, self.produce, self.share_fetch
        )

    def create(self, name: str) -> Purgatory:
        """Return a purgatory with the same timers and bound; `name` is its name in metrics."""
        return Purgatory(name, self.timers, self._parked_memory)

    def report_to(self, metrics: BrokerMetrics) -> None:
        """Register the metrics of all purgatories, except those of remote storage."""
        metrics.add_purgatories(self.produce, self.fetch, self.delete_records, self.share_fetch)
        metrics.add_parked_memory(self._parked_memory)

    def complete_all(self) -> None:
        """Complete all waiting requests."""
        for purgatory in (self.fetch, self.produce, self.delete_records, self.share_fetch):
            purgatory.force_all()

    def close(self) -> None:
        """Stop the timers."""
        self._driver.stop()
