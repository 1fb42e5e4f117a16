"""Client quotas: allowed values, changes, and filters."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from tests.support.metadata.images import CLUSTER_ID, image_after_result
from tidelog.cluster.client_quotas import FilterComponent, MatchType, matching_quotas
from tidelog.cluster.controller.client_quotas import alter_client_quotas
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tidelog.protocol.steps import run_steps

EMPTY = MetadataImage(cluster_id=CLUSTER_ID)
Entity = dict[str, str | None]


def entry(entity: Entity, **ops: float | None) -> RequestEntryData:
    return RequestEntryData(
        entity=tuple(
            RequestEntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in entity.items()
        ),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()),
    )


def alter_quotas(
    image: MetadataImage, *entries: RequestEntryData, validate_only: bool = False, hosts: tuple[str, ...] = ()
) -> tuple[MetadataImage, list[ErrorCode]]:
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    result = run_steps(alter_client_quotas(image, request, hosts))
    return image_after_result(image, result), [each.outcome.code for each in result.reply]


def code(entity: Entity, hosts: tuple[str, ...] = (), **ops: float | None) -> ErrorCode:
    image, [error_code] = alter_quotas(EMPTY, entry(entity, **ops), hosts=hosts)
    assert bool(image.client_quotas) == (error_code is ErrorCode.NONE)
    return error_code


def test_quotas_are_set_changed_and_removed() -> None:
    alice: Entity = {"user": "alice", "client-id": None}
    image, _ = alter_quotas(EMPTY, entry(alice, producer_byte_rate=1000.0, request_percentage=12.5))
    key = (("client-id", None), ("user", "alice"))
    assert image.client_quotas == {key: {"producer_byte_rate": 1000.0, "request_percentage": 12.5}}
    image, _ = alter_quotas(image, entry(alice, producer_byte_rate=None, request_percentage=20.0))
    assert image.client_quotas == {key: {"request_percentage": 20.0}}
    image, _ = alter_quotas(image, entry(alice, request_percentage=None))
    assert image.client_quotas == {}


def test_an_unchanged_quota_writes_no_record() -> None:
    image, _ = alter_quotas(EMPTY, entry({"user": "alice"}, producer_byte_rate=1000.0))
    request = AlterClientQuotasRequest(
        entries=(entry({"user": "alice"}, producer_byte_rate=1000.0, consumer_byte_rate=None),)
    )
    assert run_steps(alter_client_quotas(image, request)).records == ()


def test_validate_only_changes_nothing() -> None:
    image, codes = alter_quotas(EMPTY, entry({"user": "alice"}, producer_byte_rate=1.0), validate_only=True)
    assert (image.client_quotas, codes) == ({}, [ErrorCode.NONE])


def test_an_entity_may_occur_once_in_a_request() -> None:
    image, codes = alter_quotas(
        EMPTY,
        entry({"user": "alice"}, producer_byte_rate=1.0),
        entry({"user": "bob"}, producer_byte_rate=-1.0),
        entry({"user": "alice"}, producer_byte_rate=2.0),
    )
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert image.client_quotas == {(("user", "alice"),): {"producer_byte_rate": 1.0}}


def test_a_quota_key_may_occur_once_per_entity() -> None:
    twice = RequestEntryData(
        entity=(RequestEntityData(entity_type="user", entity_name="alice"),),
        ops=(OpData(key="producer_byte_rate", value=1.0), OpData(key="producer_byte_rate", value=2.0)),
    )
    image, codes = alter_quotas(EMPTY, twice)
    assert (image.client_quotas, codes) == ({}, [ErrorCode.INVALID_REQUEST])


class CountedKey(str):
    """A key that counts comparisons."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_an_entity_with_thousands_of_keys_is_checked_in_one_pass() -> None:
    CountedKey.comparisons = 0
    keys = [CountedKey(f"no_quota_{number}") for number in range(2_000)]
    many = RequestEntryData(
        entity=(RequestEntityData(entity_type="user", entity_name="alice"),),
        ops=tuple(OpData(key=key, value=1.0) for key in keys),
    )
    _, codes = alter_quotas(EMPTY, many)
    assert codes == [ErrorCode.INVALID_REQUEST]
    assert CountedKey.comparisons < 10 * len(keys)


