"""The quota level that applies to a client."""

from __future__ import annotations

import pytest

from tidelog.broker.quotas import resolution
from tidelog.broker.quotas.resolution import Client, QuotaResolution, ResolvedQuota
from tidelog.cluster.image import QuotaEntity

KEY = "producer_byte_rate"
CLIENT = Client("alice", "app")
LEVELS: list[tuple[QuotaEntity, Client]] = [
    ((("client-id", "app"), ("user", "alice")), Client("alice", "app")),
    ((("client-id", None), ("user", "alice")), Client("alice", "app")),
    ((("user", "alice"),), Client("alice", "")),
    ((("client-id", "app"), ("user", None)), Client("alice", "app")),
    ((("client-id", None), ("user", None)), Client("alice", "app")),
    ((("user", None),), Client("alice", "")),
    ((("client-id", "app"),), Client("", "app")),
    ((("client-id", None),), Client("", "app")),
]


def resolution_of(*entities: QuotaEntity) -> QuotaResolution:
    resolution = QuotaResolution(KEY)
    resolution.update({entity: {KEY: float(LEVEL_OF[entity])} for entity in entities})
    return resolution


LEVEL_OF = {entity: number for number, (entity, _) in enumerate(LEVELS, 1)}


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_first_level_that_has_a_quota_applies(first: int) -> None:
    quotas = resolution_of(*(entity for entity, _ in LEVELS[first:]))
    assert quotas.resolve(CLIENT) == ResolvedQuota(LEVELS[first][1], first + 1)


def test_a_client_without_an_id_has_only_quotas_of_its_user() -> None:
    client = Client("alice", "")
    assert resolution_of(*LEVEL_OF).resolve(client) == ResolvedQuota(client, 3)
    without_user = [entity for entity in LEVEL_OF if LEVEL_OF[entity] != 3]
    assert resolution_of(*without_user).resolve(client) == ResolvedQuota(client, 6)
    assert (
        resolution_of(*(entity for entity in without_user if LEVEL_OF[entity] != 6)).resolve(client) is None
    )


def test_other_names_and_other_keys_do_not_apply() -> None:
    quotas = resolution_of(LEVELS[0][0], LEVELS[2][0], LEVELS[6][0])
    assert quotas.resolve(Client("bob", "other")) is None
    other = QuotaResolution("consumer_byte_rate")
    other.update({LEVELS[0][0]: {KEY: 1.0}})
    assert not other.is_enabled
    assert other.resolve(CLIENT) is None


def test_a_change_applies_to_the_next_request() -> None:
    quotas = resolution_of(LEVELS[7][0])
    assert quotas.resolve(CLIENT) == ResolvedQuota(Client("", "app"), 8)
    quotas.update({LEVELS[7][0]: {KEY: 99.0}})
    assert quotas.resolve(CLIENT) == ResolvedQuota(Client("", "app"), 99)
    quotas.update({})
    assert quotas.resolve(CLIENT) is None
    assert not quotas.is_enabled


def test_many_and_long_names_take_bounded_memory() -> None:
    quotas = resolution_of(LEVELS[7][0])
    for number in range(resolution.CACHED_CLIENTS_MAX * 2):
        quotas.resolve(Client("alice", f"id-{number}"))
    assert len(quotas._cache) <= resolution.CACHED_CLIENTS_MAX
    quota = quotas.resolve(Client("alice", "x" * 30_000))
    assert quota is not None
    assert len(quota.entity.client_id) == resolution.NAME_LENGTH_MAX
    assert all(len(client.client_id) <= resolution.NAME_LENGTH_MAX for client in quotas._cache)
