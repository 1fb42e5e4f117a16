"""Registration of controllers, with their listeners and supported features.

Source: KIP-919; ClusterControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.cluster.controller.registration_fields import registered_endpoints, registered_features
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.features import METADATA_VERSION
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.controller_registration import ControllerRegistrationRequest
from tidelog.protocol.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

# metadata.version 3.7-IV0.
_FIRST_WITH_CONTROLLERS: Final = 15


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> ControllerResult[None]:
    """Register a controller.

    Errors: KafkaError UNSUPPORTED_VERSION if the metadata.version does not support it.
    """
    if image.features.get(METADATA_VERSION, 0) < _FIRST_WITH_CONTROLLERS:
        level = image.features.get(METADATA_VERSION)
        text = f"{METADATA_VERSION} {level} is too old to support controller registrations"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=registered_endpoints(ControllerEndpoint, request.listeners),
        features=registered_features(ControllerFeature, request.features),
    )
    return ControllerResult((record,), None)
