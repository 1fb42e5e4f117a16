"""Client quotas: the valid entities and keys, and filters that select entities (KIP-546, KIP-599, KIP-612).

    entity                                 keys
    user, client-id, or both together      producer_byte_rate, consumer_byte_rate, request_percentage,
                                           controller_mutation_rate
    ip, not combined                       connection_creation_rate

A name of None is the default of its type.

Source: ClientQuotaControlManager, ClientQuotasImage and QuotaConfig of Apache Kafka 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from ipaddress import ip_address
from typing import Final, NamedTuple

from tidelog.cluster.image import MetadataImage, QuotaEntity
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import Steps

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

# The largest value of each key whose values are whole numbers; None for a key without this restriction.
_USER_AND_CLIENT_KEYS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": 2**63 - 1,
    "consumer_byte_rate": 2**63 - 1,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_KEYS: Final[Mapping[str, int | None]] = {"connection_creation_rate": 2**31 - 1}
_ROUNDING: Final = 1e-6


class MatchType(IntEnum):
    """The kind of match of a filter component; the numbers of DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class FilterComponent(NamedTuple):
    """The condition of a filter for one entity type."""

    entity_type: str
    match_type: int
    match: str | None


def keys_for(entity: Mapping[str, str | None], hosts: Collection[str]) -> Mapping[str, int | None]:
    """Return the quota keys that `entity` may have, each with its largest value.

    `hosts`: the host names that can be resolved.
    Errors: KafkaError INVALID_REQUEST if the entity is invalid.
    """
    if not entity:
        raise _error("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            raise _error(
                f"Unhandled client quota entity type: {kind!r}; allowed are {', '.join(ENTITY_TYPES)}"
            )
        if name == "":
            raise _error(f"Empty {kind} not supported; the default has the name null")
    if IP not in entity:
        return _USER_AND_CLIENT_KEYS
    if len(entity) > 1:
        raise _error(
            f"Invalid quota entity combination {dict(entity)}: ip cannot be combined with user or client-id"
        )
    address = entity[IP]
    if address is not None and address not in hosts and not is_address(address):
        raise _error(f"{address!r} is not a valid IP or resolvable host")
    return _IP_KEYS


def check_value(keys: Mapping[str, int | None], key: str, value: float) -> None:
    """Raise KafkaError INVALID_REQUEST if `key` is not in `keys` or `value` is not valid for it."""
    if key not in keys:
        raise _error(f"Invalid configuration key {key!r}; allowed for this entity are {', '.join(keys)}")
    if math.isnan(value) or value <= 0:
        raise _error(f"Quota {key} must be greater than 0: {value}")
    highest = keys[key]
    if highest is None:
        return
    if value > highest:
        raise _error(f"Proposed value for {key} is too large: {value}; must be at most {highest}")
    if abs(value % 1.0) > _ROUNDING:
        raise _error(f"{key} cannot be a fractional value: {value}")


def is_address(text: str) -> bool:
    """Return whether `text` is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def matching_quotas(
    image: MetadataImage, components: Iterable[FilterComponent], *, strict: bool
) -> Steps[list[tuple[QuotaEntity, Mapping[str, float]]]]:
    """Return the entities that match all `components`, with their quotas.

    `strict`: entities with other entity types do not match.
    Errors: KafkaError UNSUPPORTED_VERSION if an entity type is unknown, INVALID_REQUEST if another part of a
    component is invalid.
    """
    by_type: dict[str, FilterComponent] = {}
    for component in components:
        yield None
        _check_component(component, by_type)
        by_type[component.entity_type] = component
    if IP in by_type and len(by_type) > 1:
        raise _error(
            "Invalid entity filter component combination: ip cannot be combined with user or client-id"
        )
    matching = []
    for entity, quotas in image.client_quotas.items():
        yield None
        if _matches(dict(entity), by_type.values()) and not (strict and len(entity) != len(by_type)):
            matching.append((entity, quotas))
    return matching


def _check_component(component: FilterComponent, earlier_types: Collection[str]) -> None:
    kind, match_type, match = component
    if not kind:
        raise _error("Invalid empty entity type in a filter component")
    if kind in earlier_types:
        raise _error(f"Entity type {kind} cannot appear more than once in the filter")
    if kind not in ENTITY_TYPES:
        text = f"Unsupported entity type {kind!r}; allowed are {', '.join(ENTITY_TYPES)}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    if match_type not in tuple(MatchType):
        raise _error(f"Unknown match type {match_type}")
    if match_type == MatchType.EXACT and match is None:
        raise _error(f"Filter component {kind}: an exact match requires a name")
    if match_type != MatchType.EXACT and match is not None:
        raise _error(f"Filter component {kind}: only an exact match can have a name, not {match!r}")


def _matches(entity: Mapping[str, str | None], components: Iterable[FilterComponent]) -> bool:
    return all(
        kind in entity and (match_type == MatchType.ANY or entity[kind] == match)
        for kind, match_type, match in components
    )


def _error(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
