"""Descriptions of the SCRAM credentials in the metadata, without secrets.

Source: KIP-554; ScramImage of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, shortened
from tidelog.protocol.steps import Steps, map_items
from tidelog.security.scram.credentials import ScramMechanism


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


def describe_credentials(image: MetadataImage, users: Sequence[str]) -> Steps[tuple[UserCredentials, ...]]:
    """Describe the credentials of `users`, or of all users if it is empty."""
    counts = Counter(users or sorted({user for user, _ in image.scram_credentials}))
    return (yield from map_items(lambda user: _describe(image, user, counts[user]), counts))


def _describe(image: MetadataImage, user: str, count: int) -> UserCredentials:
    if count > 1:
        text = shortened(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user!r}"
        )
        return UserCredentials(user, ErrorCode.DUPLICATE_RESOURCE, text, ())
    credentials = tuple(
        Credential(mechanism, image.scram_credentials[user, mechanism].iterations)
        for mechanism in ScramMechanism
        if (user, mechanism) in image.scram_credentials
    )
    if not credentials:
        text = shortened(f"Attempt to describe a user credential that does not exist: {user!r}")
        return UserCredentials(user, ErrorCode.RESOURCE_NOT_FOUND, text, ())
    return UserCredentials(user, ErrorCode.NONE, None, credentials)
