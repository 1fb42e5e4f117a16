"""The principal of a forwarded request, inside Envelope requests (KIP-590).

    version int16 | DefaultPrincipalData in that version

Errors: DecodeError for bytes in another format.
Source: DefaultPrincipalData.json and DefaultKafkaPrincipalBuilder of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, NamedTuple

from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.schema import Bool, Message, String, Versions, message, versions

_VERSION: Final = 0
_VERSION_BYTES: Final = 2


@message
class DefaultPrincipalData(Message):
    """`DefaultPrincipalData`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    type: Annotated[str, String("0+")] = ""
    name: Annotated[str, String("0+")] = ""
    token_authenticated: Annotated[bool, Bool("0+")] = False


class ForwardedPrincipal(NamedTuple):
    """A principal as type:name, and whether the client has authenticated with a delegation token."""

    principal: str
    is_token_authenticated: bool


def encode_principal(principal: str, *, is_token_authenticated: bool) -> bytes:
    """Return the bytes of `principal`, which is type:name."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=is_token_authenticated)
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + encode(data, _VERSION)


def decode_principal(data: bytes) -> ForwardedPrincipal:
    """Return the principal in `data`.

    Errors: DecodeError for an unknown version or damaged data.
    """
    if len(data) < _VERSION_BYTES:
        raise DecodeError(f"principal of {len(data)} bytes: a version takes {_VERSION_BYTES} bytes")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version != _VERSION:
        raise DecodeError(f"principal version {version} is not supported; only {_VERSION} is")
    principal, _ = decode_prefix(DefaultPrincipalData, data, version, _VERSION_BYTES)
    return ForwardedPrincipal(f"{principal.type}:{principal.name}", principal.token_authenticated)
