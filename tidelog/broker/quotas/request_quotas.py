"""The quotas of requests: produced and fetched bytes, and the share of the event loop's time.

    producer_byte_rate    the bytes of Produce requests, recorded when a request arrives
    consumer_byte_rate    the bytes of records that a Fetch returns; a throttled Fetch returns no records, and
                          its bytes are not counted
    request_percentage    the time of the event loop, in percent, in which handlers run, and the steps of long
                          requests; it throttles the next request; a throttle time is at most one window

The response is sent at once, with the throttle time. Then the connection is muted for this time (KIP-219).
Fetches of followers and transaction markers are exempt; on a controller, the requests of the quorum are.
A Produce with acks=0 is throttled by its bytes only.

The active controller measures the time of a forwarded request for the client, too. It puts the throttle time
into the response; the broker that has forwarded the request mutes the connection.

I/O: none; the clock is passed in. Source: KIP-13, KIP-55, KIP-124, KIP-219; KafkaApis of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final, TypeVar

from tidelog.base.clock import Clock
from tidelog.base.sampled_rate import SampledRate, Windows
from tidelog.broker.network.request import Request
from tidelog.broker.quotas.client_rates import ClientRates
from tidelog.broker.quotas.event_loop_time import measured_steps
from tidelog.broker.quotas.mutation_quotas import CONTROLLER_MUTATION_RATE
from tidelog.broker.quotas.resolution import Client
from tidelog.cluster.image import ClientQuotas
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.steps import Steps

T = TypeVar("T")

NANOSECONDS_PER_PERCENT: Final = 10_000_000
"""One percent of a second."""
_BYTES_MAX: Final = 2**31 - 1

EXEMPT_ON_BROKERS: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})
EXEMPT_ON_CONTROLLERS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
    }
)
"""The requests that have no quota of request time; the request inside an Envelope has one."""


class RequestQuotas:
    """The rates of all clients of a broker; `of` returns the quota of one request."""

    def __init__(
        self,
        clock: Clock,
        windows: Windows,
        exempt: frozenset[ApiKey] = EXEMPT_ON_BROKERS,
        request: ClientRates | None = None,
    ) -> None:
        """Use the rates of request time `request`, if the broker and the controller of a node share them."""
        self.clock = clock
        self.windows = windows
        self.exempt = exempt
        """The requests that have no quota of request time."""
        self.produce = ClientRates("producer_byte_rate", windows)
        self.fetch = ClientRates("consumer_byte_rate", windows)
        self.request = request or ClientRates(
            "request_percentage", windows, throttle_time_max_ms=windows.size_ms
        )
        self.exempt_time = SampledRate(windows)
        """The percentage of the event loop's time for requests that are exempt from quotas."""
        self.is_enabled = False
        """Whether any client has a quota; otherwise requests have none."""

    def update(self, quotas: ClientQuotas) -> None:
        """Use changed quotas of clients."""
        rates = (self.produce, self.fetch, self.request)
        for each in rates:
            each.update(quotas)
        # The controller throttles by this key. Its throttle time mutes the connection to this broker.
        limits_mutations = any(CONTROLLER_MUTATION_RATE in one for one in quotas.values())
        self.is_enabled = limits_mutations or any(each.is_enabled for each in rates)

    def of(self, request: Request) -> RequestQuota:
        """Return the quota of a request that has just arrived; record the bytes of a Produce."""
        return RequestQuota(self, request)

    def throttle_forwarded(
        self, principal: str, header: RequestHeader, elapsed_ns: int, mutation_throttle_time_ms: int
    ) -> int:
        """Record the time of a forwarded request; return the throttle time for its response.

        `mutation_throttle_time_ms` is the throttle time because of the partitions that it changes.
        """
        if not self.request.is_enabled:
            return mutation_throttle_time_ms
        client, now_ms = Client.of(principal, header), self.clock.monotonic_ms()
        percent = elapsed_ns / NANOSECONDS_PER_PERCENT
        if header.api_key in self.exempt:
            self.exempt_time.record(percent, now_ms)
            return mutation_throttle_time_ms
        throttle_time_ms = self.request.record(client, percent, now_ms)
        if throttle_time_ms <= mutation_throttle_time_ms:
            return mutation_throttle_time_ms
        self.request.count_throttle(client, throttle_time_ms)
        return throttle_time_ms


