"""Metrics of clients at a collector and in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.messages.otlp_metrics import counter, gauge, metrics_data
from tests.support.network.otlp_collector import FakeCollector, running_collector
from tidelog.broker.telemetry.forwarding import RejectedMetrics
from tidelog.broker.telemetry.otlp_destinations import OtlpCollector, OtlpFile
from tidelog.broker.telemetry.pushed_metrics import PushedMetrics, decode_metrics
from tidelog.protocol.steps import run_steps


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with running_collector() as running:
        yield running


def pushed(number: int) -> PushedMetrics:
    content = metrics_data(gauge("g", number), counter("c.total", number)).SerializeToString()
    return run_steps(decode_metrics(UUID(int=number), {"client_id": f"client-{number}"}, 1_000, content))


def test_a_batch_is_one_request_with_the_resources_of_all_clients(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer t")
    OtlpCollector(collector.endpoint).write([pushed(1), pushed(2)])
    ((headers, message),) = collector.requests
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["authorization"] == "Bearer t"
    clients = [each.resource.attributes[0].value.string_value for each in message.resource_metrics]
    assert clients == ["client-1", "client-2"]
    assert message.resource_metrics[1].scope_metrics[0].metrics[0].gauge.data_points[0].as_double == 2


@pytest.mark.parametrize(("status", "error"), [(400, RejectedMetrics), (503, OSError), (429, OSError)])
def test_an_error_states_whether_the_request_is_repeated(
    collector: FakeCollector, status: int, error: type[Exception]
) -> None:
    collector.status = status
    with pytest.raises(error):
        OtlpCollector(collector.endpoint).write([pushed(1)])


def test_a_collector_that_does_not_run_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError):
        OtlpCollector("http://127.0.0.1:1/v1/metrics").write([pushed(1)])


def test_a_url_of_another_scheme_is_rejected() -> None:
    with pytest.raises(ValueError, match="http:// or https://"):
        OtlpCollector("file:///etc/passwd")


def test_a_file_has_one_line_of_json_for_each_push(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    OtlpFile(path, 1_000_000).write([pushed(1), pushed(2)])
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["resourceMetrics"][0]["resource"]["attributes"] == [
        {"key": "client_id", "value": {"stringValue": "client-1"}}
    ]
    gauge_, counter_ = second["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert gauge_ == {"name": "g", "gauge": {"dataPoints": [{"asDouble": 2.0}]}}
    assert counter_["sum"] == {
        "dataPoints": [{"asInt": "2"}],
        "aggregationTemporality": 1,
        "isMonotonic": True,
    }


def test_a_full_file_is_renamed_and_replaces_the_former_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = OtlpFile(path, 100)
    for number in range(3):
        file.write([pushed(number)])
    assert len(path.read_text().splitlines()) == 1
    assert len((tmp_path / "metrics.jsonl.1").read_text().splitlines()) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["metrics.jsonl", "metrics.jsonl.1"]
