"""The definitions of the broker's metrics, under Kafka's names in Prometheus style.

Nothing is counted here: hot paths add to integers in slotted objects, which are read at each scrape. Names
are Kafka's MBean names in lower case: type_name of
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec becomes kafka_server_brokertopicmetrics_bytesin_total.

Two rules of Prometheus, which its linter checks, have priority: times are in seconds, and `_count` is the
suffix of histograms only. Kafka's TotalTimeMs is totaltime_seconds, and its connection-count is connections.

`tidelog.broker.observability.exposition` renders them for Prometheus, and
`tidelog.broker.observability.otlp_export` for OpenTelemetry.

Bounds: one sample per API and version, per API and error, per partition; nothing grows per client.
I/O: none. A scrape reads live objects and therefore must run on their event loop.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.base.time_histogram import TimeHistogram
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_metrics import ApiMetrics, RequestMetrics
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.observability.topic_traffic import TopicCounters, TopicTraffic
from tidelog.broker.purgatory.parked_memory import ParkedMemory
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode

Reading: TypeAlias = float | Mapping[tuple[str, ...], float]
"""The value of a metric without labels, or its values by label values."""
HistogramReading: TypeAlias = Mapping[tuple[str, ...], TimeHistogram]

NANOSECONDS: Final = 1_000_000_000
_REQUESTS: Final = "kafka_network_requestmetrics_"


class FamilyKind(Enum):
    """The kinds of metrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """A total that only increases."""
    HISTOGRAM = "histogram"
    """Durations in seconds."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, labels and documentation, and the function that reads its values."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    read: Callable[[], Reading | HistogramReading]
    kind: FamilyKind

    def values(self) -> list[tuple[tuple[str, ...], float | TimeHistogram]]:
        """Return the current values with the values of their labels."""
        reading = self.read()
        return list(reading.items()) if isinstance(reading, Mapping) else [((), reading)]


class BrokerMetrics:
    """The metrics of one broker; each of several brokers in a process has its own.

    A Dispatcher counts requests in `requests`. The `add_...` methods add further metrics.
    """

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self.families: list[Family] = []
        """The metrics of the node itself."""
        self._sources: list[Callable[[], Iterable[Family]]] = []
        self._purgatories: list[Purgatory] = []
        self._add_requests()

    def add_source(self, read: Callable[[], Iterable[Family]]) -> None:
        """Add metrics that change while the node runs; `read` returns the current ones."""
        self._sources.append(read)

    def all_families(self) -> Iterator[Family]:
        """Return the metrics of the node, then those of the sources."""
        yield from self.families
        for read in self._sources:
            yield from read()

    def gauge(
        self, name: str, documentation: str, read: Callable[[], Reading], labels: tuple[str, ...] = ()
    ) -> None:
        """Add a gauge, whose value `read` returns."""
        self._add(Family(name, documentation, labels, read, FamilyKind.GAUGE))

    def counter(
        self, name: str, documentation: str, read: Callable[[], Reading], labels: tuple[str, ...] = ()
    ) -> None:
        """Add a counter, whose total since the start `read` returns; `_total` is appended to `name`."""
        self._add(Family(name, documentation, labels, read, FamilyKind.COUNTER))

    def histogram(
        self,
        name: str,
        documentation: str,
        read: Callable[[], HistogramReading],
        labels: tuple[str, ...] = (),
    ) -> None:
        """Add a histogram of durations; `name` ends in `_seconds`."""
        self._add(Family(name, documentation, labels, read, FamilyKind.HISTOGRAM))

    def _add(self, family: Family) -> None:
        # Prometheus rejects the whole scrape if a name occurs twice.
        is_new = all(other.name != family.name for other in self.families)
        assert is_new, f"{family.name} is registered twice"
        self.families.append(family)

    def _add_requests(self) -> None:
        """Add the metrics of requests by API."""
        apis = self.requests.apis

        def requests() -> Reading:
            return {
                (api.name, str(version)): count
                for api in apis.values()
                for version, count in enumerate(api.requests)
                if count
            }

        def errors() -> Reading:
            return {
                (api.name, ErrorCode(code).name): count
                for api in apis.values()
                for code, count in api.errors.items()
            }

        def times() -> HistogramReading:
            return {(api.name,): api.times for api in self._used_apis()}

        self.counter(_REQUESTS + "requests", "Requests received.", requests, ("request", "version"))
        self.counter(_REQUESTS + "errors", "Error responses.", errors, ("request", "error"))
        self.histogram(_REQUESTS + "totaltime_seconds", "Time from request to response.", times, ("request",))
        for name, documentation, read in (
            ("requestqueue", "Time that requests waited for a slot.", lambda api: api.request_queue_ns),
            ("local", "Time to handle requests on this node.", lambda api: api.local_ns),
            ("remote", "Time that requests waited for events.", lambda api: api.remote_ns),
            ("throttle", "Throttle times of clients over a quota.", lambda api: api.throttle_ns),
            (
                "responsequeue",
                "Time that responses waited for those before them.",
                lambda api: api.response_queue_ns,
            ),
            (
                "responsesend",
                "Time until sockets accepted responses that they did not accept at once.",
                lambda api: api.response_send_ns,
            ),
        ):
            self.counter(
                f"{_REQUESTS}{name}time_seconds", documentation, self._seconds_by_api(read), ("request",)
            )

    def _used_apis(self) -> Iterator[ApiMetrics]:
        return (api for api in self.requests.apis.values() if any(api.requests))

    def _seconds_by_api(self, read: Callable[[ApiMetrics], int]) -> Callable[[], Reading]:
        return lambda: {(api.name,): read(api) / NANOSECONDS for api in self._used_apis()}

    def add_build(self, version: str, node_id: int, roles: Sequence[str]) -> None:
        """Add the metric whose labels name the version of this process and its node."""
        labels = {
            "version": version,
            "python": platform.python_version(),
            "node_id": str(node_id),
            "roles": ",".join(roles),
        }
        self.gauge(
            "tidelog_build_info",
            "1; the labels name the version and the node.",
            lambda: {tuple(labels.values()): 1},
            tuple(labels),
        )

    def add_network(self, server: NetworkServer) -> None:
        """Add the metrics of connections and bytes of all listeners."""
        counters = server.counters
        prefix = "kafka_server_socketservermetrics_"

        def per_listener() -> Reading:
            return {(name,): len(listener.connections) for name, listener in server.listeners.items()}

        def receive_buffer_bytes() -> int:
            return sum(connection.core.buffer.capacity_bytes for connection in server.connections())

        self.gauge(prefix + "connections", "Open connections.", per_listener, ("listener",))
        self.gauge("tidelog_receive_buffer_bytes", "Memory of receive buffers.", receive_buffer_bytes)
        for name, documentation, read in (
            ("connection_creation", "Connections accepted.", lambda: counters.connections_accepted),
            ("connection_close", "Connections closed.", lambda: counters.connections_closed),
            ("connection_refused", "Connections over a limit.", lambda: counters.connections_refused),
            ("idle_connection_close", "Idle connections closed.", lambda: counters.connections_expired),
            ("incoming_byte", "Bytes received.", lambda: counters.bytes_in),
            ("outgoing_byte", "Bytes of responses.", server.bytes_out),
        ):
            self.counter(prefix + name, documentation, read)

    def add_slices(self, slices: Slices) -> None:
        """Add the metrics of long work, which runs in slices of the event loop's time."""
        for name, documentation, read in (
            ("pending", "Pieces of work that have started and not ended.", lambda: slices.pending_count),
            ("heavy", "Pieces of work that hold much memory.", lambda: slices.heavy_count),
        ):
            self.gauge(f"tidelog_slices_{name}", documentation, read)
        self.counter("tidelog_slices_run", "Slices of work.", lambda: slices.slice_count)

    def add_channel(self, channel: RequestChannel) -> None:
        """Add the metrics of waiting and running requests of the request channel."""
        prefix = "kafka_network_requestchannel_"
        self.gauge(
            prefix + "requestqueuesize", "Requests waiting for a handler.", lambda: channel.waiting_count
        )
        self.gauge(
            prefix + "requestsrunning", "Requests that handlers process.", lambda: channel.running_count
        )

    def add_purgatories(self, *purgatories: Purgatory) -> None:
        """Add the metrics of delayed operations, by purgatory; further purgatories may be added later."""
        self._purgatories += purgatories
        if len(self._purgatories) > len(purgatories):
            return
        prefix = "kafka_server_delayedoperationpurgatory_"
        labels = ("delayedoperation",)

        def by_name(read: Callable[[Purgatory], int]) -> Callable[[], Reading]:
            return lambda: {(purgatory.name,): read(purgatory) for purgatory in self._purgatories}

        delayed_counts = by_name(lambda purgatory: purgatory.delayed_count)
        watched_counts = by_name(lambda purgatory: purgatory.watched_count)
        expired_counts = by_name(lambda purgatory: purgatory.expired_count)
        self.gauge(prefix + "numdelayedoperations", "Delayed operations.", delayed_counts, labels)
        self.gauge(prefix + "purgatorysize", "Entries of watcher lists.", watched_counts, labels)
        self.counter(prefix + "expires", "Operations completed by expiry.", expired_counts, labels)

    def add_parked_memory(self, memory: ParkedMemory) -> None:
        """Add the metrics of the memory of parked requests, which max.parked.request.bytes limits."""
        prefix = "kafka_server_parkedrequests_"
        self.gauge(prefix + "bytes", "Memory that parked requests use.", lambda: memory.used_bytes)
        self.counter(
            prefix + "expiredearly",
            "Parked requests expired early by the limit.",
            lambda: memory.early_expirations,
        )

    def add_traffic(self, traffic: TopicTraffic) -> None:
        """Add the metrics of records, bytes and requests of all topics."""
        for name, documentation, read in (
            ("messagesin", "Records appended by producers.", lambda: traffic.messages_in),
            ("bytesin", "Bytes appended by producers.", lambda: traffic.bytes_in),
            ("bytesout", "Bytes fetched by clients.", lambda: traffic.bytes_out),
            ("replicationbytesout", "Bytes fetched by followers.", lambda: traffic.replication_bytes_out),
            ("totalproducerequests", "Partitions produced to.", lambda: traffic.produce_requests),
            ("totalfetchrequests", "Partitions fetched from.", lambda: traffic.fetch_requests),
            (
                "failedproducerequests",
                "Partitions for which a produce failed, except for expected errors.",
                lambda: traffic.failed_produce_requests,
            ),
            (
                "failedfetchrequests",
                "Partitions for which a fetch failed, except for expected errors.",
                lambda: traffic.failed_fetch_requests,
            ),
        ):
            self.counter("kafka_server_brokertopicmetrics_" + name, documentation, read)
        self._add_topics(traffic)

    def _add_topics(self, traffic: TopicTraffic) -> None:
        """Add the metrics of each topic, under other names, so that sums do not count them twice."""

        def by_topic(read: Callable[[TopicCounters], int]) -> Callable[[], Reading]:
            return lambda: {(topic,): read(counters) for topic, counters in traffic.topics.items()}

        for name, documentation, read in (
            ("messages_in", "Records of a topic appended by producers.", lambda one: one.messages_in),
            ("bytes_in", "Bytes of a topic appended by producers.", lambda one: one.bytes_in),
            ("bytes_out", "Bytes of a topic fetched by clients.", lambda one: one.bytes_out),
        ):
            self.counter("tidelog_topic_" + name, documentation, by_topic(read), ("topic",))