class RequestQuota:
    """The quota of one request; `throttle` or `throttle_fetch` is called once, just before its response."""

    __slots__ = ("_client", "_is_exempt", "_is_in_handler", "_produce_throttle_time_ms", "_quotas")

    def __init__(self, quotas: RequestQuotas, request: Request) -> None:
        header = request.header
        self._quotas = quotas
        self._client = Client.of(request.principal, header)
        self._is_exempt = header.api_key in quotas.exempt
        self._is_in_handler = True
        self._produce_throttle_time_ms = 0
        if header.api_key == ApiKey.PRODUCE and quotas.produce.is_enabled:
            self._produce_throttle_time_ms = quotas.produce.record(
                self._client, len(request.frame), quotas.clock.monotonic_ms()
            )

    def exempt(self) -> None:
        """Exempt the request from the quota of request time."""
        self._is_exempt = True

    def fetch_bytes_max(self) -> int:
        """Return how many bytes a Fetch may return without being throttled in any case."""
        limit = self._quotas.fetch.limit(self._client)
        if limit is None:
            return _BYTES_MAX
        windows = self._quotas.windows
        return min(int(limit * (windows.number - 1) * windows.size_ms / 1000), _BYTES_MAX)

    def throttle_fetch(self, request: Request, size_bytes: int, *, keeps_records: bool = False) -> int:
        """Do the same as `throttle` for a Fetch of a client.

        A throttled one must return no records, unless it `keeps_records`.
        """
        fetch = self._quotas.fetch
        if not fetch.is_enabled:
            return self.throttle(request)
        now_ms = self._quotas.clock.monotonic_ms()
        byte_throttle_time_ms = fetch.record(self._client, size_bytes, now_ms)
        throttle_time_ms = self._throttle(request, fetch, byte_throttle_time_ms)
        if throttle_time_ms and not keeps_records:
            fetch.unrecord(self._client, size_bytes, now_ms)
        return throttle_time_ms

    def throttle(self, request: Request, controller_throttle_time_ms: int = 0) -> int:
        """Mute the connection if the client exceeds a quota; return the throttle time for the response.

        `controller_throttle_time_ms` is the throttle time in the response of the controller.
        """
        if controller_throttle_time_ms:
            return self._throttle(request, None, controller_throttle_time_ms)
        return self._throttle(request, self._quotas.produce, self._produce_throttle_time_ms)

    def on_handler_return(self, elapsed_ns: int) -> None:
        """Record the time of the handler, with the steps that it has run at once."""
        self._is_in_handler = False
        self._record_time(elapsed_ns)

    def measured(self, steps: Steps[T]) -> Steps[T]:
        """Return the same steps; record the time of those that run after the handler has returned."""
        if not self._quotas.request.is_enabled:
            return (yield from steps)
        return (yield from measured_steps(steps, self._quotas.clock.monotonic_ns, self._record_step))

    def _record_step(self, elapsed_ns: int) -> None:
        if not self._is_in_handler:
            self._record_time(elapsed_ns)

    def _record_time(self, elapsed_ns: int) -> None:
        quotas = self._quotas
        if not quotas.request.is_enabled:
            return
        percent, now_ms = elapsed_ns / NANOSECONDS_PER_PERCENT, quotas.clock.monotonic_ms()
        if self._is_exempt:
            quotas.exempt_time.record(percent, now_ms)
        else:
            quotas.request.record(self._client, percent, now_ms)

    def _throttle(self, request: Request, rates: ClientRates | None, throttle_time_ms: int) -> int:
        """Mute the connection for the throttle time of `rates` or of the request time, if that is longer.

        `rates` is None for a throttle time of the controller, which has counted it.
        """
        by_time = self._quotas.request
        if by_time.is_enabled and not self._is_exempt:
            time_ms = by_time.throttle_time_ms(self._client, self._quotas.clock.monotonic_ms())
            if time_ms > throttle_time_ms or (rates is not None and time_ms == throttle_time_ms):
                rates, throttle_time_ms = by_time, time_ms
        if throttle_time_ms:
            if rates is not None:
                rates.count_throttle(self._client, throttle_time_ms)
            request.throttle(throttle_time_ms)
        return throttle_time_ms
