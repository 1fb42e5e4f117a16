"""The broker's metrics under Kafka's names in Prometheus style, from plain numbers kept elsewhere.

Nothing is counted here: hot paths add to integers in slotted objects, and this reads them when
somebody scrapes. Names are Kafka's MBean names in lower case: type_name of
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec gives kafka_server_brokertopicmetrics_bytesin_total.

`tidelog.broker.observability.exposition` renders them.

Bounds: one sample per API and version, per API and error, per partition; nothing grows per client.
I/O: none, but a scrape reads live objects and so must run on their loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.purgatory.parked_memory import ParkedMemory
from tidelog.broker.purgatory.purgatory import Purgatory

# The value of a metric without labels, or its values by the values of the labels.
Reading = float | Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: how it is called and where its numbers are read."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    read: Callable[[], Reading]
    is_counter: bool
    """A total that only rises; else a value that goes up and down."""


class BrokerMetrics:
    """Everything one broker reports; several brokers in a process have one each.

    `requests` is what a Dispatcher counts into. The `add_...` methods say what else to report.
    """

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self.families: list[Family] = []
        self._purgatories: list[Purgatory] = []

    def gauge(
        self, name: str, documentation: str, read: Callable[[], Reading], labels: tuple[str, ...] = ()
    ) -> None:
        """Report what `read` returns, a value that goes up and down."""
        self._add(Family(name, documentation, labels, read, is_counter=False))

    def counter(
        self, name: str, documentation: str, read: Callable[[], Reading], labels: tuple[str, ...] = ()
    ) -> None:
        """Report what `read` returns, a total since start; `name` without `_total`, which is appended."""
        self._add(Family(name, documentation, labels, read, is_counter=True))

    def _add(self, family: Family) -> None:
        # Readers of metrics refuse all of them when a name comes twice.
        assert all(one.name != family.name for one in self.families), f"{family.name} is reported twice"
        self.families.append(family)

    def add_network(self, server: NetworkServer) -> None:
        """Report connections and bytes of all listeners."""
        counters = server.counters
        prefix = "kafka_server_socketservermetrics_"

        def per_listener() -> Reading:
            return {(name,): len(listener.connections) for name, listener in server.listeners.items()}

        self.gauge(prefix + "connection_count", "Open connections.", per_listener, ("listener",))
        for name, documentation, read in (
            ("connection_creation", "Connections accepted.", lambda: counters.connections_accepted),
            ("connection_close", "Connections ended.", lambda: counters.connections_closed),
            ("connection_refused", "Connections over a limit.", lambda: counters.connections_refused),
            ("expired_connections_killed", "Idle connections closed.", lambda: counters.connections_expired),
            ("incoming_byte", "Bytes received.", lambda: counters.bytes_in),
            ("outgoing_byte", "Bytes of answers.", server.bytes_out),
        ):
            self.counter(prefix + name, documentation, read)

    def add_channel(self, channel: RequestChannel) -> None:
        """Report how busy the request channel is."""
        prefix = "kafka_network_requestchannel_"
        self.gauge(prefix + "requestqueuesize", "Requests that wait for a place.", lambda: channel.waiting)
        self.gauge(prefix + "requestsrunning", "Requests that tasks work on.", lambda: channel.running)

    def add_purgatories(self, *purgatories: Purgatory) -> None:
        """Report what waits, by kind of operation; more kinds may be added later."""
        self._purgatories += purgatories
        if len(self._purgatories) > len(purgatories):
            return
        prefix = "kafka_server_delayedoperationpurgatory_"
        labels = ("delayedoperation",)

        def by_name(read: Callable[[Purgatory], int]) -> Callable[[], Reading]:
            return lambda: {(purgatory.name,): read(purgatory) for purgatory in self._purgatories}

        delayed, watched = by_name(lambda one: one.delayed), by_name(lambda one: one.watched)
        self.gauge(prefix + "numdelayedoperations", "Operations that wait.", delayed, labels)
        self.gauge(prefix + "purgatorysize", "Entries of watcher lists.", watched, labels)
        expired = by_name(lambda one: one.expired)
        self.counter(prefix + "expires", "Operations ended by time.", expired, labels)

    def add_parked_memory(self, memory: ParkedMemory) -> None:
        """Report what parked requests keep of max.parked.request.bytes."""
        prefix = "kafka_server_parkedrequests_"
        self.gauge(prefix + "bytes", "Memory that parked requests keep.", lambda: memory.used_bytes)
        self.counter(
            prefix + "expiredearly", "Parked requests that the limit ended.", lambda: memory.expired_early
        )

    def add_traffic(self, traffic: TopicTraffic) -> None:
        """Report what goes through topics."""
        for name, documentation, read in (
            ("messagesin", "Records appended by producers.", lambda: traffic.messages_in),
            ("bytesin", "Bytes appended by producers.", lambda: traffic.bytes_in),
            ("bytesout", "Bytes fetched by clients.", lambda: traffic.bytes_out),
            ("replicationbytesout", "Bytes fetched by followers.", lambda: traffic.replication_bytes_out),
            ("totalproducerequests", "Partitions produced to.", lambda: traffic.produce_requests),
            ("totalfetchrequests", "Partitions fetched from.", lambda: traffic.fetch_requests),
            (
                "failedproducerequests",
                "Failed of them, and not as clients must expect.",
                lambda: traffic.failed_produce_requests,
            ),
            (
                "failedfetchrequests",
                "Failed of them, and not as clients must expect.",
                lambda: traffic.failed_fetch_requests,
            ),
        ):
            self.counter("kafka_server_brokertopicmetrics_" + name, documentation, read)