@pytest.mark.parametrize(
    "entity",
    [
        {},
        {"user": ""},
        {"shoe-size": "44"},
        {"ip": "1.2.3.4", "user": "alice"},
        {"ip": "no-such-host.invalid"},
    ],
)
def test_an_invalid_entity_is_refused(entity: Entity) -> None:
    key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
    assert code(entity, **cast(dict[str, Any], {key: 5.0})) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("entity", [{"ip": "1.2.3.4"}, {"ip": "::1"}, {"ip": None}, {"ip": "known"}])
def test_an_ip_entity_has_a_connection_creation_rate(entity: Entity) -> None:
    assert code(entity, ("known",), connection_creation_rate=5.0) is ErrorCode.NONE
    assert code(entity, ("known",), producer_byte_rate=5.0) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("producer_byte_rate", 1.0, ErrorCode.NONE),
        ("producer_byte_rate", 0.0, ErrorCode.INVALID_REQUEST),
        ("producer_byte_rate", -5.0, ErrorCode.INVALID_REQUEST),
        ("producer_byte_rate", 1.5, ErrorCode.INVALID_REQUEST),
        ("producer_byte_rate", 1e30, ErrorCode.INVALID_REQUEST),
        ("producer_byte_rate", math.nan, ErrorCode.INVALID_REQUEST),
        ("consumer_byte_rate", 1e12, ErrorCode.NONE),
        ("request_percentage", 0.5, ErrorCode.NONE),
        ("controller_mutation_rate", 1.5, ErrorCode.NONE),
        ("connection_creation_rate", 5.0, ErrorCode.INVALID_REQUEST),
        ("nonsense", 5.0, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_value_outside_the_range_of_its_key_is_refused(key: str, value: float, expected: ErrorCode) -> None:
    assert code({"user": "alice"}, **cast(dict[str, Any], {key: value})) is expected


def test_a_connection_creation_rate_is_a_positive_integer() -> None:
    assert code({"ip": None}, connection_creation_rate=2.0**31) is ErrorCode.INVALID_REQUEST
    assert code({"ip": None}, connection_creation_rate=0.5) is ErrorCode.INVALID_REQUEST


# ---- filters


def quotas() -> MetadataImage:
    image, codes = alter_quotas(
        EMPTY,
        entry({"user": "alice"}, producer_byte_rate=1.0),
        entry({"user": None}, producer_byte_rate=2.0),
        entry({"user": "alice", "client-id": "app"}, producer_byte_rate=3.0),
        entry({"client-id": "app"}, producer_byte_rate=4.0),
        entry({"ip": "1.2.3.4"}, connection_creation_rate=5.0),
    )
    assert set(codes) == {ErrorCode.NONE}
    return image


def values(*components: FilterComponent, strict: bool = False) -> list[float]:
    quota_entries = run_steps(matching_quotas(quotas(), components, strict=strict))
    return sorted(value for _, quota in quota_entries for value in quota.values())


def exact_entity(kind: str, name: str) -> FilterComponent:
    return FilterComponent(kind, MatchType.EXACT, name)


def any_entity(kind: str) -> FilterComponent:
    return FilterComponent(kind, MatchType.ANY, None)


def test_filters_return_matching_entities() -> None:
    assert values() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert values(strict=True) == []
    assert values(exact_entity("user", "alice")) == [1.0, 3.0]
    assert values(exact_entity("user", "alice"), strict=True) == [1.0]
    assert values(FilterComponent("user", MatchType.DEFAULT, None)) == [2.0]
    assert values(any_entity("user")) == [1.0, 2.0, 3.0]
    assert values(any_entity("user"), any_entity("client-id")) == [3.0]
    assert values(any_entity("ip")) == [5.0]


@pytest.mark.parametrize(
    "components",
    [
        [exact_entity("", "alice")],
        [any_entity("user"), exact_entity("user", "alice")],
        [FilterComponent("user", MatchType.EXACT, None)],
        [FilterComponent("user", MatchType.DEFAULT, "alice")],
        [FilterComponent("user", MatchType.ANY, "alice")],
        [FilterComponent("user", 3, None)],
        [any_entity("user"), any_entity("ip")],
    ],
)
def test_an_invalid_filter_is_refused(components: list[FilterComponent]) -> None:
    with pytest.raises(KafkaError) as error:
        values(*components)
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_an_unknown_entity_type_in_a_filter_returns_unsupported_version() -> None:
    with pytest.raises(KafkaError) as error:
        values(any_entity("shoe-size"))
    assert error.value.code is ErrorCode.UNSUPPORTED_VERSION
