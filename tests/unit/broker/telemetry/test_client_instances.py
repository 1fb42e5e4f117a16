"""When clients may send requests, and when their instances are forgotten."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.telemetry import client_instances
from tidelog.broker.telemetry.client_instances import ClientInstance, ClientInstances
from tidelog.broker.telemetry.subscriptions import MetricsSubscriptions, RequestedMetrics

INTERVAL_MS = 1_000


def instance() -> ClientInstance:
    return ClientInstance(
        UUID(int=200), {}, 0, RequestedMetrics(metrics=("*",), push_interval_ms=INTERVAL_MS)
    )


class InstancesFixture:
    """Instances on a manual clock, without subscriptions: the interval is five minutes."""

    def __init__(self) -> None:
        self.clock = ManualClock(monotonic_ms=10_000)
        self.timers = Timers(self.clock.monotonic_ms)
        self.subscriptions = MetricsSubscriptions()
        self.instances = ClientInstances(self.subscriptions, self.timers)

    def use(self, number: int, client: ConnectedClient | None = None) -> ClientInstance:
        """Return the instance of a client that sends a request."""
        return self.instances.get_or_create(UUID(int=number), {}, client or ConnectedClient())

    def pass_time(self, duration_ms: int) -> None:
        """Advance the clock and run expired timers."""
        self.clock.now_ms += duration_ms
        self.timers.advance()


def test_a_client_gets_its_subscription_once_in_an_interval() -> None:
    client = instance()
    assert client.begin_get(0)
    assert not client.begin_get(INTERVAL_MS - 1)
    assert client.begin_get(INTERVAL_MS)


def test_a_client_may_push_at_once_after_it_got_its_subscription() -> None:
    client = instance()
    assert client.begin_get(5_000)
    assert client.begin_push(5_001)
    assert not client.begin_push(5_002)
    assert not client.begin_get(5_003)
    assert client.begin_push(5_001 + INTERVAL_MS)


def test_a_client_that_another_broker_served_before_may_push() -> None:
    assert instance().begin_push(0)


def test_an_instance_is_kept_while_it_sends_requests_and_forgotten_after_three_intervals() -> None:
    fixture = InstancesFixture()
    first = fixture.use(200)
    fixture.pass_time(800_000)
    assert fixture.use(200) is first
    fixture.pass_time(800_000)
    assert len(fixture.instances) == 1
    fixture.pass_time(200_000)
    assert len(fixture.instances) == 0
    assert len(fixture.timers) == 0


def test_an_instance_ends_with_its_connection() -> None:
    fixture = InstancesFixture()
    client = ConnectedClient()
    fixture.use(200, client)
    fixture.use(201)
    client.on_disconnected()
    assert UUID(int=200) not in fixture.instances
    assert UUID(int=201) in fixture.instances
    assert len(fixture.timers) == 1


def test_a_connection_may_end_after_its_instance_has_expired() -> None:
    fixture = InstancesFixture()
    client = ConnectedClient()
    fixture.use(200, client)
    fixture.pass_time(1_000_000)
    client.on_disconnected()
    assert len(fixture.instances) == 0


def test_the_least_recently_used_instance_is_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_instances, "INSTANCES_MAX", 3)
    fixture = InstancesFixture()
    for number in (200, 201, 202, 200, 203):
        fixture.use(number)
    assert [number for number in range(200, 204) if UUID(int=number) in fixture.instances] == [200, 202, 203]
    assert len(fixture.timers) == 3


def test_changed_subscriptions_give_a_client_a_new_instance_that_is_not_throttled() -> None:
    fixture = InstancesFixture()
    before = fixture.use(200)
    assert before.begin_get(0) and not before.begin_get(1)
    fixture.subscriptions.version += 1
    after = fixture.use(200)
    assert after is not before and after.begin_get(1)
    assert len(fixture.timers) == 1
