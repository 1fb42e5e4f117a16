"""The metrics of a broker as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics


def metric_samples(metrics: BrokerMetrics, prefix: str) -> dict[str, float]:
    """Return the samples whose names start with `prefix`, by the rest of their names."""
    text = Exposition(metrics).text()[0].decode()
    return {
        sample.name.removeprefix(prefix): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(prefix)
    }
