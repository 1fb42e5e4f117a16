"""The request and the response of the AlterUserScramCredentials API (key 51).

Source: AlterUserScramCredentialsRequest.json and AlterUserScramCredentialsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bytes,
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
class ScramCredentialDeletion(Struct):
    """One entry of `deletions` of `AlterUserScramCredentialsRequest`."""

    name: Annotated[str, String("0+")] = ""
    mechanism: Annotated[int, Int8("0+")] = 0


@message
class ScramCredentialUpsertion(Struct):
    """One entry of `upsertions` of `AlterUserScramCredentialsRequest`."""

    hidden_fields: ClassVar[frozenset[str]] = frozenset({"salt", "salted_password"})

    name: Annotated[str, String("0+")] = ""
    mechanism: Annotated[int, Int8("0+")] = 0
    iterations: Annotated[int, Int32("0+")] = 0
    salt: Annotated[bytes, Bytes("0+")] = b""
    salted_password: Annotated[bytes, Bytes("0+")] = b""


@message
class AlterUserScramCredentialsRequest(ApiMessage):
    """The request of the `AlterUserScramCredentials` API (key 51), version 0."""

    api_key: ClassVar[int] = 51
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    deletions: Annotated[tuple[ScramCredentialDeletion, ...], Array(ScramCredentialDeletion, "0+")] = ()
    upsertions: Annotated[tuple[ScramCredentialUpsertion, ...], Array(ScramCredentialUpsertion, "0+")] = ()


@message
class AlterUserScramCredentialsResult(Struct):
    """One entry of `results` of `AlterUserScramCredentialsResponse`."""

    user: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class AlterUserScramCredentialsResponse(ApiMessage):
    """The response of the `AlterUserScramCredentials` API (key 51), version 0."""

    api_key: ClassVar[int] = 51
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[
        tuple[AlterUserScramCredentialsResult, ...], Array(AlterUserScramCredentialsResult, "0+")
    ] = ()
