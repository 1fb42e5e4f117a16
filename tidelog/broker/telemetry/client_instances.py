"""The clients that push metrics to this broker, and when each may send its next request.

A client may get its subscription once in each push interval, and push once in each. It may push at once after
it got its subscription, because clients vary their first interval. After its last push (`terminating`) it may
not push again.

Bounds: `INSTANCES_MAX` instances; the least recently used one is removed first. An instance also ends with
its connection, and when it sends no request for three push intervals and for a minute.

Source: KIP-714; ClientMetricsInstance and ClientMetricsManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.purgatory.timing_wheel import TimerEntry
from tidelog.broker.telemetry.subscriptions import MetricsSubscriptions, RequestedMetrics
from tidelog.protocol.errors import ErrorCode

INSTANCES_MAX: Final = 16_384
_EXPIRY_MS_MIN: Final = 60_000
_EXPIRY_INTERVALS: Final = 3
_NEVER: Final = -1


@dataclass(slots=True, eq=False)
class ClientInstance:
    """One client with its requested metrics, which belong to `version` of the subscriptions."""

    id: UUID
    attributes: Mapping[str, str]
    version: int
    requested: RequestedMetrics
    last_error: ErrorCode = ErrorCode.NONE
    is_terminating: bool = False
    last_get_ms: int = _NEVER
    last_push_ms: int = _NEVER
    expiry: TimerEntry | None = None

    @property
    def subscription_id(self) -> int:
        """The id that the client must send with its metrics."""
        return self.requested.subscription_id(self.id)

    def begin_get(self, now_ms: int) -> bool:
        """Return whether the client may get its subscription now; if so, record the time."""
        last_ms = max(self.last_get_ms, self.last_push_ms)
        is_allowed = self._interval_has_passed(last_ms, now_ms)
        if is_allowed:
            self.last_get_ms = now_ms
        return is_allowed

    def begin_push(self, now_ms: int) -> bool:
        """Return whether the client may push now; if so, record the time."""
        is_first_after_get = self.last_get_ms > self.last_push_ms
        is_allowed = is_first_after_get or self._interval_has_passed(self.last_push_ms, now_ms)
        if is_allowed:
            self.last_push_ms = now_ms
        return is_allowed

    def on_result(self, code: ErrorCode) -> None:
        """Record the result of the last request."""
        self.last_error = code

    def on_push_ended(self, *, is_terminating: bool) -> None:
        """Record whether the client has announced that its last push was the last one."""
        self.is_terminating = is_terminating

    def _interval_has_passed(self, last_ms: int, now_ms: int) -> bool:
        return last_ms == _NEVER or now_ms - last_ms >= self.requested.push_interval_ms


class ClientInstances:
    """The instances by id, in the order of their last use."""

    def __init__(self, subscriptions: MetricsSubscriptions, timers: Timers) -> None:
        self._subscriptions = subscriptions
        self._timers = timers
        self._instances: OrderedDict[UUID, ClientInstance] = OrderedDict()
        self._of_connection: dict[ConnectedClient, UUID] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, client_instance_id: UUID) -> bool:
        return client_instance_id in self._instances

    def get_or_create(
        self, client_instance_id: UUID, attributes: Mapping[str, str], client: ConnectedClient
    ) -> ClientInstance:
        """Return the instance, which sends a request now; a new one after a change of the subscriptions."""
        instance = self._instances.get(client_instance_id)
        if instance is None or instance.version != self._subscriptions.version:
            if instance is not None:
                attributes = instance.attributes
                self._remove(instance)
            instance = ClientInstance(
                client_instance_id,
                attributes,
                self._subscriptions.version,
                self._subscriptions.requested_of(attributes),
            )
            self._add(instance, client)
        self._instances.move_to_end(client_instance_id)
        self._schedule_expiry(instance)
        return instance

    def _add(self, instance: ClientInstance, client: ConnectedClient) -> None:
        if len(self._instances) >= INSTANCES_MAX:
            self._remove(next(iter(self._instances.values())))
        self._instances[instance.id] = instance
        if client not in self._of_connection:
            client.when_disconnected(lambda: self._on_disconnected(client))
        self._of_connection[client] = instance.id

    def _remove(self, instance: ClientInstance) -> None:
        del self._instances[instance.id]
        if instance.expiry is not None:
            instance.expiry.cancel()

    def _schedule_expiry(self, instance: ClientInstance) -> None:
        if instance.expiry is not None:
            instance.expiry.cancel()
        delay_ms = max(_EXPIRY_MS_MIN, _EXPIRY_INTERVALS * instance.requested.push_interval_ms)
        instance.expiry = self._timers.schedule(delay_ms, lambda: self._remove(instance))

    def _on_disconnected(self, client: ConnectedClient) -> None:
        instance = self._instances.get(self._of_connection.pop(client))
        if instance is not None:
            self._remove(instance)
