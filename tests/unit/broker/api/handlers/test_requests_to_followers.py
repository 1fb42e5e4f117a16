"""Requests to a broker that is not the leader, and readers near a replica (KIP-392, KIP-951)."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.replicas.handled_cluster import (
    SECOND,
    THIRD,
    HandledCluster,
    fetched_partition,
    produce_result,
)
from tidelog.base.config_definition import ConfigError
from tidelog.broker.fetching.replica_selector import find_selector, same_rack
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import (
    FetchResponse,
)
from tidelog.protocol.messages.produce import (
    ProduceResponse,
)
from tidelog.protocol.metadata_records.fence_broker_record import FenceBrokerRecord

# -- requests to a broker that is not the leader


@pytest.mark.parametrize("version", [9, 10, 12])
def test_kip_951_a_follower_returns_the_leader_to_producers(version: int) -> None:
    cluster = HandledCluster(leader=THIRD)
    request = cluster.produce("a", acks=1, version=version)
    partition = produce_result(request)
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    expected = (THIRD, 3) if version >= 10 else (-1, -1)
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == expected
    response = request.response
    assert isinstance(response, ProduceResponse)
    assert [endpoint.node_id for endpoint in response.node_endpoints] == ([THIRD] if version >= 10 else [])


@pytest.mark.parametrize("version", [12, 15, 16])
def test_kip_951_a_fenced_fetch_gets_the_leader(version: int) -> None:
    cluster = HandledCluster(leader=THIRD)
    request = cluster.fetch(0, epoch=2, version=version)
    partition = fetched_partition(request)
    assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
    expected = (THIRD, 3) if version >= 16 else (-1, -1)
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == expected
    response = request.response
    assert isinstance(response, FetchResponse)
    assert [endpoint.node_id for endpoint in response.node_endpoints] == ([THIRD] if version >= 16 else [])


# -- readers near a replica (KIP-392)


def test_a_follower_serves_clients_with_a_rack_up_to_its_high_watermark() -> None:
    cluster = HandledCluster(leader=SECOND)
    log = cluster.partition.log
    log.append_as_leader(batch(["a", "b"]), 3, NOW_MS)
    assert not fetched_partition(cluster.fetch(0)).records
    log.advance_high_watermark(2)
    assert fetched_partition(cluster.fetch(0)).records
    assert (
        fetched_partition(cluster.fetch(0, version=10, epoch=3)).error_code
        == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert fetched_partition(cluster.fetch(0, broker=THIRD)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_kip_392_an_offset_not_yet_on_the_follower_is_not_available_instead_of_out_of_range() -> None:
    cluster = HandledCluster(leader=SECOND)
    cluster.partition.log.append_as_leader(batch(["a"]), 3, NOW_MS)
    assert fetched_partition(cluster.fetch(9)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    waiting = cluster.fetch(1, wait_ms=500)
    assert waiting.responses == []


def test_a_consumer_is_redirected_to_the_replica_in_its_rack() -> None:
    cluster = HandledCluster()
    cluster.append("a")
    for broker in (SECOND, THIRD):
        cluster.fetch(1, broker=broker)
    sent = fetched_partition(cluster.fetch(0, rack="rack3", wait_ms=500))
    assert (sent.preferred_read_replica, sent.error_code, sent.high_watermark) == (THIRD, 0, 1)
    assert not sent.records
    for rack in ("rack1", "elsewhere", ""):
        stays = fetched_partition(cluster.fetch(0, rack=rack))
        assert stays.preferred_read_replica == -1
        assert stays.records


def test_a_consumer_is_not_redirected_to_a_lagging_or_fenced_replica() -> None:
    cluster = HandledCluster()
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    cluster.fetch(1, broker=THIRD)
    assert fetched_partition(cluster.fetch(2, rack="rack3")).preferred_read_replica == -1
    assert fetched_partition(cluster.fetch(1, rack="rack3")).preferred_read_replica == THIRD
    cluster.change(isr=(1, 2))
    assert fetched_partition(cluster.fetch(1, rack="rack3")).preferred_read_replica == -1
    assert fetched_partition(cluster.fetch(1, rack="rack2")).preferred_read_replica == SECOND
    cluster.replicas.replay(FenceBrokerRecord(id=SECOND, epoch=102))
    assert fetched_partition(cluster.fetch(1, rack="rack2")).preferred_read_replica == -1


def test_replica_selectors_have_kafkas_class_names() -> None:
    prefix = "org.apache.kafka.common.replica."
    assert find_selector(prefix + "RackAwareReplicaSelector") is same_rack
    assert find_selector(prefix + "LeaderSelector") is find_selector(None) is None
    with pytest.raises(ConfigError):
        find_selector("com.example.Mine")
