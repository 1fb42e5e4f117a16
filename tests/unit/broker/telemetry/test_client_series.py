"""Pushed metrics as metrics of the endpoint: names, labels, increases, bounds, expiry."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strictly_parsed

from tests.support.clocks.manual_clock import ManualClock
from tests.support.messages.otlp_metrics import counter, gauge, metrics_data
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.telemetry.client_series import (
    LABEL_CHARACTERS_MAX,
    LABELS_OF_METRIC_MAX,
    NAME_CHARACTERS_MAX,
    ClientSeries,
)
from tidelog.broker.telemetry.pushed_metrics import decode_metrics
from tidelog.protocol.steps import run_steps

RATE = "org.apache.kafka.producer.connection.creation.rate"
TOTAL = "org.apache.kafka.producer.connection.creation.total"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class SeriesFixture:
    """Series on a manual clock, read as a scrape reads them."""

    def __init__(self, series_max: int = 100) -> None:
        self.clock = ManualClock(monotonic_ms=10_000)
        self.series = ClientSeries(series_max, self.clock.monotonic_ms)
        metrics = BrokerMetrics()
        metrics.add_source(self.series.families)
        self._exposition = Exposition(metrics)

    def push(self, number: int, *values: Metric, resource: Mapping[str, str] | None = None) -> None:
        """Push values of the client with the number."""
        attributes = {"client_id": f"client-{number}", "client_instance_id": f"id-{number}"}
        content = metrics_data(*values, resource=resource).SerializeToString()
        metrics = run_steps(decode_metrics(UUID(int=number), attributes, 1_000, content))
        run_steps(self.series.receive(metrics))

    def samples(self) -> dict[tuple[str, str], tuple[float, dict[str, str]]]:
        """Return values and further labels by name and client id."""
        text, _ = self._exposition.text(OPENMETRICS)
        values = {}
        for family in strictly_parsed(text.decode()):
            for sample in family.samples:
                if sample.name.startswith("tidelog_client_"):
                    labels = {key: value for key, value in sample.labels.items() if value}
                    del labels["client_instance_id"]
                    values[sample.name, labels.pop("client_id")] = (sample.value, labels)
        return values


def test_gauges_and_counters_are_exposed_with_the_ids_and_labels_of_the_client() -> None:
    fixture = SeriesFixture()
    fixture.push(
        1, gauge(RATE, 2.5, **{"node.id": "3"}), counter(TOTAL, 4), resource={"transactional_id": "t"}
    )
    assert fixture.samples() == {
        ("tidelog_client_producer_connection_creation_rate", "client-1"): (
            2.5,
            {"node_id": "3", "transactional_id": "t"},
        ),
        ("tidelog_client_producer_connection_creation_total", "client-1"): (4.0, {"transactional_id": "t"}),
    }


def test_increases_are_added_and_totals_replace_the_former_ones() -> None:
    fixture = SeriesFixture()
    for value in (4, 3):
        fixture.push(
            1, counter("a.total", value), counter("b.total", value, is_increase=False), gauge("c", value)
        )
    values = {name: value for (name, _), (value, _) in fixture.samples().items()}
    assert values == {"tidelog_client_a_total": 7, "tidelog_client_b_total": 3, "tidelog_client_c": 3}


def test_clients_with_different_labels_share_a_metric() -> None:
    fixture = SeriesFixture()
    fixture.push(1, gauge(RATE, 1, topic="a"))
    fixture.push(2, gauge(RATE, 2, node="b"))
    name = "tidelog_client_producer_connection_creation_rate"
    assert fixture.samples() == {
        (name, "client-1"): (1.0, {"topic": "a"}),
        (name, "client-2"): (2.0, {"node": "b"}),
    }


def test_a_client_cannot_set_the_labels_of_the_broker() -> None:
    fixture = SeriesFixture()
    fixture.push(
        1, gauge("a", 1, client_id="x", **{"client.id": "y"}), resource={"client_instance_id": "id-2"}
    )
    assert fixture.samples() == {("tidelog_client_a", "client-1"): (1.0, {})}


def test_series_above_the_maximum_are_rejected_and_known_ones_are_updated() -> None:
    fixture = SeriesFixture(series_max=2)
    fixture.push(1, gauge("a", 1), gauge("b", 1), gauge("c", 1))
    fixture.push(1, gauge("a", 5))
    assert {name for name, _ in fixture.samples()} == {"tidelog_client_a", "tidelog_client_b"}
    assert fixture.samples()["tidelog_client_a", "client-1"][0] == 5
    assert (fixture.series.count, fixture.series.rejected_count) == (2, 1)


def test_long_names_and_labels_are_rejected() -> None:
    fixture = SeriesFixture()
    fixture.push(
        1,
        gauge("a" * (NAME_CHARACTERS_MAX + 1), 1),
        gauge("a", 1, topic="t" * (LABEL_CHARACTERS_MAX + 1)),
        gauge("a", 1, **{"t" * (LABEL_CHARACTERS_MAX + 1): "t"}),
        gauge("a", 1, **{f"l{number}": "" for number in range(50)}),
        gauge("a", 1, **{"0": "t"}),
        gauge("a_bucket", 1),
        gauge("x", 1, __name__="other"),
    )
    assert fixture.samples() == {}
    assert fixture.series.rejected_count == 7


def test_the_labels_of_one_metric_are_bounded_over_all_clients() -> None:
    fixture = SeriesFixture()
    for number in range(10):
        fixture.push(number + 1, gauge("a", 1, **{f"l{number}{index}": "v" for index in range(8)}))
    (family,) = fixture.series.families()
    assert len(family.labels) <= LABELS_OF_METRIC_MAX
    assert fixture.series.rejected_count > 0


def test_a_name_has_one_kind() -> None:
    fixture = SeriesFixture()
    fixture.push(1, counter("a", 1))
    fixture.push(2, gauge("a", 1))
    fixture.push(2, gauge("a.total", 1))
    assert set(fixture.samples()) == {("tidelog_client_a_total", "client-1")}


def test_histograms_and_values_without_a_number_are_ignored() -> None:
    fixture = SeriesFixture()
    histogram = Metric(name="h")
    histogram.histogram.data_points.add(count=1)
    missing = Metric(name="m")
    missing.gauge.data_points.add(flags=1)
    fixture.push(1, histogram, missing)
    assert fixture.samples() == {}


def test_the_series_of_a_client_that_does_not_push_any_more_are_removed() -> None:
    fixture = SeriesFixture()
    fixture.push(1, gauge("a", 1), gauge("b", 1))
    fixture.clock.now_ms += 40_000
    fixture.push(2, gauge("a", 2))
    fixture.clock.now_ms += 30_000
    assert fixture.samples() == {("tidelog_client_a", "client-2"): (2.0, {})}
    assert fixture.series.count == 1
