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


def registered_endpoints(field_type: type[Endpoint], listeners: Iterable[Listener]) -> tuple[Endpoint, ...]:
    """Return the listeners of a node as fields of its registration record."""
    return tuple(
        field_type(
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in listeners
    )


def registered_features(
    field_type: type[Feature], features: Iterable[SupportedFeature]
) -> tuple[Feature, ...]:
    """Return the supported features of a node as fields of its registration record."""
    return tuple(
        field_type(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in features
    )
