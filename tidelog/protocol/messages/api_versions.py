"""The request and the response of the ApiVersions API (key 18).

Source: ApiVersionsRequest.json and ApiVersionsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class ApiVersionsRequest(ApiMessage):
    """The request of the `ApiVersions` API (key 18), versions 0-4."""

    api_key: ClassVar[int] = 18
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("3+")

    client_software_name: Annotated[str, String("3+", ignorable=True)] = ""
    client_software_version: Annotated[str, String("3+", ignorable=True)] = ""


@message
class ApiVersion(Struct):
    """One entry of `api_keys` of `ApiVersionsResponse`."""

    api_key: Annotated[int, Int16("0+")] = 0
    min_version: Annotated[int, Int16("0+")] = 0
    max_version: Annotated[int, Int16("0+")] = 0


@message
class SupportedFeatureKey(Struct):
    """One entry of `supported_features` of `ApiVersionsResponse`."""

    name: Annotated[str, String("3+")] = ""
    min_version: Annotated[int, Int16("3+")] = 0
    max_version: Annotated[int, Int16("3+")] = 0


@message
class FinalizedFeatureKey(Struct):
    """One entry of `finalized_features` of `ApiVersionsResponse`."""

    name: Annotated[str, String("3+")] = ""
    max_version_level: Annotated[int, Int16("3+")] = 0
    min_version_level: Annotated[int, Int16("3+")] = 0


@message
class ApiVersionsResponse(ApiMessage):
    """The response of the `ApiVersions` API (key 18), versions 0-4."""

    api_key: ClassVar[int] = 18
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("3+")

    error_code: Annotated[int, Int16("0+")] = 0
    api_keys: Annotated[tuple[ApiVersion, ...], Array(ApiVersion, "0+")] = ()
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    supported_features: Annotated[
        tuple[SupportedFeatureKey, ...], Array(SupportedFeatureKey, "3+", tag=0, tagged="3+", ignorable=True)
    ] = ()
    finalized_features_epoch: Annotated[int, Int64("3+", tag=1, tagged="3+", ignorable=True)] = -1
    finalized_features: Annotated[
        tuple[FinalizedFeatureKey, ...], Array(FinalizedFeatureKey, "3+", tag=2, tagged="3+", ignorable=True)
    ] = ()
    zk_migration_ready: Annotated[bool, Bool("3+", tag=3, tagged="3+", ignorable=True)] = False
