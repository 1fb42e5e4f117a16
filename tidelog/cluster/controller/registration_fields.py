"""The common fields of broker and controller registrations: endpoints and supported features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from tidelog.protocol.messages import broker_registration, controller_registration
from tidelog.protocol.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature
from tidelog.protocol.metadata_records.register_controller_record import ControllerEndpoint, ControllerFeature

Listener: TypeAlias = broker_registration.Listener | controller_registration.Listener
SupportedFeature: TypeAlias = broker_registration.Feature | controller_registration.Feature
Endpoint = TypeVar("Endpoint", BrokerEndpoint, ControllerEndpoint)
Feature = TypeVar("Feature", BrokerFeature, ControllerFeature)


def registered_endpoints(kind: type[Endpoint], listeners: Iterable[Listener]) -> tuple[Endpoint, ...]:
    """Return a node's listeners as fields of its record."""
    return tuple(
        kind(
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in listeners
    )


def registered_features(kind: type[Feature], offered: Iterable[SupportedFeature]) -> tuple[Feature, ...]:
    """Return a node's supported features as fields of its record."""
    return tuple(
        kind(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in offered
    )
