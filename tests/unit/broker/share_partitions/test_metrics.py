"""The metrics of share groups."""

from __future__ import annotations

from tests.support.share_groups.broker import ShareBroker
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.share_partitions.metrics import report_share_delivery


async def test_the_metrics_count_sessions_records_and_acknowledgements() -> None:
    broker = ShareBroker()
    metrics = BrokerMetrics()
    report_share_delivery(metrics, broker.sessions, broker.partitions)
    broker.produce("a", "b", "c")
    await broker.fetch(0)
    await broker.acknowledge(1, (1, 2, [1, 3]))
    text = Exposition(metrics).text("")[0].decode()
    assert "kafka_server_sharesessioncache_sharesessions 1.0" in text
    assert "kafka_server_sharegroupmetrics_inflightmessages 3.0" in text
    assert 'kafka_server_sharegroupmetrics_recordacknowledgements_total{acktype="accept"} 1.0' in text
    assert 'kafka_server_sharegroupmetrics_recordacknowledgements_total{acktype="reject"} 1.0' in text
