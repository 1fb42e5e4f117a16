"""The parts of the time of requests."""

from __future__ import annotations

import asyncio

from tests.support.waiting import eventually, remains
from tidelog.broker.network.pending_responses import PendingResponses
from tidelog.broker.network.request import Request
from tidelog.broker.network.request_metrics import ApiMetrics, RequestWaits
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.testing.embedded import EmbeddedCluster


class FixedRoute:
    """The route of an API with the given metrics."""

    may_wait = True

    def __init__(self, metrics: ApiMetrics) -> None:
        self.metrics = metrics

    def fail(self, request: Request, error: BaseException) -> None:
        raise error


def request_to(metrics: ApiMetrics) -> Request:
    request = Request(None, memoryview(b""), 0, 0)
    request.route = FixedRoute(metrics)
    return request


def test_a_request_that_never_waits_has_only_local_time() -> None:
    api = ApiMetrics("Fetch", 1)
    api.observe(100, 130, None)
    assert (api.times.total_ns, api.local_ns, api.remote_ns, api.request_queue_ns) == (30, 30, 0, 0)


def test_the_parts_of_a_request_that_waits_add_up_to_its_total_time() -> None:
    api = ApiMetrics("JoinGroup", 1)
    waits = RequestWaits()
    waits.queue_ns, waits.remote_began_ns = 20, 150
    api.observe(100, 250, waits)
    assert (api.request_queue_ns, api.local_ns, api.remote_ns) == (20, 30, 100)
    assert api.times.total_ns == 150


def test_a_response_that_waits_for_an_earlier_one_is_counted_in_the_response_queue() -> None:
    api = ApiMetrics("Produce", 1)
    first, second = request_to(api), request_to(api)
    pending = PendingResponses()
    pending.add(first)
    pending.add(second)
    assert pending.respond(second, b"2", 1_000) == []
    assert pending.respond(first, b"1", 4_000) == [b"1", b"2"]
    assert api.response_queue_ns == 3_000


def test_the_wait_of_a_fetch_for_records_is_remote_time() -> None:
    def parts(node: BrokerNode) -> tuple[int, int, int, int]:
        api = node.metrics.requests.apis["Fetch"]
        return api.times.total_ns, api.request_queue_ns, api.local_ns, api.remote_ns

    with EmbeddedCluster() as cluster:
        cluster.create_topics(["tides"])

        async def wait_for_a_record() -> None:
            async with (
                Producer(cluster.bootstrap_servers) as producer,
                Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer,
            ):
                consumer.assign([("tides", 0)])
                poll = asyncio.ensure_future(consumer.poll(timeout_ms=20_000))
                await eventually(lambda: cluster.run(_waiting_fetches) == 1)
                await remains(lambda: cluster.run(_waiting_fetches) == 1, 0.05)
                await producer.send("tides", b"high")
                assert await poll

        asyncio.run(wait_for_a_record())
        total_ns, queue_ns, local_ns, remote_ns = cluster.run(parts)
    assert remote_ns >= 50_000_000
    assert queue_ns + local_ns + remote_ns == total_ns


def _waiting_fetches(node: BrokerNode) -> int:
    return next(
        int(value)
        for family in node.metrics.families
        if family.name == "kafka_server_delayedoperationpurgatory_numdelayedoperations"
        for labels, value in family.values()
        if labels == ("Fetch",) and isinstance(value, (int, float))
    )
