"""Metrics in the Prometheus formats."""

from __future__ import annotations

import logging

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strictly_parsed
from prometheus_client.parser import text_string_to_metric_families

from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import frame, running_server
from tests.support.waiting import eventually
from tidelog.base.clock import SystemClock
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.observability.exposition import SAMPLES_PER_PIECE, Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.purgatory.purgatory import DelayedOperation, Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.registry import APIS
from tidelog.protocol.steps import Heavy, Steps


def samples(metrics: BrokerMetrics, accept: str = "") -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the values of an exposition text by name and labels."""
    text, _ = Exposition(metrics).text(accept)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_requests_errors_and_times_have_kafkas_metric_names() -> None:
    metrics = BrokerMetrics()
    produce = metrics.requests.of("Produce", 13)
    assert metrics.requests.of("Produce", 13) is produce
    produce.requests[9] += 3
    produce.errors[ErrorCode.NOT_LEADER_OR_FOLLOWER] += 1
    produce.observe(0, 300_000, None)
    produce.observe(0, 60_000_000_000, None)
    values = samples(metrics)
    name = "kafka_network_requestmetrics_"
    assert values[name + "requests_total", (("request", "Produce"), ("version", "9"))] == 3
    assert (name + "requests_total", (("request", "Produce"), ("version", "8"))) not in values
    labels = (("error", "NOT_LEADER_OR_FOLLOWER"), ("request", "Produce"))
    assert values[name + "errors_total", labels] == 1
    bucket = name + "totaltime_seconds_bucket"
    assert values[bucket, (("le", "0.00025"), ("request", "Produce"))] == 0
    assert values[bucket, (("le", "0.0005"), ("request", "Produce"))] == 1
    assert values[bucket, (("le", "30.0"), ("request", "Produce"))] == 1
    assert values[bucket, (("le", "+Inf"), ("request", "Produce"))] == 2
    assert values[name + "totaltime_seconds_count", (("request", "Produce"),)] == 2
    assert values[name + "totaltime_seconds_sum", (("request", "Produce"),)] == pytest.approx(60.0003)


def test_gauges_and_counters_are_read_at_a_scrape() -> None:
    metrics = BrokerMetrics()
    sizes: dict[tuple[str, ...], float] = {}
    metrics.gauge("kafka_log_log_size", "Bytes.", lambda: sizes, ("topic", "partition"))
    metrics.counter("kafka_log_deleted", "Segments.", lambda: 4)
    assert samples(metrics)["kafka_log_deleted_total", ()] == 4
    sizes[("t", "0")] = 17
    assert samples(metrics)["kafka_log_log_size", (("partition", "0"), ("topic", "t"))] == 17


def test_a_failing_metric_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    metrics = BrokerMetrics()
    metrics.gauge("broken", "Fails.", lambda: 1 // 0)
    metrics.gauge("whole", "Works.", lambda: 1)
    with caplog.at_level(logging.ERROR):
        values = samples(metrics)
    assert values["whole", ()] == 1
    assert ("broken", ()) not in values
    assert "broken" in caplog.records[0].getMessage()


def test_samples_of_a_metric_share_one_header_in_both_formats() -> None:
    metrics = BrokerMetrics()
    metrics.counter("many", "Of all.", lambda: {(str(one),): one for one in range(1_234)}, ("partition",))
    assert sum(name == "many_total" for name, _ in samples(metrics)) == 1_234
    text = Exposition(metrics).text("application/openmetrics-text; version=1.0.0")[0].decode()
    (many,) = (family for family in strictly_parsed(text) if family.name == "many")
    assert [sample.value for sample in many.samples] == [*range(1_234)]


def test_the_histograms_of_all_apis_are_rendered_in_small_pieces() -> None:
    """All of them in one piece blocked the event loop for 6 ms."""
    metrics = BrokerMetrics()
    for api in APIS.values():
        metrics.requests.of(api.name, api.highest).requests[-1] += 1
    pieces = list(Exposition(metrics).pieces())
    sizes = [len([line for line in piece.splitlines() if not line.startswith(b"#")]) for piece in pieces]
    assert max(sizes) <= SAMPLES_PER_PIECE
    assert sum(b"totaltime_seconds_count" in piece for piece in pieces) > 10


def test_a_metric_that_is_added_twice_is_a_bug() -> None:
    metrics = BrokerMetrics()
    metrics.gauge("kafka_log_log_size", "Bytes.", lambda: 1)
    with pytest.raises(AssertionError, match="kafka_log_log_size"):
        metrics.counter("kafka_log_log_size", "Bytes.", lambda: 2)


def test_brokers_of_one_process_do_not_share_metrics() -> None:
    first, second = BrokerMetrics(), BrokerMetrics()
    first.requests.of("Fetch", 18).requests[4] += 1
    assert not second.requests.apis


def test_traffic_purgatories_and_channel_are_reported() -> None:
    class WaitingOperation(DelayedOperation):
        def try_complete(self) -> bool:
            return False

        def on_complete(self) -> None:
            """Do nothing."""

        def release(self) -> None:
            """Do nothing."""

    now = [0]
    timers = Timers(lambda: now[0])
    fetch, produce = Purgatory("Fetch", timers), Purgatory("Produce", timers)
    fetch.try_complete_else_watch(WaitingOperation(10), ["a", "b"])
    traffic = TopicTraffic()
    traffic.bytes_in = 5_000
    metrics = BrokerMetrics()
    metrics.add_traffic(traffic)
    metrics.add_purgatories(fetch, produce)
    metrics.add_channel(RequestChannel(5))
    values = samples(metrics)
    assert values["kafka_server_brokertopicmetrics_bytesin_total", ()] == 5_000
    prefix = "kafka_server_delayedoperationpurgatory_"
    assert values[prefix + "numdelayedoperations", (("delayedoperation", "Fetch"),)] == 1
    assert values[prefix + "purgatorysize", (("delayedoperation", "Fetch"),)] == 2
    assert values[prefix + "purgatorysize", (("delayedoperation", "Produce"),)] == 0
    assert values["kafka_network_requestchannel_requestqueuesize", ()] == 0
    now[0] = 20
    timers.advance()
    assert samples(metrics)[prefix + "expires_total", (("delayedoperation", "Fetch"),)] == 1


@on_both_loops
async def test_connections_and_bytes_are_reported() -> None:
    metrics = BrokerMetrics()
    prefix = "kafka_server_socketservermetrics_"
    async with running_server(config=network_config(max_connections_per_ip=2)) as served:
        metrics.add_network(served.server)
        first, second = await served.connect(), await served.connect()
        await first.send_request(b"12345")
        await second.send_request(b"1")
        assert await (await served.connect()).is_closed()
        values = samples(metrics)
        assert values[prefix + "connections", (("listener", "PLAINTEXT"),)] == 2
        assert values[prefix + "connection_refused_total", ()] == 1
        assert values["tidelog_receive_buffer_bytes", ()] > 0
        assert values[prefix + "incoming_byte_total", ()] == len(frame(b"12345") + frame(b"1"))
        first.close()
        await eventually(lambda: served.server.quota.count == 1)
        values = samples(metrics)
        assert values[prefix + "outgoing_byte_total", ()] == len(frame(b"12345") + frame(b"1"))
        assert values[prefix + "connection_close_total", ()] == 1


async def test_long_work_is_reported() -> None:
    def steps() -> Steps[None]:
        yield Heavy.BEGINS
        yield lambda: None

    metrics, slices = BrokerMetrics(), Slices(SystemClock())
    metrics.add_slices(slices)
    slices.start(steps(), lambda _: None, lambda _: None)
    values = samples(metrics)
    assert [values[f"tidelog_slices_{name}", ()] for name in ("pending", "heavy", "run_total")] == [1, 1, 1]
    await eventually(lambda: slices.slice_count == 2)
    assert [samples(metrics)[f"tidelog_slices_{name}", ()] for name in ("pending", "heavy")] == [0, 0]


def test_openmetrics_is_served_on_request() -> None:
    text, content_type = Exposition(BrokerMetrics()).text("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.rstrip().endswith(b"# EOF")
