"""SCRAM credentials in the metadata: mechanisms, keys, and descriptions without secrets.

    stored key = H(HMAC(salted password, "Client Key"))
    server key = HMAC(salted password, "Server Key")

Source: RFC 5802, KIP-554; ScramControlManager and ScramImage of Apache Kafka 4.3.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, shortened
from tidelog.protocol.steps import Steps, each

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms; the numbers of requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


_HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


class ScramKeys(NamedTuple):
    """The keys that are stored instead of a password."""

    stored_key: bytes
    server_key: bytes


class Credential(NamedTuple):
    """The description of a credential."""

    mechanism: int
    iterations: int


class UserCredentials(NamedTuple):
    """The description of a user's credentials."""

    user: str
    code: ErrorCode
    text: str | None
    credentials: tuple[Credential, ...]


def keys_of(mechanism: ScramMechanism, salted_password: bytes) -> ScramKeys:
    """Return the keys that replace the salted password."""
    name = _HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramKeys(
        hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)
    )


def describe_credentials(image: MetadataImage, users: Sequence[str]) -> Steps[tuple[UserCredentials, ...]]:
    """Describe the credentials of `users`, or of all users if it is empty."""
    counts = Counter(users or sorted({user for user, _ in image.scram_credentials}))
    return (yield from each(lambda user: _describe(image, user, counts[user]), counts))


def _describe(image: MetadataImage, user: str, count: int) -> UserCredentials:
    if count > 1:
        text = shortened(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user!r}"
        )
        return UserCredentials(user, ErrorCode.DUPLICATE_RESOURCE, text, ())
    found = tuple(
        Credential(mechanism, image.scram_credentials[user, mechanism].iterations)
        for mechanism in ScramMechanism
        if (user, mechanism) in image.scram_credentials
    )
    if not found:
        text = shortened(f"Attempt to describe a user credential that does not exist: {user!r}")
        return UserCredentials(user, ErrorCode.RESOURCE_NOT_FOUND, text, ())
    return UserCredentials(user, ErrorCode.NONE, None, found)
