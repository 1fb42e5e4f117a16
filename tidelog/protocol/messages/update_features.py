"""The request and the response of the UpdateFeatures API (key 57).

Source: UpdateFeaturesRequest.json and UpdateFeaturesResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class FeatureUpdateKey(Struct):
    """One entry of `feature_updates` of `UpdateFeaturesRequest`."""

    feature: Annotated[str, String("0+")] = ""
    max_version_level: Annotated[int, Int16("0+")] = 0
    allow_downgrade: Annotated[bool, Bool("0")] = False
    upgrade_type: Annotated[int, Int8("1+")] = 1


@message
class UpdateFeaturesRequest(ApiMessage):
    """The request of the `UpdateFeatures` API (key 57), versions 0-2."""

    api_key: ClassVar[int] = 57
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    timeout_ms: Annotated[int, Int32("0+")] = 60000
    feature_updates: Annotated[tuple[FeatureUpdateKey, ...], Array(FeatureUpdateKey, "0+")] = ()
    validate_only: Annotated[bool, Bool("1+")] = False


@message
class UpdatableFeatureResult(Struct):
    """One entry of `results` of `UpdateFeaturesResponse`."""

    feature: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class UpdateFeaturesResponse(ApiMessage):
    """The response of the `UpdateFeatures` API (key 57), versions 0-2."""

    api_key: ClassVar[int] = 57
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    results: Annotated[
        tuple[UpdatableFeatureResult, ...], Array(UpdatableFeatureResult, "0-1", ignorable=True)
    ] = ()
