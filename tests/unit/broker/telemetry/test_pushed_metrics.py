"""The decoding of one push: the elements of a small message are bounded, and are read in steps."""

from __future__ import annotations

from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from tests.support.messages.otlp_metrics import gauge, metrics_data
from tidelog.broker.telemetry.pushed_metrics import (
    ATTRIBUTES_MAX,
    ELEMENT_BYTES,
    ELEMENTS_MAX,
    MEMORY_BYTES_MAX,
    PushedMetrics,
    decode_metrics,
)
from tidelog.protocol.steps import run_steps

ATTRIBUTES = {"client_id": "c", "client_instance_id": "i"}


def decoded(data: MetricsData) -> PushedMetrics:
    return run_steps(decode_metrics(UUID(int=2), ATTRIBUTES, 1_000, data.SerializeToString()))


def with_empty_resources(count: int) -> MetricsData:
    data = MetricsData()
    for _ in range(count):
        data.resource_metrics.add()
    return data


def with_empty_values(count: int) -> MetricsData:
    metric = Metric(name="a")
    for _ in range(count):
        metric.gauge.data_points.add()
    return metrics_data(metric)


def test_one_megabyte_of_empty_resources_is_rejected_before_they_get_attributes() -> None:
    with pytest.raises(ValueError, match="more than 100000 elements"):
        decoded(with_empty_resources(500_000))


def test_one_megabyte_of_empty_values_is_rejected() -> None:
    with pytest.raises(ValueError, match="more than 100000 elements"):
        decoded(with_empty_values(500_000))


def test_an_element_with_too_many_attributes_is_rejected() -> None:
    names = {f"name-{number}": "" for number in range(ATTRIBUTES_MAX + 1)}
    for data in (metrics_data(gauge("a", 1, **names)), metrics_data(gauge("a", 1), resource=names)):
        with pytest.raises(ValueError, match="1001 attributes of one element, allowed are 1000"):
            decoded(data)


def test_the_resources_of_a_large_push_are_decoded_in_steps() -> None:
    count = ELEMENTS_MAX // (1 + len(ATTRIBUTES)) - 1
    content = with_empty_resources(count).SerializeToString()
    steps = sum(1 for _ in decode_metrics(UUID(int=2), ATTRIBUTES, 1_000, content))
    assert steps > 2 * count


def test_the_memory_of_a_push_includes_its_elements_and_the_added_attributes() -> None:
    values, resources = with_empty_values(1_000), with_empty_resources(1_000)
    assert len(values.SerializeToString()) < 3_000
    assert decoded(values).memory_bytes > 1_000 * ELEMENT_BYTES
    assert decoded(resources).memory_bytes > 1_000 * (
        3 * ELEMENT_BYTES + len("client_idcclient_instance_idi")
    )


def test_a_push_of_many_resources_of_a_client_with_long_attributes_is_rejected() -> None:
    content = with_empty_resources(20_000).SerializeToString()
    attributes = {"client_id": "c" * (MEMORY_BYTES_MAX // 20_000)}
    with pytest.raises(ValueError, match="bytes of memory"):
        run_steps(decode_metrics(UUID(int=2), attributes, 1_000, content))
