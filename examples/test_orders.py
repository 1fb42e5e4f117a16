"""A broker inside a test: the fixture starts it, and removes all its data afterwards."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from tidelog import EmbeddedCluster


@pytest.mark.tidelog(topics=["orders"])
def test_an_order_is_written_once(tidelog_broker: EmbeddedCluster) -> None:
    servers = tidelog_broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    producer.produce("orders", "two boats")
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = None
    while message is None:
        message = consumer.poll(1.0)
    assert message.value() == b"two boats"
    consumer.close()
