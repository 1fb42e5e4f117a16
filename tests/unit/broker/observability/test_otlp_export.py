"""The export of metrics to an OpenTelemetry collector."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.network.otlp_collector import FakeCollector, running_collector
from tests.support.waiting import eventually, wait_until
from tidelog.base.clock import SystemClock
from tidelog.base.config_definition import ConfigError
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.otlp_export import OtlpExport
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with running_collector() as running:
        yield running


def export_of(metrics: BrokerMetrics, endpoint: str, interval_ms: int = 5) -> OtlpExport:
    return OtlpExport(metrics, endpoint, interval_ms, {"service.instance.id": "7"}, SystemClock())


async def test_gauges_counters_and_histograms_have_their_kinds_and_values(collector: FakeCollector) -> None:
    metrics = BrokerMetrics()
    metrics.gauge("tidelog_level", "Height.", lambda: {("harbour",): 3.5}, ("place",))
    metrics.counter("tidelog_topic_bytes", "Bytes.", lambda: 42)
    fetch = metrics.requests.of("Fetch", 17)
    fetch.requests[17] += 2
    fetch.observe(0, 300_000, None)
    fetch.observe(0, 60_000_000_000, None)
    export = export_of(metrics, collector.endpoint)
    await export.start()
    await eventually(collector.metrics)
    await export.close()
    exported = collector.metrics()
    level = exported["tidelog_level"].gauge.data_points[0]
    assert (level.attributes[0].key, level.attributes[0].value.string_value) == ("place", "harbour")
    assert level.as_double == 3.5
    total = exported["tidelog_topic_bytes"]
    assert (total.sum.is_monotonic, total.sum.data_points[0].as_double, total.unit) == (True, 42, "By")
    times = exported["kafka_network_requestmetrics_totaltime_seconds"]
    point = times.histogram.data_points[0]
    assert (point.count, point.sum, times.unit) == (2, pytest.approx(60.0003), "s")
    assert list(point.bucket_counts) == fetch.times.buckets
    assert len(point.explicit_bounds) == len(point.bucket_counts) - 1
    (resource,) = collector.requests[-1][1].resource_metrics
    assert {each.key: each.value.string_value for each in resource.resource.attributes}[
        "service.instance.id"
    ] == "7"


def test_a_node_exports_the_metrics_that_it_serves(collector: FakeCollector) -> None:
    config = {"metrics.otlp.endpoint": collector.endpoint, "metrics.otlp.interval.ms": "1000"}
    with EmbeddedCluster(config=config) as cluster:
        wait_until(collector.metrics)
        names = cluster.run(lambda node: {family.name for family in node.metrics.families})
    exported = collector.metrics().keys()
    assert {"tidelog_build_info", "kafka_log_logflushstats_logflushtime_seconds"} <= exported <= names


async def test_an_outage_of_the_collector_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = "http://127.0.0.1:4318/v1/metrics"
    export = export_of(BrokerMetrics(), endpoint)
    caplog.set_level(logging.INFO, "tidelog")
    for failure in ("no connection", "no connection", None):
        export.report(failure)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"Cannot export metrics to {endpoint}: no connection; retrying every 0.005 s"),
        ("INFO", f"Exporting metrics to {endpoint} again"),
    ]


async def test_a_node_without_the_extra_reports_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(ConfigError, match=r"metrics\.otlp\.endpoint.*pip install 'tidelog\[otel\]'"):
        await export_of(BrokerMetrics(), "http://127.0.0.1:1/v1/metrics").start()


class UnreadableOnce(BrokerMetrics):
    """Metrics whose families cannot be listed once `fails_next` is set."""

    fails_next = False

    def __getattribute__(self, name: str) -> Any:
        if name == "families" and self.fails_next:
            self.fails_next = False
            raise RuntimeError("no list of metrics")
        return super().__getattribute__(name)


async def test_exports_continue_after_a_defect_of_the_metrics(
    collector: FakeCollector, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = UnreadableOnce()
    metrics.gauge("tidelog_level", "Height.", lambda: 3.5)
    metrics.fails_next = True
    export = export_of(metrics, collector.endpoint)
    await export.start()
    await eventually(collector.metrics)
    await export.close()
    assert f"Cannot export metrics to {collector.endpoint}: no list of metrics" in caplog.text
