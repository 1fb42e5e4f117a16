"""The quota of controller mutations: strict for newer versions, permissive for older ones (KIP-599)."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tidelog.base.sampled_rate import Windows
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.quotas.mutation_quotas import CONTROLLER_MUTATION_RATE, MutationQuota, MutationQuotas
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData

FIRST_STRICT = 6


class MutationQuotasFixture:
    """Quotas of the user alice with a clock that the test advances; 11 windows of a second."""

    def __init__(self, limit: float) -> None:
        self.clock = ManualClock()
        self.quotas = MutationQuotas(self.clock, Windows(11, 1_000))
        delta = MetadataDelta(MetadataImage(cluster_id="test"))
        entity = (EntityData(entity_type="user", entity_name="alice"),)
        delta.replay(ClientQuotaRecord(entity=entity, key=CONTROLLER_MUTATION_RATE, value=limit))
        self.quotas.update(delta.image(1, 1).client_quotas)

    def request(self, version: int = FIRST_STRICT, principal: str = "User:alice") -> MutationQuota:
        context = RequestContext(
            RequestHeader(19, version, 1, "admin"), "CONTROLLER", "a:1", principal, 0, ConnectedClient()
        )
        return self.quotas.of(context, FIRST_STRICT)


def is_refused(quota: MutationQuota, partition_count: int) -> bool:
    try:
        quota.charge(partition_count)
    except KafkaError as error:
        assert error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return True
    return False


def test_a_strict_quota_accepts_one_change_over_the_burst_and_refuses_the_next() -> None:
    fixture = MutationQuotasFixture(limit=1)
    first = fixture.request()
    assert not is_refused(first, 16), "the bucket holds 11 partitions"
    assert first.throttle_time_ms() == 0
    assert is_refused(first, 1)
    assert first.throttle_time_ms() == 5_000
    fixture.clock.now_ms += 2_000
    assert first.throttle_time_ms() == 3_000
    assert is_refused(fixture.request(), 1)
    fixture.clock.now_ms += 3_000
    second = fixture.request()
    assert not is_refused(second, 1)
    assert second.throttle_time_ms() == 0


def test_a_permissive_quota_accepts_all_changes_and_throttles() -> None:
    fixture = MutationQuotasFixture(limit=1)
    quota = fixture.request(FIRST_STRICT - 1)
    for _ in range(3):
        assert not is_refused(quota, 11)
    assert quota.throttle_time_ms() == 22_000


def test_a_client_without_a_quota_is_not_throttled() -> None:
    fixture = MutationQuotasFixture(limit=1)
    quota = fixture.request(principal="User:bob")
    assert not is_refused(quota, 1_000_000)
    assert not is_refused(quota, 1_000_000)
    assert quota.throttle_time_ms() == 0
    assert len(fixture.quotas.entities) == 0


def test_the_requests_of_a_client_share_the_bucket() -> None:
    fixture = MutationQuotasFixture(limit=1)
    fixture.request().charge(12)
    with pytest.raises(KafkaError):
        fixture.request().charge(1)
    ((_, state),) = fixture.quotas.entities.items()
    assert state.tokens(fixture.clock.monotonic_ms()) == -1
    assert state.throttles == 1
