"""Client quotas: the valid entities and keys, and filters of entities (KIP-546, KIP-599, KIP-612).

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
    """Return the keys that an entity may have; `hosts` are names that resolve to an address.

    Errors: KafkaError INVALID_REQUEST for an invalid entity.
    """
    if not entity:
        raise _error("a client quota needs an entity")
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            raise _error(f"there are no client quotas for the entity type {kind!r}")
        if name == "":
            raise _error(f"the name of a {kind} must not be empty")
    if IP not in entity:
        return _USER_AND_CLIENT_KEYS
    if len(entity) > 1:
        raise _error("quotas of an ip cannot be combined with a user or a client-id")
    address = entity[IP]
    if address is not None and address not in hosts and not is_address(address):
        raise _error(f"{address!r} is neither an address nor a host that can be resolved")
    return _IP_KEYS


def check_value(keys: Mapping[str, int | None], key: str, value: float) -> None:
    """Raise KafkaError INVALID_REQUEST unless `value` is valid for `key`."""
    if key not in keys:
        raise _error(f"{key!r} is not a quota of this entity, it may have {', '.join(keys)}")
    if math.isnan(value) or value <= 0:
        raise _error(f"{key}={value}: must be greater than 0")
    highest = keys[key]
    if highest is None:
        return
    if value > highest:
        raise _error(f"{key}={value}: must be at most {highest}")
    if abs(value % 1.0) > _ROUNDING:
        raise _error(f"{key}={value}: must be a whole number")


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
    """Return the entities that match all `components`; `strict`: and have no other entity type.

    Errors: KafkaError INVALID_REQUEST, UNSUPPORTED_VERSION for an unknown entity type.
    """
    wanted: dict[str, FilterComponent] = {}
    for component in components:
        yield None
        _check_component(component, wanted)
        wanted[component.entity_type] = component
    if IP in wanted and len(wanted) > 1:
        raise _error("a filter for an ip cannot be combined with a user or a client-id")
    found = []
    for entity, quotas in image.client_quotas.items():
        yield None
        if _matches(dict(entity), wanted.values()) and not (strict and len(entity) != len(wanted)):
            found.append((entity, quotas))
    return found


def _check_component(component: FilterComponent, earlier: Collection[str]) -> None:
    kind, match_type, match = component
    if not kind:
        raise _error("a component of a filter needs an entity type")
    if kind in earlier:
        raise _error(f"the entity type {kind!r} is in the filter twice")
    if kind not in ENTITY_TYPES:
        text = f"there are no client quotas for the entity type {kind!r}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    if match_type not in tuple(MatchType):
        raise _error(f"there is no match type {match_type}")
    if match_type == MatchType.EXACT and match is None:
        raise _error(f"an exact match of {kind!r} needs a name")
    if match_type != MatchType.EXACT and match is not None:
        raise _error(f"only an exact match of {kind!r} has a name, this one has {match!r}")


def _matches(entity: Mapping[str, str | None], wanted: Iterable[FilterComponent]) -> bool:
    return all(
        kind in entity and (match_type == MatchType.ANY or entity[kind] == match)
        for kind, match_type, match in wanted
    )


def _error(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
