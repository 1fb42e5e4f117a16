"""The principal of a forwarded request, inside Envelope requests (KIP-590).

    version int16 | DefaultPrincipalData in that version

Errors: DecodeError for bytes in another format.
Source: DefaultPrincipalData.json and DefaultKafkaPrincipalBuilder of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

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


def encode_principal(principal: str) -> bytes:
    """Return the bytes of `principal`, which is type:name."""
    kind, _, name = principal.partition(":")
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + encode(
        DefaultPrincipalData(type=kind, name=name), _VERSION
    )


def decode_principal(data: bytes) -> str:
    """Return the principal in `data` as type:name.

    Errors: DecodeError for an unknown version or damaged data.
    """
    if len(data) < _VERSION_BYTES:
        raise DecodeError(f"principal of {len(data)} bytes: a version takes {_VERSION_BYTES} bytes")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version != _VERSION:
        raise DecodeError(f"principal version {version} is not supported; only {_VERSION} is")
    found, _ = decode_prefix(DefaultPrincipalData, data, version, _VERSION_BYTES)
    return f"{found.type}:{found.name}"
