"""What may be set for brokers while they run."""

from __future__ import annotations

import pytest

from broker.config import BrokerConfig
from broker.dynamic_configs import check_broker_change
from cluster.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError

IMAGE = MetadataImage(cluster_id="test")


@pytest.mark.parametrize("name", ["", "1"])
def test_brokers_that_tier_keep_local_retention_within_the_total_one(name: str) -> None:
    config = BrokerConfig({"node.id": "1", "remote.log.storage.system.enable": "true"})
    allowed = {"log.retention.ms": "10", "log.local.retention.ms": "10"}
    check_broker_change(config, IMAGE, name, allowed)
    for local in ("11", "-1"):
        with pytest.raises(KafkaError) as refused:
            check_broker_change(config, IMAGE, name, {**allowed, "log.local.retention.ms": local})
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError):
        changed = {"log.retention.bytes": "10", "log.local.retention.bytes": "11"}
        check_broker_change(config, IMAGE, name, changed)


def test_brokers_without_remote_storage_do_not_look_at_local_retention() -> None:
    config = BrokerConfig({"node.id": "1"})
    check_broker_change(config, IMAGE, "", {"log.retention.ms": "10", "log.local.retention.ms": "11"})


def test_a_change_of_listeners_is_refused_as_none_is_opened_while_the_broker_runs() -> None:
    config = BrokerConfig({"node.id": "1", "listeners": "PLAINTEXT://:9092"})
    check_broker_change(config, IMAGE, "1", {"listeners": " PLAINTEXT://:9092"})
    with pytest.raises(KafkaError) as refused:
        check_broker_change(config, IMAGE, "1", {"listeners": "PLAINTEXT://:9093"})
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert "PLAINTEXT://:9092" in str(refused.value)
