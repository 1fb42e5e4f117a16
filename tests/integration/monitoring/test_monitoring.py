"""The dashboard and the rules in docker/monitoring, with the metrics of a running cluster."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.paths import ROOT
from tests.support.prometheus import check, running_prometheus
from tests.support.waiting import wait_until
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

MONITORING = ROOT / "docker/monitoring"
RULES = MONITORING / "rules.yaml"
METRIC = re.compile(r"\b(?:kafka|process|tidelog)_[a-z0-9_]+")
RECORDED = re.compile(r"\btidelog:[a-z_]+")
RARE = re.compile(r"remote|tidelog_tier_|requestmetrics_errors")
"""Metrics that have no values before something was copied to the tier or has failed."""
ABBREVIATED_UNIT = re.compile(r"_(?:ms|secs?|kb|mb|mins?|hrs?)(?:_|$)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a node with tiered storage, a topic, and a group that is one record behind."""
    with EmbeddedCluster(tiered=True, config={"metrics.port": "0"}) as cluster:
        cluster.create_topics(["tides"])

        async def produce_and_commit() -> None:
            async with Producer(cluster.bootstrap_servers) as producer:
                for value in (b"1", b"2", b"3"):
                    await producer.send("tides", value)
            async with Consumer(cluster.bootstrap_servers, group_id="harbour") as consumer:
                await consumer.commit({TopicPartition("tides", 0): 2})

        asyncio.run(produce_and_commit())
        yield cluster


def address(cluster: EmbeddedCluster) -> str:
    return f"127.0.0.1:{cluster.run(lambda node: node.metrics_port)}"


@pytest.fixture(scope="module")
def exposition(cluster: EmbeddedCluster) -> str:
    with urlopen(f"http://{address(cluster)}/metrics", timeout=30) as response:
        return bytes(response.read()).decode()


def kinds(exposition: str) -> dict[str, str]:
    """Return the kind of each metric by its name."""
    return dict(line.split()[2:4] for line in exposition.splitlines() if line.startswith("# TYPE"))


def expressions() -> Iterator[str]:
    """Yield the expressions of the dashboard, for all nodes."""
    dashboard: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$instance", ".*")


def test_promtool_accepts_all_metrics(exposition: str) -> None:
    check("check", "metrics", text=exposition)


def test_names_follow_the_rules_of_prometheus(exposition: str) -> None:
    for name, kind in kinds(exposition).items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name), name
        assert name.endswith("_total") == (kind == "counter"), name
        assert not name.endswith(("_count", "_sum", "_bucket")), name
        assert not ABBREVIATED_UNIT.search(name), name


def test_every_metric_of_the_dashboard_and_the_rules_is_exported(exposition: str) -> None:
    exported = {
        name + suffix
        for name, kind in kinds(exposition).items()
        for suffix in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
    }
    rules = RULES.read_text()
    recorded = set(re.findall(r"record: (\S+)", rules))
    # Texts for users are not expressions.
    conditions = re.sub(r"summary: .*", "", rules)
    texts = [*expressions(), conditions]
    used = {name for text in texts for name in METRIC.findall(text)}
    assert len(used) > 40
    assert used <= exported
    assert {name for text in texts for name in RECORDED.findall(text)} <= recorded


def test_promtool_accepts_the_rules_and_the_example_configuration() -> None:
    check("check", "config", "prometheus.yaml", folder=MONITORING)
    check("check", "rules", "rules.yaml", folder=MONITORING)
    check("test", "rules", "rules-test.yaml", folder=MONITORING)


def test_a_real_prometheus_loads_the_rules_and_runs_every_query_of_the_dashboard(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    with running_prometheus(tmp_path, RULES, [address(cluster)]) as prometheus:
        wait_until(lambda: prometheus.values('sum(tidelog:group_lag{group="harbour"})') == [1])
        for expression in expressions():
            if RARE.search(expression):
                prometheus.values(expression)
            else:
                wait_until(partial(prometheus.values, expression), expression)
        groups = prometheus.get("/api/v1/rules")["groups"]
    assert [each for each in groups[0]["rules"] if each["health"] != "ok"] == []
