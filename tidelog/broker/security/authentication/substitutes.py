"""SCRAM credentials for users and tokens that do not exist.

Without them, a client could find out which names exist: an unknown name also gets a salt, and fails with its
proof, as a wrong password does.
"""

from __future__ import annotations

import hmac
from typing import Final

from tidelog.base.randomness import Randomness
from tidelog.security.scram.credentials import ScramCredential, ScramKeys, ScramMechanism

SALT_BYTES: Final = 26
"""The usual length of a salt that Apache Kafka generates."""
SALT_BYTES_MAX: Final = 64
_SECRET_BITS: Final = 512


def derived_salt(secret: bytes, name: str, size_bytes: int = SALT_BYTES) -> bytes:
    """Return the salt of `name`, always the same for a secret; at most SALT_BYTES_MAX bytes."""
    return hmac.digest(secret, b"salt of " + name.encode(), "sha512")[:size_bytes]


class SubstituteCredentials:
    """Creates credentials that no password matches; `secret` is random, and known to this process only."""

    def __init__(self, randomness: Randomness) -> None:
        self.secret = randomness.getrandbits(_SECRET_BITS).to_bytes(_SECRET_BITS // 8)

    def create(self, name: str, mechanism: ScramMechanism, salt: bytes, iterations: int) -> ScramCredential:
        """Return a credential for `name` with random keys: a proof would need a preimage of the hash."""
        key = hmac.digest(self.secret, b"key of " + name.encode(), mechanism.hash_name)
        return ScramCredential(salt, iterations, ScramKeys(key, key))
